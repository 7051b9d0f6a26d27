"""Paddle models, exported by paddle2onnx."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes


def of_paddle() -> Iterator[tuple[str, Shapes, Maker]]:
    """Small networks with open batch, as ``paddle.onnx.export`` writes them."""
    import paddle
    import paddle2onnx  # noqa: F401  (paddle.onnx.export needs it and says so late)
    from paddle import nn

    class Call(nn.Layer):
        def __init__(self, function: Callable[[Any], Any], *layers: Any) -> None:
            super().__init__()
            self.function, self.layers = function, nn.LayerList(layers)

        def forward(self, x: Any) -> Any:
            return self.function(x, *self.layers)

    f = nn.functional
    image, sequence = [3, 16, 16], [5, 6]
    networks: list[tuple[str, Any, list[int]]] = [
        ("mlp", nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax()), [6]),
        ("cnn", nn.Sequential(nn.Conv2D(3, 8, 3, 2, 1), nn.BatchNorm2D(8), nn.Hardswish()), image),
        ("mobile", nn.Sequential(nn.Conv2D(3, 6, 1), nn.Conv2D(6, 6, 3, groups=6), nn.ReLU6(), nn.MaxPool2D(2)), image),
        ("deconv", nn.Sequential(nn.Conv2DTranspose(3, 4, 2, 2), nn.Sigmoid()), image),
        ("upscale", nn.Sequential(nn.Conv2D(3, 12, 3, padding=1), nn.PixelShuffle(2)), image),
        ("nearest", Call(lambda x: f.interpolate(x, scale_factor=2, mode="nearest")), image),
        ("bilinear", Call(lambda x: f.interpolate(x, scale_factor=2, mode="bilinear")), image),
        ("squeeze_excite", Call(lambda x, a, b: x * f.hardsigmoid(b(f.relu(a(f.adaptive_avg_pool2d(x, 1))))),
                                nn.Conv2D(3, 4, 1), nn.Conv2D(4, 3, 1)), image),
        ("lstm", Call(lambda x, r: r(x)[0], nn.LSTM(6, 8)), sequence),
        ("lstm_two_ways", Call(lambda x, r: r(x)[0], nn.LSTM(6, 8, direction="bidirect")), sequence),
        ("gru", Call(lambda x, r: r(x)[0], nn.GRU(6, 8)), sequence),
        ("transformer", nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0), [5, 16]),
        ("layer_norm", nn.Sequential(nn.LayerNorm(6), nn.GELU()), sequence),
        ("group_norm", nn.Sequential(nn.Conv2D(3, 8, 1), nn.GroupNorm(2, 8), nn.Swish()), image),
        ("topk", Call(lambda x: paddle.topk(x, 3)[0]), sequence),
        ("argmax", Call(lambda x: paddle.argmax(x, -1)), sequence),
        ("slices", Call(lambda x: paddle.concat([x[:, 1:3], x[:, :2].flip(1)], -1)), sequence),
        ("reductions", Call(lambda x: paddle.logsumexp(x, -1) + x.std(-1) + x.norm(axis=-1)), sequence),
        ("where", Call(lambda x: paddle.where(x > 0, x, paddle.exp(x) - 1)), sequence),
        ("shapes", Call(lambda x: x.reshape([x.shape[0], -1]).transpose([1, 0])), sequence),
    ]  # fmt: skip

    def maker_of(network: Any, shape: list[int], opset: int) -> Maker:
        def maker(path: Path) -> None:
            network.eval()
            spec = [paddle.static.InputSpec([None, *shape], "float32", "x")]
            with tempfile.TemporaryDirectory() as folder:
                paddle.onnx.export(network, f"{folder}/model", input_spec=spec, opset_version=opset)
                shutil.move(f"{folder}/model.onnx", path)

        return maker

    for name, network, shape in networks:
        for opset in (11, 16):
            yield f"{name}_{opset}", {"x": [1, *shape]}, maker_of(network, shape, opset)

"""PyTorch models, by both of PyTorch's exporters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes


def of_torch() -> Iterator[tuple[str, Shapes, Maker]]:
    """Small networks of every kind, by both exporters, at several opsets."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self, kind: str, **options: Any) -> None:
            super().__init__()
            self.layer = getattr(nn, kind)(6, 8, batch_first=True, **options)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    class Call(nn.Module):
        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, *inputs: Any) -> Any:
            return self.function(*inputs)

    image, sequence = torch.randn(1, 3, 16, 16), torch.randn(1, 5, 6)
    up = nn.functional.interpolate
    networks: list[tuple[str, Any, Any]] = [
        ("mlp", nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1)), torch.randn(1, 6)),
        (
            "cnn",
            nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
            image,
        ),
        (
            "mobile",
            nn.Sequential(nn.Conv2d(3, 6, 1), nn.Hardswish(), nn.Conv2d(6, 6, 3, 1, 1, groups=6), nn.SiLU()),
            image,
        ),
        ("deconv", nn.Sequential(nn.ConvTranspose2d(3, 4, 4, 2, 1), nn.LeakyReLU(), nn.InstanceNorm2d(4)), image),
        ("upscale", nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2), nn.Sigmoid()), image),
        ("bilinear", Call(lambda x: up(x, scale_factor=2.0, mode="bilinear", align_corners=False)), image),
        ("aligned", Call(lambda x: up(x, size=(24, 20), mode="bilinear", align_corners=True)), image),
        ("bicubic", Call(lambda x: up(x, size=(24, 20), mode="bicubic")), image),
        ("antialias", Call(lambda x: up(x, size=(7, 9), mode="bilinear", antialias=True)), image),
        ("nearest", Call(lambda x: up(x, scale_factor=2.0, mode="nearest")), image),
        ("lstm", Recurrent("LSTM"), sequence),
        ("lstm_two_ways", Recurrent("LSTM", bidirectional=True, num_layers=2), sequence),
        ("gru", Recurrent("GRU"), sequence),
        ("rnn", Recurrent("RNN"), sequence),
        ("transformer", Attention(), torch.randn(1, 5, 16)),
        ("layer_norm", nn.Sequential(nn.LayerNorm(6), nn.GELU()), sequence),
        ("group_norm", nn.Sequential(nn.Conv2d(3, 8, 1), nn.GroupNorm(2, 8), nn.Mish()), image),
        ("embedding", nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 4)), torch.randint(0, 20, (1, 7))),
        ("conv1d", nn.Sequential(nn.Conv1d(5, 8, 3, padding=1), nn.ELU(), nn.MaxPool1d(2)), sequence),
        (
            "conv3d",
            nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2)),
            torch.randn(1, 2, 4, 8, 8),
        ),
        ("einsum", Call(lambda x: torch.einsum("bij,bkj->bik", x, x)), sequence),
        ("cumsum", Call(lambda x: torch.cumsum(x, 1)), sequence),
        ("cumprod", Call(lambda x: torch.cumprod(x, 1)), sequence),
        ("topk", Call(lambda x: torch.topk(x, 3, -1)), sequence),
        ("argmax", Call(lambda x: x.argmax(-1)), sequence),
        ("gather", Call(lambda x: torch.gather(x, 1, torch.tensor([[[0, 1, 2, 3, 4, 0]]]))), sequence),
        ("grid_sample", Call(lambda x: nn.functional.grid_sample(x, torch.tanh(x[:, :2].permute(0, 2, 3, 1)))), image),
        ("padding", Call(lambda x: nn.functional.pad(x, (1, 2, 2, 1), mode="reflect")), image),
        ("logsumexp", Call(lambda x: torch.logsumexp(x, -1)), sequence),
        ("norms", Call(lambda x: x / x.norm(dim=-1, keepdim=True)), sequence),
        ("where", Call(lambda x: torch.where(x > 0, x, x.exp() - 1)), sequence),
        ("triangle", Call(lambda x: torch.tril(x @ x.transpose(1, 2))), sequence),
        ("einops", Call(lambda x: x.reshape(1, 3, 4, 4, 4, 4).permute(0, 2, 4, 1, 3, 5).flatten(3).mean(-1)), image),
        ("scatter", Call(lambda x: x.scatter(1, torch.zeros(1, 1, 6, dtype=torch.long), x[:, :1] * 2)), sequence),
        ("remainder", Call(lambda x: torch.remainder(x, 0.7)), sequence),
    ]

    def maker_of(network: Any, x: Any, opset: int, dynamo: bool, axes: Any) -> Maker:
        def maker(path: Path) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options: dict[str, Any] = {"dynamo": True} if dynamo else {"dynamo": False, "dynamic_axes": axes}
                torch.onnx.export(
                    network.eval(),
                    (x,),
                    str(path),
                    input_names=["x"],
                    opset_version=opset,
                    external_data=False,
                    **options,
                )

        return maker

    for name, network, x in networks:
        for opset in (7, 9, 11, 17):
            yield f"{name}_script_{opset}", {}, maker_of(network, x, opset, False, None)
        for opset in (18, 21, 23):
            yield f"{name}_dynamo_{opset}", {}, maker_of(network, x, opset, True, None)
    for name, network, x in networks[:3]:
        yield f"{name}_open_13", {"x": list(x.shape)}, maker_of(network, x, 13, False, {"x": {0: "n"}})

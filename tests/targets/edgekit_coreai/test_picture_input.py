"""Pictures as inputs: what the entry ``pixels`` makes of bytes is what the declared preprocessing makes of the picture.

Off a Mac Apple's runtime takes no pictures: the entry ``picture`` is compiled here, and described.
"""

from __future__ import annotations

from pathlib import Path

import coreai.runtime
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from PIL import Image

from edgekit.model import Model, ValueSpec
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.preprocessing import ImagePreprocessing
from edgekit.progress import Progress
from edgekit.target import BuildOptions
from edgekit_coreai.process import shared
from edgekit_coreai.profiles import PROFILES
from edgekit_coreai.target import CoreAITarget

RANDOM = np.random.default_rng(9)
HEIGHT, WIDTH = 6, 8


def doubling(shape: list[int], element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A model that adds its input to itself, whatever the layout."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["f", "f"], ["y"])],
        "test",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize(
    ("shape", "declared"),
    [
        ([1, 3, HEIGHT, WIDTH], {"scale": 1 / 255, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}),
        ([1, 3, HEIGHT, WIDTH], {"scale": 1.0, "mean": (104.0, 117.0, 123.0), "color": "BGR"}),
        ([1, HEIGHT, WIDTH, 3], {"scale": 2 / 255, "mean": (1.0,)}),
        ([3, HEIGHT, WIDTH], {"scale": 1 / 255}),
        ([1, 1, HEIGHT, WIDTH], {"scale": 1 / 255, "mean": (0.5,), "std": (0.5,)}),
        ([HEIGHT, WIDTH], {"scale": 1.0, "color": "GRAY", "layout": "HW"}),
    ],
)
def test_bytes_become_what_the_preprocessing_makes_of_the_picture(
    tmp_path: Path, shape: list[int], declared: dict[str, object]
) -> None:
    image = ImagePreprocessing(**declared).resolve(ValueSpec("x", "float32", tuple(shape)))  # type: ignore[arg-type]
    colors = RANDOM.integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
    Image.fromarray(colors).save(tmp_path / "picture.png")
    wanted = 2 * image.decoder(ValueSpec("x", "float32", tuple(shape)))(tmp_path / "picture.png")
    artifact = CoreAITarget().build(
        Model(ir.from_proto(doubling(shape))),
        PROFILES[0],
        tmp_path,
        BuildOptions("float32", preprocessing=image, options={"image": "yes"}),
    )
    assert artifact.record["image_input"]
    number, described = shared().ask(artifact.main, "open", artifact.main, "pixels")
    assert described["inputs"] == [("x", "uint8", (HEIGHT, WIDTH, 4))]
    alpha = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)
    feeds = {"x": np.concatenate([colors[:, :, ::-1], alpha], axis=2)}
    results, _ = shared().ask(artifact.main, "run", number, feeds, {})
    np.testing.assert_allclose(results["y"], wanted, atol=2e-6 * max(1.0, np.abs(wanted).max()))


def test_a_bundle_takes_arrays_and_pictures(tmp_path: Path) -> None:
    data = tmp_path / "pictures"
    data.mkdir()
    for number in range(2):
        pixels = RANDOM.integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(data / f"{number}.png")
    onnx.save(doubling([1, 3, HEIGHT, WIDTH]), tmp_path / "model.onnx")
    request = PackageRequest(
        tmp_path / "model.onnx",
        "ios27",
        tmp_path / "bundle",
        data=data,
        quantize="none",
        preprocessing=ImagePreprocessing(1 / 255, (0.5,), (0.25,)),
    )
    bundle = package(request, Progress())
    (built,) = (stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "build")
    assert built["image_input"]
    assert bundle.manifest["accuracy"]["outputs"][0]["sqnr_db"] > 60
    main = tmp_path / "bundle" / "model.aimodel"
    _, described = shared().ask(main, "open", main, "picture")
    assert described["inputs"] == [("x", "k32BGRA", (HEIGHT, WIDTH))]
    assert not coreai.runtime.HAS_IMAGE_SUPPORT  # else the entry picture could be executed here too

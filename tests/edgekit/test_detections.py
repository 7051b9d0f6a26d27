"""A detector's bundle finds what a picture shows, with and without suppression in the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from PIL import Image

import edgekit
from edgekit.errors import InputError
from edgekit.loading import LoadedBundle
from edgekit.preprocessing.image import ImagePreprocessing
from edgekit.preprocessing.placement import Placement

HEIGHT, WIDTH, SIDE = 32, 64, 128
"""The detector's input, and the pictures, which become 32×32 in the middle of it."""
ROWS = 400
SCHEMA = json.loads((Path(edgekit.__file__).parent / "manifest.schema.json").read_text())
GRAPH = """g (float[1, 3, 32, 64] x) => (float[1, 7, 400] boxes, float[1, 2] other) {
    bright = ReduceMean<axes = [1], keepdims = 0>(x)
    all = ReduceSum(bright)
    atx = Mul(bright, columns) sumx = ReduceSum(atx) cx = Div(sumx, all)
    aty = Mul(bright, lines) sumy = ReduceSum(aty) cy = Div(sumy, all)
    centre = Concat<axis = 2>(cx, cy)
    centres = Add(centre, moved)
    table = Concat<axis = 2>(centres, sizes, scores)
    boxes = Transpose<perm = [0, 2, 1]>(table)
    flat = Reshape(all, row)
    other = Concat<axis = 1>(flat, flat)
}"""


def constants() -> dict[str, np.ndarray]:
    """A bird of 12×8 pixels at the brightest place, and a cat of 6×10 beside it; both in several rows."""
    rng = np.random.default_rng(3)
    moved, sizes = rng.uniform(-16, 16, (ROWS, 2)), rng.uniform(2, 16, (ROWS, 2))
    scores = rng.uniform(0, 0.04, (ROWS, 3))
    for row in range(7):
        kind, size, away = (0, (12, 8), (0, 0)) if row < 4 else (2, (6, 10), (7, 3))
        moved[row], sizes[row] = np.array(away) + row % 4 * 0.1, size
        scores[row, kind] = 0.9 - 0.05 * row
    arrays = {
        "columns": np.arange(WIDTH)[None, :] + 0.5,
        "lines": np.arange(HEIGHT)[:, None] + 0.5,
        "moved": moved[None],
        "sizes": sizes[None],
        "scores": scores[None],
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()} | {"row": np.array([1, 1])}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, onnx_model: Callable[..., onnx.ModelProto]) -> Path:
    """The detector, and pictures with one bright square each."""
    folder = tmp_path_factory.mktemp("detector")
    text = GRAPH.replace("ReduceSum(", "ReduceSum<keepdims = 1>(")
    shaped = text.replace("cx = Div(sumx, all)", "cx1 = Div(sumx, all) cx = Reshape(cx1, one)")
    shaped = shaped.replace("cy = Div(sumy, all)", "cy1 = Div(sumy, all) cy = Reshape(cy1, one)")
    arrays = {**constants(), "one": np.array([1, 1, 1])}
    onnx.save(onnx_model(shaped, **arrays), folder / "model.onnx")
    (folder / "labels.txt").write_text("bird\ndog\ncat\n")
    (folder / "edgekit.toml").write_text('[preprocessing]\nkind = "image"\nscale = "1/255"\nresize = "pad"\n')
    (folder / "pictures").mkdir()
    rng = np.random.default_rng(0)
    for number in range(12):
        picture(*rng.integers(30, 90, 2)).save(folder / "pictures" / f"{number}.png")
    return folder


def picture(left: int, top: int) -> Image.Image:
    """A bright square of 8×8, from which on a cat lies to the right and below."""
    pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
    pixels[top : top + 8, left : left + 8] = 255
    return Image.fromarray(pixels)


def packaged(project: Path, target: str, **options: Any) -> LoadedBundle:
    name = f"{target}-{options.get('postprocess', 'plain')}"
    bundle = edgekit.package(
        project / "model.onnx",
        target,
        project / name,
        data=project / "pictures",
        labels=project / "labels.txt",
        quantize="none",
        **options,
    )
    return edgekit.load(bundle)


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", "ios18", "ios16"])
@pytest.mark.parametrize("postprocess", [None, "nms"])
def test_objects_are_found_in_the_pictures_pixels(target: str, postprocess: str | None, project: Path) -> None:
    """Of the 32 rows of the input each stands for 4 of the picture; 16 columns on each side are padding."""
    loaded = packaged(project, target, postprocess=postprocess)
    found = loaded.detect(picture(40, 64))
    assert [(one.label, one.index) for one in found] == [("bird", 0), ("cat", 2)]
    assert [one.score for one in found] == pytest.approx([0.9, 0.7], abs=2e-3)
    centre = np.array([44.0, 68.0])
    for one, size, away in zip(found, ((12, 8), (6, 10)), ((0, 0), (7, 3)), strict=True):
        middle, half = centre + 4 * np.array(away), 2 * np.array(size)
        assert one.box == pytest.approx((*(middle - half), *(middle + half)), abs=0.3)
    outputs = loaded.run(picture(40, 64))
    if postprocess is None:
        assert list(outputs) == ["boxes", "other"]
        assert len(loaded.detect(picture(40, 64), iou=1.0)) == 7
    else:
        assert [(name, array.shape) for name, array in outputs.items()] == [
            ("detections", (1, 100, 6)),
            ("other", (1, 2)),
        ]
        assert not outputs["detections"][0, 2:].any()
    assert loaded.detect(picture(40, 64), score=0.8)[0] == found[0]
    assert len(loaded.detect(picture(40, 64), score=0.8)) == 1


def test_the_bundle_is_verified_against_its_original_again(project: Path) -> None:
    bundle = packaged(project, "intel-cpu", postprocess="nms,iou=0.4,score=0.5,boxes=8").bundle
    manifest = bundle.manifest
    assert manifest["options"]["postprocess"] == {"kind": "nms", "iou": 0.4, "score": 0.5, "boxes": 8}
    jsonschema.validate(manifest, SCHEMA)
    assert (manifest["accuracy"]["meaning"]["count"], manifest["accuracy"]["meaning"]["wrong"]) == (48, 0)
    found = edgekit.verify(bundle, model=project / "model.onnx", data=project / "pictures")
    assert found.accuracy is not None
    assert found.accuracy.meaning is not None
    assert found.accuracy.meaning.wrong == 0


def test_a_project_file_asks_for_it(project: Path) -> None:
    file = project / "declared.toml"
    file.write_text(
        '[preprocessing]\nkind = "image"\nscale = "1/255"\nresize = "pad"\n'
        '[[bundle]]\nname = "b"\nmodel = "model.onnx"\ntarget = "onnxruntime"\ndata = "pictures"\nquantize = "none"\n'
        'postprocess = { kind = "nms", boxes = 5 }\n'
    )
    (built,) = edgekit.build(file)
    assert built.bundle is not None
    assert [spec.shape for spec in edgekit.load(built.bundle).outputs] == [(1, 5, 6), (1, 2)]


def test_arrays_give_boxes_in_the_inputs_pixels(project: Path) -> None:
    pixels = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    pixels[..., 10:12, 20:22] = 1
    found = packaged(project, "onnxruntime", postprocess="nms").detect(pixels)
    assert found[0].box == pytest.approx((15, 7, 27, 15), abs=1e-3)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"data": None}, "--postprocess: boxes are recognised on samples"),
        ({"postprocess": "soft"}, "--postprocess: unknown postprocessing\nexpected: nms\nfound: soft"),
        ({"postprocess": "nms,iuo=0.5"}, "--postprocess: nms has no such number\nexpected: 'iou'"),
        ({"postprocess": "nms,iou=2"}, "--postprocess iou: is not a share\nexpected: a number from 0 to less than 1"),
        ({"postprocess": {"kind": "nms", "boxes": 2.5}}, "--postprocess boxes: is not a number of boxes"),
        ({"postprocess": 5}, "--postprocess: is not a postprocessing\nexpected: nms, or a table of it\nfound: 5"),
    ],
)
def test_what_cannot_be_asked_for(options: dict[str, Any], error: str, project: Path, tmp_path: Path) -> None:
    given = {"data": project / "pictures", "postprocess": "nms", **options}
    with pytest.raises(InputError) as raised:
        edgekit.package(project / "model.onnx", "onnxruntime", tmp_path / "out", **given)
    assert error in str(raised.value)


def test_a_classifier_has_no_boxes(tmp_path: Path, project: Path, onnx_file: Callable[..., Path]) -> None:
    weights = np.random.default_rng(0).normal(size=(6, 10)).astype(np.float32)
    model = onnx_file("g (float[1, 3, 1, 2] x) => (float[1, 10] y) { f = Flatten(x) y = MatMul(f, w) }", w=weights)
    samples = tmp_path / "samples"
    samples.mkdir()
    for number in range(4):
        np.savez(
            samples / f"{number}.npz", x=np.random.default_rng(number).normal(size=(1, 3, 1, 2)).astype(np.float32)
        )
    with pytest.raises(InputError) as raised:
        edgekit.package(model, "onnxruntime", tmp_path / "out", data=samples, postprocess="nms")
    assert "--postprocess: the model's outputs are not read as boxes" in str(raised.value)
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "plain", data=samples, quantize="none")
    with pytest.raises(InputError) as raised:
        edgekit.load(bundle).detect(np.zeros((1, 3, 1, 2), np.float32))
    assert "the bundle does not say how its outputs are read as boxes" in str(raised.value)
    assert "found: y: float32 1×10" in str(raised.value)


def test_a_model_that_suppresses_by_itself_is_left_alone(project: Path, tmp_path: Path) -> None:
    bundle = packaged(project, "onnxruntime", postprocess="nms").bundle
    with pytest.raises(InputError) as raised:
        edgekit.package(
            bundle.path / "model.onnx",
            "onnxruntime",
            tmp_path / "again",
            data=project / "pictures",
            postprocess="nms",
            config=project / "edgekit.toml",
        )
    assert "--postprocess: the model suppresses its boxes itself" in str(raised.value)
    assert "hint: leave --postprocess out" in str(raised.value)


@pytest.mark.parametrize(
    ("resize", "more", "size"),
    [
        ("stretch", {}, (50, 30)),
        ("pad", {}, (50, 31)),
        ("pad", {}, (31, 50)),
        ("pad", {"pad_align": "start"}, (77, 31)),
        ("crop", {"crop_fraction": 0.8}, (57, 40)),
        ("crop", {}, (40, 90)),
        ("none", {}, (64, 32)),
    ],
)
def test_a_mark_in_the_picture_lies_where_the_placement_says(
    resize: str, more: dict[str, Any], size: tuple[int, int]
) -> None:
    """The middle of a bright spot, as Pillow resizes the picture, against where its box comes from."""
    from edgekit.model import ValueSpec

    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    at = np.array([width // 2 - 4, height // 2 - 5])
    pixels[at[1] : at[1] + 8, at[0] : at[0] + 8] = 255
    declared = ImagePreprocessing(1 / 255, size=(HEIGHT, WIDTH), resize=resize, **more)  # type: ignore[arg-type]
    decoder = declared.decoder(ValueSpec("x", "float32", (1, 3, HEIGHT, WIDTH)))
    seen = decoder.from_picture(Image.fromarray(pixels))[0, 0]
    y, x = (np.indices(seen.shape) * seen).sum(axis=(1, 2)) / seen.sum() + 0.5
    (found,) = Placement.of(decoder.preprocessing, width, height).in_picture(np.array([[x, y, x, y]]))
    np.testing.assert_allclose(found[:2], at + 4, atol=0.3)

"""Pictures and inputs whose height and width are free."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgekit.bundle import read_bundle
from edgekit.data.picture_sizes import picture_size, require_size, sizes_of_pictures
from edgekit.errors import InputError
from edgekit.model import ValueSpec
from edgekit.preprocessing import ImagePreprocessing

RunEdgeKit = Callable[..., Any]
FREE = (ValueSpec("image", "float32", ("N", 3, "height", "width")),)
LAST = (ValueSpec("image", "float32", (1, None, None, 3)),)
GRAPH = "f (float[N, 3, height, width] x) => (float[N, 3, height, width] y) { y = Exp(x) }"
AS_IT_IS = ImagePreprocessing(scale=1.0)
STRETCHED = ImagePreprocessing(scale=1.0, resize="stretch")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write(folder: Path, *sizes: tuple[int, int]) -> None:
    """Grey pictures of sizes (height, width)."""
    for number, (height, width) in enumerate(sizes):
        Image.new("RGB", (width, height), (90, 90, 90)).save(folder / f"{number}.png")


def test_a_declared_size_is_that_of_the_input(folder: Path) -> None:
    declared = ImagePreprocessing(scale=1.0, size=(48, 64), resize="stretch")
    for inputs, axes in ((FREE, (2, 3)), (LAST, (1, 2))):
        found = picture_size(inputs, declared, None)
        assert found is not None
        assert (found.input, found.sizes) == ("image", dict(zip(axes, (48, 64), strict=True)))


def test_pictures_that_are_not_resized_tell_the_size(folder: Path) -> None:
    write(folder, (10, 20), (10, 20))
    found = picture_size(FREE, AS_IT_IS, folder, None)
    assert found is not None
    assert (found.sizes, found.why) == ({2: 10, 3: 20}, "as in the pictures")
    assert picture_size(FREE, STRETCHED, folder) is None
    write(folder, (10, 20), (12, 20))
    assert picture_size(FREE, AS_IT_IS, folder) is None


def test_fixed_inputs_several_inputs_and_sounds_need_none(folder: Path) -> None:
    write(folder, (10, 20))
    fixed = (ValueSpec("image", "float32", (1, 3, 10, 20)),)
    for inputs in (fixed, (*FREE, *LAST), (ValueSpec("v", "float32", (1, 1, 1, 1, "length")),)):
        assert picture_size(inputs, AS_IT_IS, folder) is None
        require_size(inputs, AS_IT_IS, folder)
    assert picture_size(FREE, None, folder) is None


def test_exif_exchanges_height_and_width(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (20, 10)).save(folder / "a.jpg", exif=exif)
    (folder / "b.png").write_bytes(b"no picture")
    (folder / "c.txt").write_text("no picture either")
    assert sizes_of_pictures(sorted(folder.iterdir())).agreed == (20, 10)


def test_the_hint_names_dimensions_and_sizes(folder: Path) -> None:
    write(folder, (10, 20), (10, 20))
    with pytest.raises(InputError) as failure:
        require_size((ValueSpec("image", "float32", (1, 3, "height", "width")),), STRETCHED, folder)
    assert str(failure.value) == (
        "input 'image': a picture needs an input of a fixed shape\n"
        "expected: height and width\n"
        "found: image: float32 1×3×height×width; pictures of 10×20 (height × width)\n"
        "hint: size = [10, 20] in [preprocessing] gives them, or --dim height=10 --dim width=20 "
        '(in a project file dims = { "height" = 10, "width" = 20 })'
    )
    write(folder, (10, 20), (30, 40))
    with pytest.raises(InputError) as failure:
        require_size(LAST, AS_IT_IS, folder)
    assert str(failure.value).endswith(
        "pictures of 10×20 to 30×40 (height × width)\n"
        "hint: size = [HEIGHT, WIDTH] in [preprocessing] gives them, or --shape image=1,HEIGHT,WIDTH,3 "
        '(in a project file shapes = { "image" = [1, HEIGHT, WIDTH, 3] })'
    )


@pytest.mark.parametrize("table", ["", "size = [10, 20]\nresize = 'stretch'"])
def test_a_model_with_free_height_and_width_is_packaged(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path], table: str
) -> None:
    onnx_file(GRAPH)
    write(folder, *([(10, 20)] if not table else [(10, 20), (33, 21)]))
    Path("edgekit.toml").write_text(f"[preprocessing]\nkind = 'image'\nscale = '1/255'\n{table}\n")
    finished = edgekit("package", "model.onnx", "--target", "ort", "--data", "data", "--quantize", "none", "-o", "out")
    assert (finished.code, finished.err) == (0, finished.err)
    why = "as size in [preprocessing] says" if table else "as in the pictures"
    assert f"dimension 2 (height) of input 'x' is 10, {why}; --dim height=SIZE makes it another" in finished.err
    assert read_bundle(Path("out")).inputs[0].shape == (1, 3, 10, 20)


def test_what_is_asked_for_wins(edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]) -> None:
    onnx_file(GRAPH)
    write(folder, (10, 20))
    Path("edgekit.toml").write_text("[preprocessing]\nkind = 'image'\nscale = 1\nresize = 'stretch'\n")
    finished = edgekit(
        *("package", "model.onnx", "--target", "ort", "--data", "data", "--quantize", "none", "-q", "-o", "out"),
        *("--dim", "height=6", "--dim", "width=5"),
    )
    assert finished.code == 0
    assert read_bundle(Path("out")).inputs[0].shape == (1, 3, 6, 5)


def test_quantize_takes_the_size_too(edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]) -> None:
    weights = np.random.default_rng(0).standard_normal((32, 3, 3, 3)).astype(np.float32)
    onnx_file("f (float[N, 3, height, width] x) => (float[N, 32, h, w] y) { y = Conv(x, k) }", k=weights)
    write(folder, (10, 20))
    Path("edgekit.toml").write_text("[preprocessing]\nkind = 'image'\nscale = '1/255'\n")
    finished = edgekit("quantize", "model.onnx", "--data", "data", "-o", "out.onnx", "--scheme", "int8-weights", "-q")
    assert (finished.code, finished.err.count("error")) == (0, 0)

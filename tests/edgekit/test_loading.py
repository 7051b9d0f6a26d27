"""What a loaded bundle takes beside files and arrays: uploads, pictures of Pillow's, lists of numbers."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import edgekit
from edgekit.data.given_values import fitting_array
from edgekit.errors import InputError
from edgekit.loading import LoadedBundle
from edgekit.model import ValueSpec

COLOURS = np.array([[[10, 20, 30], [40, 50, 60]]], np.uint8)
"""Two pixels."""
EXPECTED = (COLOURS.transpose(2, 0, 1)[np.newaxis] / 255 - 0.5).astype(np.float32)


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory, onnx_model: Callable[..., Any]) -> LoadedBundle:
    """A model that takes pictures of two pixels."""
    import onnx

    folder = tmp_path_factory.mktemp("colours")
    onnx.save(onnx_model("f (float[1, 3, 1, 2] x) => (float[1, 6] y) { y = Flatten(x) }"), folder / "model.onnx")
    (folder / "names.txt").write_text("a\nb\nc\nd\ne\nf\n")
    (folder / "edgekit.toml").write_text(
        '[[bundle]]\nname = "b"\nmodel = "model.onnx"\ntarget = "onnxruntime"\nlabels = "names.txt"\n'
        '[bundle.preprocessing]\nkind = "image"\nscale = "1/255"\nmean = 0.5\n'
    )
    (built,) = edgekit.build(folder / "edgekit.toml")
    assert built.bundle is not None
    return edgekit.load(built.bundle)


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_it_says_which_bundle_it_is(colours: LoadedBundle) -> None:
    """A log has it; that of the bundle was its whole manifest."""
    path = colours.bundle.path
    assert repr(colours) == f"<LoadedBundle 'b' for onnxruntime at {path}: x: float32 1×3×1×2 -> y: float32 1×6>"
    assert repr(colours.bundle).startswith(f"Bundle({str(path)!r}: onnxruntime, float32, ")


@pytest.mark.parametrize(
    "given", [png, bytearray, io.BytesIO, Image.open, "opened"], ids=["bytes", "bytearray", "file", "Pillow", "opened"]
)
def test_an_upload_is_what_its_file_is(given: Any, colours: LoadedBundle, tmp_path: Path) -> None:
    content = png(COLOURS)
    if given == "opened":
        (tmp_path / "picture.png").write_bytes(content)
        with (tmp_path / "picture.png").open("rb") as file:
            prepared = colours.prepare(file)["x"]
    else:
        sample = content if given is png else given(io.BytesIO(content)) if given is Image.open else given(content)
        prepared = colours.prepare(sample)["x"]
    np.testing.assert_array_equal(prepared, EXPECTED)


def test_an_upload_gives_classes(colours: LoadedBundle) -> None:
    """The last pixel's blue is the greatest number, and the last of six."""
    for sample in (png(COLOURS), Image.fromarray(COLOURS)):
        predictions = colours(sample)
        assert isinstance(predictions, list)
        assert predictions[0].label == "f"


def test_a_picture_of_pillow_is_turned_as_its_exif_data_says(colours: LoadedBundle) -> None:
    upright = Image.fromarray(COLOURS)
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 3  # turned by 180°
    upright.rotate(180).save(file, "PNG", exif=exif)
    for sample in (file.getvalue(), Image.open(file)):
        np.testing.assert_array_equal(colours.prepare(sample)["x"], EXPECTED)


class AsyncUpload:
    """As of an asynchronous framework."""

    async def read(self, size: int = -1) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("sample", "told"),
    [
        (
            b"no picture",
            ["the file of 10 bytes: the picture cannot be read: it is damaged, or no picture", "PNG, JPEG"],
        ),
        (png(COLOURS)[:45], ["the picture cannot be read"]),
        (io.StringIO("text"), ["StringIO: read() of what was given gives no bytes", "found: str"]),
        (AsyncUpload(), ["AsyncUpload: read() of what was given gives no bytes", "hint: give what it reads"]),
        (Image.new("RGB", (3, 1)), ["the picture of 3×1: the picture has another size than the model's input"]),
        ([["a"]], ["input 'x': cannot be made an array of the input's type", "found: [['a']]"]),
        ("7", ["7: cannot be read: no such file"]),
        ([[1.0], [1.0, 2.0]], ["input 'x': cannot be made an array of the input's type", "found: [[1.0], [1.0, 2.0]]"]),
        ({"x": {}}, ["input 'x': cannot be made an array of the input's type", "expected: x: float32 1×3×1×2"]),
    ],
)
def test_what_cannot_become_the_input(sample: Any, told: list[str], colours: LoadedBundle) -> None:
    with pytest.raises(InputError) as refused:
        colours(sample)
    for text in told:
        assert text in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(("top", "count"), [(None, 6), (2, 2), (np.int64(2), 2), (0, 0), (9, 6)])
def test_as_many_classes_as_are_asked_for(top: int | None, count: int, colours: LoadedBundle) -> None:
    assert len(colours.classify(EXPECTED, top)) == count


@pytest.mark.parametrize("top", [-1, "3", 1.5, True])
def test_what_is_no_number_of_classes(top: Any, colours: LoadedBundle) -> None:
    """-1 left the last class out, without a word."""
    with pytest.raises(InputError) as refused:
        colours.classify(EXPECTED, top)
    assert str(refused.value) == f"top: is not a number of classes\nexpected: a whole number, or None\nfound: {top!r}"


@pytest.mark.parametrize(
    ("array", "found", "hint"),
    [
        (np.array([["1"]]), "str", None),
        (np.array([[b"1"]]), "bytes", None),
        (EXPECTED.astype(np.complex64), "complex64", None),
        (EXPECTED.astype(object), "object", None),
        (EXPECTED.astype(np.int64), "int64", "give array.astype('float32')"),
    ],
)
def test_only_numbers_are_to_be_cast(array: np.ndarray, found: str, hint: str | None, colours: LoadedBundle) -> None:
    with pytest.raises(InputError, match="the array's element type is not the model's") as refused:
        colours(array)
    assert (refused.value.found, refused.value.hint) == (found, hint)


@pytest.mark.parametrize(
    ("array", "hint"),
    [
        (np.array([[3.0, -4.0]]), "give array.astype('int16')"),
        (np.array([[3, -40000]]), "give array.astype('int16')"),
        (
            np.array([[3.5, -4.0]]),
            "its numbers have fractions, which array.astype('int16') cuts off: round or scale them as the training did",
        ),
        (
            np.array([[0.25, -1.0]]),
            "array.astype('int16') makes zeros of numbers from -1 to 1: scale them as the training did, such as "
            "numpy.clip(numpy.rint(array * 32768), -32768, 32767).astype('int16') for sounds",
        ),
    ],
)
def test_no_cast_is_told_that_makes_zeros_of_a_sound(array: np.ndarray, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        fitting_array(array, ValueSpec("pcm", "int16", (1, 2)))
    assert refused.value.hint == hint


@pytest.mark.parametrize("values", [[["Bern"], [None]], [["Bern"], [3]], [["Bern"], [float("nan")]], [[None], [None]]])
@pytest.mark.parametrize("make", [list, lambda values: np.array(values, object)], ids=["lists", "objects"])
@pytest.mark.parametrize(
    "spec",
    [ValueSpec("city", "str", (2, 1)), ValueSpec("city", "int64", (2, 1), vocabulary=("Bern", "3", "None", "nan"))],
    ids=["texts", "words"],
)
def test_what_is_no_text_becomes_none(spec: ValueSpec, make: Callable[[Any], Any], values: list[list[Any]]) -> None:
    """NumPy makes "None" of None, and "3" of 3: an answer for another word would come back."""
    with pytest.raises(InputError, match="input 'city': holds a value that is not a text\nexpected: city: ") as refused:
        fitting_array(make(values), spec)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("give texts as in the training")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
@pytest.mark.parametrize("values", [[[None, 1]], [[None, None]], None])
def test_what_json_calls_null_is_no_number(dtype: str, values: Any) -> None:
    """NumPy makes NaN of None, and False: the model would compute something."""
    spec = ValueSpec("x", dtype, () if values is None else (1, 2))
    with pytest.raises(InputError, match="input 'x': cannot be made an array of the input's type\n") as refused:
        fitting_array(values, spec)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("None is not a number")


def test_words_are_texts_or_their_numbers() -> None:
    spec = ValueSpec("city", "int64", (2, 1), vocabulary=("Bern", "Graz"))
    for given in ([["Graz"], ["Köln"]], [[1], [2]], np.array([["Graz"], ["Köln"]], object), [[b"Graz"], [b"x"]]):
        assert fitting_array(given, spec).tolist() == [[1], [2]]


def test_a_sample_that_was_packaged_with_is_taken(tmp_path: Path, onnx_model: Callable[..., Any]) -> None:
    """A sample may hold the state that the built model keeps, what the framework computed, and a label."""
    import onnx

    (tmp_path / "samples").mkdir()
    total = np.zeros((1, 2), np.float32)
    for number in range(8):
        x = np.full((1, 2), number, np.float32)
        arrays = {"x": x, "h": total, "output:y": total + x, "label": 0}
        np.savez(tmp_path / "samples" / f"{number}.npz", **arrays)
        total = total + x
    graph = "f (float[1, 2] x, float[1, 2] h) => (float[1, 2] y, float[1, 2] n) { n = Add (h, x) y = Identity (n) }"
    onnx.save(onnx_model(graph), tmp_path / "sum.onnx")
    bundle = edgekit.package(
        tmp_path / "sum.onnx", "ios18", tmp_path / "bundle", data=tmp_path / "samples", states={"h": "n"}
    )
    loaded = edgekit.load(bundle)
    assert [float(loaded(tmp_path / "samples" / f"{number}.npz")["y"][0, 0]) for number in range(4)] == [0, 1, 3, 6]


def test_what_runs_is_not_pickled(colours: LoadedBundle) -> None:
    with pytest.raises(TypeError, match="give others its `bundle`, and have them load that"):
        pickle.dumps(colours)
    assert pickle.loads(pickle.dumps(colours.bundle)) == colours.bundle


@pytest.mark.parametrize("pixels", [COLOURS, COLOURS[..., 0], np.zeros((40, 30, 3), np.uint8)])
def test_pixels_are_told_from_an_input(pixels: np.ndarray, colours: LoadedBundle) -> None:
    """The hint was to cast them, which leaves scale, mean and size out."""
    with pytest.raises(InputError, match="the array looks like the pixels of a picture") as refused:
        colours(pixels)
    assert refused.value.expected == "x: float32 1×3×1×2, or a picture"
    assert (refused.value.hint or "").startswith("give PIL.Image.fromarray(array)")
    picture = Image.fromarray(COLOURS)
    np.testing.assert_array_equal(colours.prepare(picture)["x"], EXPECTED)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory, onnx_model: Callable[..., Any]) -> LoadedBundle:
    """A model that takes small integers."""
    import onnx

    folder = tmp_path_factory.mktemp("numbers")
    onnx.save(onnx_model("f (uint8[1, 2] x) => (uint8[1, 2] y) { y = Identity(x) }"), folder / "model.onnx")
    return edgekit.load(edgekit.package(folder / "model.onnx", "onnxruntime", folder / "bundle"))


@pytest.mark.parametrize("sample", [[[0.5, 1]], [[256, 0]], [[-1, 0]], [["7", "8"]], [[float("nan"), 1]], [[None, 1]]])
def test_numbers_that_the_inputs_type_does_not_hold(sample: Any, numbers: LoadedBundle) -> None:
    """Such numbers were clipped or wrapped, or NumPy's own error was raised."""
    with pytest.raises(InputError, match="cannot be made an array of the input's type") as refused:
        numbers(sample)
    assert refused.value.expected == "x: uint8 1×2"


def test_whole_numbers_in_lists_become_the_inputs_type(numbers: LoadedBundle) -> None:
    outputs = numbers.run([[7.0, 255]])
    assert outputs["y"].tolist() == [[7, 255]]


def test_a_text_alone_is_no_sample(tmp_path: Path, onnx_model: Callable[..., Any]) -> None:
    """It counts as the name of a file, which a model of texts takes none of."""
    import onnx

    onnx.save(onnx_model("f (string[1] text) => (string[1] y) { y = Identity(text) }"), tmp_path / "model.onnx")
    loaded = edgekit.load(edgekit.package(tmp_path / "model.onnx", "onnxruntime", tmp_path / "bundle"))
    with pytest.raises(InputError, match="does not say how a file becomes its input") as refused:
        loaded("a fine day")
    assert refused.value.hint == "texts are given by the input's name: {'text': ['…']}"
    assert loaded.run({"text": ["a fine day"]})["y"].tolist() == ["a fine day"]


def test_pixels_that_need_no_declaration_are_read_as_the_samples_were(
    tmp_path: Path, onnx_model: Callable[..., Any]
) -> None:
    import onnx

    body = "f (uint8[1, 2, 2, 3] x) => (float[1, 12] y) { c = Cast <to = 1> (x) y = Flatten (c) }"
    onnx.save(onnx_model(body), tmp_path / "model.onnx")
    (tmp_path / "data").mkdir()
    square = np.vstack([COLOURS, COLOURS + np.uint8(100)])
    Image.fromarray(square).save(tmp_path / "data" / "a.png")
    bundle = edgekit.package(
        tmp_path / "model.onnx", "onnxruntime", tmp_path / "b", data=tmp_path / "data", quantize="none"
    )
    assert bundle.manifest["preprocessing"]["scale"] == 1
    assert edgekit.load(bundle)(png(square))["y"].tolist() == [square.ravel().tolist()]


def test_quantized_scores_tell_the_class_by_the_largest(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    """256 levels of a number: 0.2, 0.6 and 0.4 are 51, 153 and 102."""
    text = (
        "f (float[1, 3] x) => (uint8[1, 3] y) <float s = {0.003921569}, uint8 z = {0}> { y = QuantizeLinear(x, s, z) }"
    )
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    bundle = edgekit.package(onnx_file(text), "onnxruntime", tmp_path / "out", labels=tmp_path / "names.txt")
    found = edgekit.load(bundle).classify(np.array([[0.2, 0.6, 0.4]], np.float32))
    assert [(one.label, one.index, one.score, one.probability) for one in found] == [
        ("b", 1, 153.0, pytest.approx(0.6)), ("c", 2, 102.0, pytest.approx(0.4)), ("a", 0, 51.0, pytest.approx(0.2)),
    ]  # fmt: skip


def test_of_integers_of_unknown_scale_no_probabilities_follow(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    text = "f (float[1, 3] x) => (uint8[1, 3] y) <float s = {255.0}> { m = Mul(x, s) y = Cast <to = 2> (m) }"
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    bundle = edgekit.package(onnx_file(text), "onnxruntime", tmp_path / "out", labels=tmp_path / "names.txt")
    assert bundle.manifest["classes"] == {"output": "y", "scores": "integers"}
    found = edgekit.load(bundle).classify(np.array([[0.25, 0.6, 0.42]], np.float32))
    assert [(one.label, one.score, one.probability) for one in found] == [
        ("b", 153.0, None), ("c", 107.0, None), ("a", 63.0, None),
    ]  # fmt: skip


def test_a_class_without_a_name_is_called_by_the_model_s_own_number(tmp_path: Path) -> None:
    """Scores of -1, 0.5 and 0.25 for the classes 5, 7 and 9: the label output says 7."""
    import onnx

    text = (
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> '
        "f (float[1, 3] x) => (int64[1] label, float[1, 3] scores) { label, scores = ai.onnx.ml.LinearClassifier "
        "<coefficients = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], intercepts = [0.0, 0.0, 0.0], "
        "classlabels_ints = [5, 7, 9]> (x) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    loaded = edgekit.load(edgekit.package(tmp_path / "model.onnx", "onnxruntime", tmp_path / "out"))
    given = np.array([[-1, 0.5, 0.25]], np.float32)
    assert loaded.run(given)["label"].tolist() == [7]
    assert [(one.label, one.index) for one in loaded.classify(given)] == [("7", 1), ("9", 2), ("5", 0)]

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import edgekit as api
from edgekit.comparison.acceptance.refusal import InaccurateError, require_accuracy
from edgekit.comparison.floors import Floors, Kind
from edgekit.data.samples import SeededSamples
from edgekit.graph.sizes.shapes import topology_digest
from edgekit.model import Model
from edgekit.processes import supervision
from edgekit.processes.crashes import CrashError
from edgekit.registry import find_profile
from edgekit.stages.build import Build
from edgekit.stages.verify import Verified, Verify
from edgekit.target import BuildOptions


@pytest.fixture
def verified(tmp_path: Path) -> Callable[[Path, Path], Verified]:
    """Builds one model for ONNX Runtime and verifies it against another."""

    def run(original: Path, shipped: Path, *, quantized: bool = False) -> Verified:
        target, profile = find_profile("onnxruntime")
        models = [Model(ir.load(path), path) for path in (original, shipped)]
        folder = tmp_path / "built"
        folder.mkdir()
        built = Build(target, profile, BuildOptions(), folder, quantized=quantized)(models[1])
        result = Verify(models[0], target, profile, SeededSamples(models[0], 4))(built)
        assert isinstance(result, Verified)
        return result

    return run


ORIGINAL = "f (float[1, 8] x) => (float[1, 8] y) { y = Mul(x, c) }"


def test_a_true_build(verified: Callable[..., Verified], onnx_file: Callable[..., Path]) -> None:
    model = onnx_file(ORIGINAL, c=np.array(2, np.float32))
    accuracy = verified(model, model).accuracy
    assert accuracy.outputs[0].exact
    assert accuracy.seeded
    assert accuracy.samples == 4


def test_a_build_that_ends_the_process(
    verified: Callable[..., Verified], onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is then repeated, and knows what ended the process."""

    model = onnx_file(ORIGINAL, c=np.array(2, np.float32))
    tried = f"onnxruntime, float32: {topology_digest(Model(ir.load(model), model))}"
    monkeypatch.setattr(supervision, "_crashed", {tried: "SIGSEGV"})
    with pytest.raises(CrashError) as error:
        verified(model, model)
    assert str(error.value) == (
        "model: the runtime of onnxruntime ended the process while it loaded or executed what was built\n"
        "expected: a model that its runtime takes\n"
        "found: SIGSEGV\n"
        "hint: `edgekit extract` cuts out parts: report one that ends it to the runtime's makers"
    )


def test_a_build_that_computes_something_else(
    verified: Callable[..., Verified], onnx_file: Callable[..., Path]
) -> None:
    original = onnx_file(ORIGINAL, c=np.array(2, np.float32))
    other = onnx_file(ORIGINAL, name="other.onnx", c=np.array(2.02, np.float32))
    with pytest.raises(InaccurateError) as failure:
        verified(original, other)
    text = str(failure.value)
    assert text.startswith("model: what was built as float32 is not accurate enough, executed by ONNX Runtime")
    assert "\nfound: output 'y': SQNR 40.0 dB on its worst sample (at least 50 dB)\n" in text
    assert text.endswith("give real samples with --data")
    assert failure.value.exit_code == 1


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(
    "shipped",
    [
        "f (float[1, 8] x) => (float[1, 8] y) { a = Mul(x, c) z = Sub(x, x) y = Div(a, z) }",
        "f (float[1, 8] x) => (float[1, 8] y) { a = Mul(x, c) z = Sub(x, x) y = Mul(a, z) }",
    ],
    ids=["infinite", "constant"],
)
def test_a_build_that_lost_its_output(
    verified: Callable[..., Verified], onnx_file: Callable[..., Path], shipped: str, quantized: bool
) -> None:
    original = onnx_file(ORIGINAL, c=np.array(2, np.float32))
    with pytest.raises(InaccurateError):
        verified(original, onnx_file(shipped, name="other.onnx", c=np.array(2, np.float32)), quantized=quantized)


def test_a_build_with_another_shape(verified: Callable[..., Verified], onnx_file: Callable[..., Path]) -> None:
    original = onnx_file("f (float[1, 8] x) => (float[1, 8] y) { y = Exp(x) }")
    other = onnx_file(
        "f (float[1, 8] x) => (float[1, 8, 1] y) { e = Exp(x) y = Unsqueeze(e, a) }", name="other.onnx", a=np.array([2])
    )
    with pytest.raises(InaccurateError) as caught:
        verified(original, other)
    assert str(caught.value) == (
        "output 'y': the built model's output has another shape than the original's\n"
        "expected: (1, 8)\nfound: (1, 8, 1), on sample 1"
    )
    assert (caught.value.precision, caught.value.worst_samples) == ("float32", (0,))


class TestWhatTheOriginalDoesNotReproduce:
    """Large numbers that cancel leave the rounding of whatever order they were added in, beside what is meant."""

    @staticmethod
    def model(onnx_file: Callable[..., Path], remainder: float) -> Path:
        large = np.random.default_rng(0).standard_normal((1, 4, 7, 7), np.float32) * 1e4
        return onnx_file(
            "f (float[1, 4, 32, 32] x) => (float[1, 1, 26, 26] y) "
            "{ a = Conv(x, large) n = Conv(x, small) s = Add(a, n) y = Sub(s, a) }",
            large=large,
            small=large * np.float32(remainder),
        )

    def test_is_asked_for_less(self, verified: Callable[..., Verified], onnx_file: Callable[..., Path]) -> None:
        model = self.model(onnx_file, 1e-5)
        built = verified(model, model)
        assert built.accuracy.self_agreement_db.keys() == {"y"}
        assert 16 < built.accuracy.self_agreement_db["y"] < 56
        assert built.record["warnings"][0].startswith("output 'y' is determined to ")

    def test_is_refused_where_next_to_nothing_is_left(
        self, verified: Callable[..., Verified], onnx_file: Callable[..., Path]
    ) -> None:
        model = self.model(onnx_file, 1e-7)
        with pytest.raises(InaccurateError, match="at least 10 dB"):
            verified(model, model)


def test_the_sizes_at_which_it_departs_are_told(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    """The built one multiplies with the entry of a table for the number of rows, which is 1 but for four rows."""
    original = onnx_file("f (float[N, 8] x) => (float[N, 8] y) { y = Mul(x, c) }", c=np.array(2, np.float32))
    other = onnx_file(
        """f (float[N, 8] x) => (float[N, 8] y) {
            sizes = Shape<start = 0, end = 1>(x)  factor = Gather(table, sizes)  y = Mul(x, factor) }""",
        name="other.onnx",
        table=np.array([2, 2, 2, 2, 3], np.float32),
    )
    target, profile = find_profile("onnxruntime")
    models = [replace(Model(ir.load(path), path), open_dims={"N": range(1, 5)}) for path in (original, other)]
    folder = tmp_path / "built"
    folder.mkdir()
    built = Build(target, profile, BuildOptions(), folder, quantized=True)(models[1])
    with pytest.raises(InaccurateError) as caught:
        Verify(models[0], target, profile, SeededSamples(models[0], 4))(built)
    assert caught.value.subject == "model"
    assert str(caught.value.found).startswith("at N=4: output 'y': SQNR 6.0 dB (at least ")


class TestAnOriginalInFloat64:
    """Numbers of about 1 beside 1e9 are zeros in float32, whose numbers are 64 apart there."""

    TEXT = """f (float[1, 8] x) => (float[1, 8] y)
        { double_x = Cast<to = 11>(x)  far = Add(double_x, c)  back = Sub(far, c)  y = Cast<to = 1>(back) }"""

    def test_that_needs_it_is_to_blame_itself(
        self, verified: Callable[..., Verified], onnx_file: Callable[..., Path]
    ) -> None:
        original = onnx_file(self.TEXT, c=np.array(1e9))
        single = "f (float[1, 8] x) => (float[1, 8] y) { far = Add(x, c)  y = Sub(far, c) }"
        with pytest.raises(InaccurateError) as caught:
            verified(original, onnx_file(single, name="single.onnx", c=np.array(1e9, np.float32)))
        assert caught.value.hint == (
            "the original computes in float64, and misses the floor when it is executed in float32 ('y' 0.0 dB): "
            "export it for smaller numbers, for example times since a recent day in place of 1970, or package it "
            "for a device that has float64"
        )

    def test_that_float32_would_do_for_is_not(
        self, verified: Callable[..., Verified], onnx_file: Callable[..., Path]
    ) -> None:
        original = onnx_file(self.TEXT, c=np.array(0.5))
        other = onnx_file(ORIGINAL, name="other.onnx", c=np.array(1.02, np.float32))
        with pytest.raises(InaccurateError) as caught:
            verified(original, other)
        assert "float64" not in (caught.value.hint or "")

    def test_that_does_not_run_in_float32_keeps_the_error_of_its_floor(
        self, verified: Callable[..., Verified], onnx_file: Callable[..., Path]
    ) -> None:
        """2**24 + 3 is 2**24 + 4 in float32, and the table has no fourth row."""
        original = onnx_file(
            """f (float[1, 8] x) => (float[1, 8] y) {
                first = Slice(x, zero, one, one)  double_first = Cast<to = 11>(first)
                nothing = Mul(double_first, zeros)  late = Add(nothing, c)  since = Sub(late, start)
                row = Cast<to = 7>(since)  factor = Gather(table, row)  y = Mul(x, factor) }""",
            zero=np.array([0]),
            one=np.array([1]),
            zeros=np.zeros((1, 1)),
            c=np.array(2.0**24 + 3),
            start=np.array(2.0**24),
            table=np.array([1, 1, 1, 2], np.float32),
        )
        other = onnx_file(ORIGINAL, name="other.onnx", c=np.array(2.5, np.float32))
        with pytest.raises(InaccurateError, match="'y'") as caught:
            verified(original, other)
        assert "float64" not in (caught.value.hint or "")


def test_the_kind_decides_the_floor(verified: Callable[..., Verified], onnx_file: Callable[..., Path]) -> None:
    original = onnx_file(ORIGINAL, c=np.array(2, np.float32))
    other = onnx_file(ORIGINAL, name="other.onnx", c=np.array(2.02, np.float32))
    result = verified(original, other, quantized=True)
    assert result.kind is Kind.QUANTIZED
    assert result.accuracy.outputs[0].sqnr_db == pytest.approx(40, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "seeded", "hint"),
    [
        (
            Kind.QUANTIZED,
            False,
            "give more samples, allow more with --max-drop or --floor DB, take it with --accept, or keep it in float "
            "with --quantize none",
        ),
        (Kind.FLOAT16, False, "build it with --precision float32, or ask for less with --floor DB"),
        (
            Kind.FLOAT32,
            False,
            "this points to a fault in the conversion: `edgekit extract` helps to find the node",
        ),
        (
            Kind.FLOAT32,
            True,
            "random inputs may be unlike the data that the model was trained on: give real samples with --data",
        ),
    ],
)
def test_the_hint_goes_by_what_was_built_and_compared_on(
    verified: Callable[..., Verified], onnx_file: Callable[..., Path], kind: Kind, seeded: bool, hint: str
) -> None:
    original = onnx_file(ORIGINAL, c=np.array(2, np.float32))
    other = onnx_file(ORIGINAL, name="other.onnx", c=np.array(2.02, np.float32))
    accuracy = verified(original, other, quantized=True).accuracy
    asked = replace(accuracy, seeded=seeded, floors=Floors.of(kind, labelled=False, max_drop=None, floor_db=60))
    with pytest.raises(InaccurateError) as failure:
        require_accuracy(asked, kind, "auto", "model")
    assert failure.value.hint == hint
    assert "output 'y': SQNR 40.0 dB" in str(failure.value)


@pytest.mark.parametrize(
    ("seeded", "hint"),
    [
        (
            False,
            "rounding alone changes 'y' much on these samples, but the difference is larger than that explains: "
            "--accept and then `edgekit verify --layers` show which layer differs",
        ),
        (
            True,
            "random inputs determine 'y' badly, but the difference is larger than that explains: give real samples "
            "with --data; --accept and then `edgekit verify --layers` show which layer differs",
        ),
    ],
)
def test_the_hint_names_outputs_that_rounding_moves_far(
    verified: Callable[..., Verified], onnx_file: Callable[..., Path], seeded: bool, hint: str
) -> None:
    """A float32 build of a network that makes much of rounding is not surely converted wrong."""
    original = onnx_file(ORIGINAL, c=np.array(2, np.float32))
    other = onnx_file(ORIGINAL, name="other.onnx", c=np.array(2.1, np.float32))
    accuracy = verified(original, other, quantized=True).accuracy
    floors = Floors.of(Kind.FLOAT32, labelled=False, max_drop=None, floor_db=None)
    moved = replace(accuracy, seeded=seeded, floors=floors, self_agreement_db={"y": 42.0})
    with pytest.raises(InaccurateError) as failure:
        require_accuracy(moved, Kind.FLOAT32, "auto", "model")
    assert failure.value.hint == hint


@pytest.mark.parametrize(
    ("scale", "warned"), [("1000000000", "zeros and ones alone for the random inputs"), ("0.5", None)]
)
def test_random_inputs_that_saturate_prove_nothing(
    onnx_file: Callable[..., Path], tmp_path: Path, scale: str, warned: str | None
) -> None:
    graph = f"g (float[1, 3] x) => (float[1, 3] y) <float s = {{{scale}}}> {{ z = Mul(x, s) y = Softmax(z) }}"
    manifest = api.package(onnx_file(graph), "ort", tmp_path / "out").manifest
    warnings = [
        warning
        for stage in manifest["stages"]
        for warning in stage["record"].get("warnings", ())
        if "would not show" in warning
    ]
    assert [*warnings] == (
        []
        if warned is None
        else [f"output 'y' is {warned}, so errors in it would not show: give real samples with --data"]
    )


@pytest.mark.parametrize("count", [8, 7])
def test_samples_prove_nothing_of_an_output_that_is_the_same_for_all(
    onnx_file: Callable[..., Path], tmp_path: Path, count: int
) -> None:
    """A head behind a Relu that no sample opens; what is made of sizes alone is the same for every input."""
    head = "far = Sub(x, high) shut = Relu(far) dead = Add(shut, high)"
    graph = f"""g (float[1, 3] x) => (float[1, 3] y, float[1, 3] dead, float[2] grid)
        {{ y = Mul(x, high) {head} z = Shape(x) grid = Cast <to = 1> (z) }}"""
    data = tmp_path / "samples"
    data.mkdir()
    for number in range(count):
        np.savez(data / f"{number}.npz", x=np.full((1, 3), number, np.float32))
    model = onnx_file(graph, high=np.array(100, np.float32))
    bundle = api.package(model, "ort", tmp_path / "out", data=data, quantize="none")
    warnings = [text for stage in bundle.manifest["stages"] for text in stage["record"].get("warnings", ())]
    expected = (
        "the original's output 'dead' is the same for every sample, so errors in it would not show: give samples in "
        "which it differs"
    )
    later = api.verify(bundle, data=data, model=model).remarks
    for texts in (warnings, later):
        assert [text for text in texts if "would not show" in text] == ([expected] if count == 8 else [])
    constant = [output["name"] for output in bundle.manifest["accuracy"]["outputs"] if output.get("is_constant")]
    assert constant == (["dead", "grid"] if count == 8 else [])


def test_a_class_that_may_be_lost_is_a_warning(
    verified: Callable[..., Verified], onnx_file: Callable[..., Path]
) -> None:
    """Class 2 is the largest where the second number is above 2, and above 6 in what is shipped: nearly never."""
    graph = "f (float[1, 1000, 2] x) => (float[1, 1000, 3] y) { m = MatMul(x, w) y = Add(m, b) }"
    weights = np.array([[40, -40, 40], [0, 0, 1]], np.float32)
    original = onnx_file(graph, w=weights, b=np.array([0, 0, -2], np.float32))
    shipped = onnx_file(graph, name="shipped.onnx", w=weights, b=np.array([0, 0, -6], np.float32))
    result = verified(original, shipped, quantized=True)
    (worst,) = [output.worst_class for output in result.accuracy.outputs]
    assert worst is not None
    (told,) = [each for each in result.record["warnings"] if "that class is lost" in each]
    assert told == (
        f"output 'y': class 2 is kept at 0 of its {worst.places} places (overlap 0.00, at least 0.5): if these are "
        "scores of classes, that class is lost; --labels FILE, with the names of the classes, judges them as such"
    )

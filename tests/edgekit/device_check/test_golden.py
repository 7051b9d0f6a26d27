from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import edgekit
from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.ranked import RankedAccuracy
from edgekit.data.samples import SeededSamples
from edgekit.device_check.golden import write_golden
from edgekit.device_check.golden_check import OutputTally
from edgekit.execution.reference import Reference
from edgekit.model import Model
from edgekit.target import Feature

GRAPH = "f (float[1, 4] x) => (float[1, 4] y, int64[1, 4] n) { y = Mul(x, c) r = Round(y) n = Cast<to = 7>(r) }"


@pytest.fixture
def golden(tmp_path: Path, onnx_file: Callable[..., Path]) -> Callable[..., tuple[dict[str, Any], Path]]:
    """Writes golden data of a model beside what a slightly other one computes."""

    def write(
        kind: Kind, built: float, own: dict[str, float] | None = None, ranked: RankedAccuracy | None = None
    ) -> tuple[dict[str, Any], Path]:
        paths = [onnx_file(GRAPH, name=f"{factor}.onnx", c=np.array(factor, np.float32)) for factor in (10.0, built)]
        original, other = (Model(ir.load(path), path) for path in paths)
        features = [
            tuple(Feature(v.name, v.dtype, v.shape or (), v.name, v.dtype, v.shape or ()) for v in values)
            for values in (original.inputs, original.outputs)
        ]
        floors = Floors.of(kind, labelled=False, max_drop=None)
        accuracy = Accuracy("it", "the original", True, 5, floors, (), None, own or {}, ranked=ranked)
        samples = SeededSamples(original, 5)
        executors = Reference(original), Reference(other)
        record = write_golden(tmp_path / "golden", samples, *executors, *features, kind, accuracy)
        return record, tmp_path / "golden"

    return write


def test_the_first_samples_and_the_original_s_outputs(golden: Callable[..., tuple[dict[str, Any], Path]]) -> None:
    record, folder = golden(Kind.FLOAT32, 10.0)
    assert record["samples"] == 3
    assert record["names"] == ["seed 0", "seed 1", "seed 2"]
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1", "2"]
    for sample in "012":
        x = np.load(folder / sample / "inputs" / "0.npy")
        np.testing.assert_allclose(np.load(folder / sample / "outputs" / "0.npy"), x * 10, rtol=1e-6)
        np.testing.assert_array_equal(np.load(folder / sample / "outputs" / "1.npy"), np.rint(x * np.float32(10)))


def test_a_device_may_compute_floats_in_half_precision(golden: Callable[..., tuple[dict[str, Any], Path]]) -> None:
    record, _ = golden(Kind.FLOAT32, 10.0)
    assert record["outputs"] == [
        {"name": "y", "floor_db": 25.0, "max_mismatch": None, "folder": "outputs"},
        {"name": "n", "floor_db": None, "max_mismatch": 0.0, "folder": "outputs"},
    ]


def test_less_is_asked_of_what_the_original_does_not_reproduce(
    golden: Callable[..., tuple[dict[str, Any], Path]],
) -> None:
    record, _ = golden(Kind.FLOAT32, 10.0, {"y": 27.0})
    assert record["outputs"][0]["floor_db"] == 21.0


def test_a_quantized_build_has_to_stay_as_accurate_as_here(
    golden: Callable[..., tuple[dict[str, Any], Path]],
) -> None:
    record, _ = golden(Kind.QUANTIZED, 11.0)  # 10 % off: 20 dB
    floor, mismatch = record["outputs"]
    assert floor["floor_db"] == pytest.approx(20 - 6, abs=1e-3)
    assert 0.05 < mismatch["max_mismatch"] <= 1


def test_integers_may_differ_on_the_device_where_they_differ_here(
    golden: Callable[..., tuple[dict[str, Any], Path]],
) -> None:
    record, folder = golden(Kind.FLOAT32, 10.3)
    (_, integers) = record["outputs"]
    x = np.concatenate([np.load(folder / sample / "inputs" / "0.npy") for sample in "012"])
    differ = (np.rint(x * np.float32(10)) != np.rint(x * np.float32(10.3))).mean()
    assert differ > 0
    assert integers["max_mismatch"] == pytest.approx(differ)


@pytest.mark.parametrize(
    ("by_place", "asked"),
    [(140.0, 25.0), (28.0, 22.0), (8.0, 3.0), (2.0, 2.0)],  # less 6 dB, or half of the power
)
def test_a_device_may_put_rows_of_equal_scores_in_another_order(
    golden: Callable[..., tuple[dict[str, Any], Path]], by_place: float, asked: float
) -> None:
    unequal = 0.0 if by_place == 140 else 0.25
    record, _ = golden(Kind.FLOAT32, 10.0, None, RankedAccuracy(("y", "n"), 0.0, 0.0, {"y": by_place}, {"n": unequal}))
    floor, mismatch = record["outputs"]
    assert floor["floor_db"] == asked
    assert mismatch["max_mismatch"] == pytest.approx(unequal + 0.05 if unequal else 0)


@pytest.mark.parametrize("kind", [Kind.QUANTIZED, Kind.FLOAT16])
@pytest.mark.parametrize("built", [24.0, 30.0, -5.0])  # -2.9, -6.0 and -3.5 dB: no nearer to 10 than zeros are
def test_a_build_that_is_too_far_from_the_original_is_what_a_device_is_held_against(
    golden: Callable[..., tuple[dict[str, Any], Path]], kind: Kind, built: float
) -> None:
    record, folder = golden(kind, built)
    y, _ = record["outputs"]
    assert (y["folder"], y["max_mismatch"]) == ("built", None)
    for sample in "012":
        x = np.load(folder / sample / "inputs" / "0.npy")
        np.testing.assert_allclose(np.load(folder / sample / "built" / "0.npy"), x * built, rtol=1e-6)
        np.testing.assert_allclose(np.load(folder / sample / "outputs" / "0.npy"), x * 10, rtol=1e-6)


def found_passes(record: dict[str, Any], folder: Path, answers: Callable[[list[np.ndarray]], list[np.ndarray]]) -> bool:
    """Whether the check passes a device that gives the wrong answers for every output in place of the right ones."""
    passed = []
    for place, output in enumerate(record["outputs"]):
        tally = OutputTally(output["name"], output["floor_db"], output["max_mismatch"])
        right = [np.load(folder / sample / output["folder"] / f"{place}.npy") for sample in "012"]
        for golden, given in zip(right, answers(right), strict=True):
            tally.add(golden, given.astype(golden.dtype))
        passed.append(tally.passed)
    assert len(set(passed)) == 1, record
    return passed[0]


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("built", [10.0, 10.5, 14.0, 18.0, 21.0, 40.0, -10.0])
def test_no_device_passes_that_computes_something_else(
    golden: Callable[..., tuple[dict[str, Any], Path]], kind: Kind, built: float
) -> None:
    record, folder = golden(kind, built)
    assert found_passes(record, folder, lambda right: right)
    half = 1 + np.finfo(np.float16).eps
    assert found_passes(record, folder, lambda right: [one * half if one.dtype.kind == "f" else one for one in right])
    for wrong in (
        lambda right: [np.zeros_like(one) for one in right],
        lambda right: [np.full_like(one, np.concatenate(right).mean()) for one in right],
        lambda right: [np.mean(right, axis=0) for _ in right],
        lambda right: [right[0]] * len(right),
        lambda right: [*right[1:], right[0]],
    ):
        assert not found_passes(record, folder, wrong)


def test_what_a_further_build_computed_lies_beside(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    paths = [onnx_file(GRAPH, name=f"{factor}.onnx", c=np.array(factor, np.float32)) for factor in (10.0, 30.0, -20.0)]
    original, main, other = (Model(ir.load(path), path) for path in paths)
    features = [
        tuple(Feature(v.name, v.dtype, v.shape or (), v.name, v.dtype, v.shape or ()) for v in values)
        for values in (original.inputs, original.outputs)
    ]
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    judged = Kind.QUANTIZED, Accuracy("it", "the original", True, 5, floors, (), None)
    samples, folder = SeededSamples(original, 5), tmp_path / "golden"
    told: list[tuple[str, int, int]] = []
    executors = Reference(original), Reference(main)
    write_golden(folder, samples, *executors, *features, *judged, progress=lambda *step: told.append(step))
    assert told == [("golden sample", done, 0) for done in range(3)]
    record = write_golden(
        folder, samples, Reference(original), Reference(other), *features, *judged, further="a-device"
    )
    assert record["outputs"][0]["folder"] == "built-a-device"
    x = np.load(folder / "1" / "inputs" / "0.npy")
    np.testing.assert_allclose(np.load(folder / "1" / "built" / "0.npy"), x * 30, rtol=1e-6)
    np.testing.assert_allclose(np.load(folder / "1" / "built-a-device" / "0.npy"), x * -20, rtol=1e-6)


def test_texts_need_no_pickles(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("f (float[1, 2] x) => (string[1, 2] y) { y = Cast <to = 8> (x) }")
    model = Model(ir.load(path), path)
    features = [
        tuple(Feature(v.name, v.dtype, v.shape or (), v.name, v.dtype, v.shape or ()) for v in values)
        for values in (model.inputs, model.outputs)
    ]
    accuracy = Accuracy("it", "the original", True, 2, Floors.of(Kind.FLOAT32, labelled=False, max_drop=None), (), None)
    executors = Reference(model), Reference(model)

    record = write_golden(tmp_path / "golden", SeededSamples(model, 2), *executors, *features, Kind.FLOAT32, accuracy)

    assert record["outputs"] == [{"name": "y", "floor_db": None, "max_mismatch": 0.0, "folder": "outputs"}]
    x = np.load(tmp_path / "golden" / "0" / "inputs" / "0.npy", allow_pickle=False)
    texts = np.load(tmp_path / "golden" / "0" / "outputs" / "0.npy", allow_pickle=False)
    np.testing.assert_allclose(texts.astype(np.float32), x, rtol=1e-6)


def test_samples_that_lie_column_by_column_are_written_row_by_row(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    """As spectrograms of librosa are once they are transposed; the checks in JavaScript and Swift read rows alone."""
    data = tmp_path / "data"
    data.mkdir()
    numbers = np.arange(6, dtype=np.float32).reshape(3, 2).T[np.newaxis]
    np.savez(data / "0.npz", x=numbers)
    model = onnx_file("f (float[1, 2, 3] x) => (float[1, 2, 3] y) { y = Neg(x) }")
    edgekit.package(model, "onnxruntime", tmp_path / "out", data=data)
    content = (tmp_path / "out" / "golden" / "0" / "inputs" / "0.npy").read_bytes()
    assert b"'fortran_order': False" in content[:128]
    assert np.frombuffer(content[-24:], "<f4").tolist() == [0, 2, 4, 1, 3, 5]

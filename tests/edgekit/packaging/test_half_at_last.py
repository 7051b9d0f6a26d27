"""Weights in half precision, where forms with integers are rejected when the bundle is packaged."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgekit.bundle import Bundle
from edgekit.packaging.candidates import Choice
from edgekit.packaging.float_form import FloatForm
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.quantizer import is_smaller
from edgekit.target import Artifact
from edgekit.timing.latency import Interval

HALF = "weights in half precision"
SLOWER, FASTER = (1.2, 1.3), (0.6, 0.7)


@pytest.fixture(autouse=True)
def search_goes_by_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the search pass on forms that hold the budget, whatever the times of such a small model are."""
    monkeypatch.setattr("edgekit_quantize.search.bench.NOISE", 1.0)


def types_of(model: Path) -> set[int]:
    return {tensor.data_type for tensor in onnx.load(model).graph.initializer}


def timed(integers: Interval, half: Interval) -> Callable[..., Interval]:
    """Replaces timing: the times of forms with integers and in half precision, as multiples of the float form's."""

    def ratio(_: FloatForm, built: Artifact, of_float: Artifact, feeds: Mapping[str, np.ndarray]) -> Interval:
        assert types_of(of_float.main) == {onnx.TensorProto.FLOAT}
        return half if types_of(built.main) == {onnx.TensorProto.FLOAT16} else integers

    return ratio


def packaged(model: Path, data: Path, name: str = "bundle", **rest: Any) -> Bundle:
    return package(PackageRequest(model, "onnxruntime", data.parent / name, data=data, **rest), Progress())


def outcomes(bundle: Bundle) -> dict[str, tuple[str, str]]:
    return {row["candidate"]: (row["fate"], row["reason"]) for row in bundle.manifest["candidates"]}


def test_half_precision_ships_where_all_integers_are_slower(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FloatForm, "_ratio", timed(SLOWER, FASTER))

    bundle = packaged(perceptron, data)

    told = outcomes(bundle)
    assert told.pop(HALF) == ("ships", "")
    assert told
    slower = ("refused", "is slower than the float model")
    timed_once = [name for name, fate in told.items() if fate == slower]
    as_slow = {
        ("refused", f"not tried: it has the operations of {name!r}, which is slower than the float model")
        for name in timed_once
    }
    assert timed_once
    assert set(told.values()) <= {slower, *as_slow}
    assert bundle.manifest["model"]["kind"] == "float16"
    assert types_of(bundle.path / "model.onnx") == {onnx.TensorProto.FLOAT16}
    floats = 4 * (64 * 256 + 256 * 32)
    assert floats / 2 < (bundle.path / "model.onnx").stat().st_size < 0.52 * floats
    row = next(row for row in bundle.manifest["candidates"] if row["candidate"] == HALF)
    assert float(row["sqnr_db"]) > 60  # 11 bits of mantissa
    assert row["weight_bytes"] == floats / 2


def test_half_precision_that_is_slower_as_well_gives_way_to_float(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FloatForm, "_ratio", timed(SLOWER, SLOWER))

    bundle = packaged(perceptron, data)

    told = outcomes(bundle)
    assert told.pop("float32") == ("ships", "")
    assert told[HALF] == ("refused", "is slower than the float model")
    assert {fate for fate, _ in told.values()} == {"refused"}
    assert types_of(bundle.path / "model.onnx") == {onnx.TensorProto.FLOAT}


def test_half_precision_is_not_tried_where_integers_ship(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FloatForm, "_ratio", timed(FASTER, SLOWER))

    bundle = packaged(perceptron, data)

    assert bundle.manifest["model"]["kind"] == "quantized"
    assert HALF not in outcomes(bundle)


def test_no_weight_is_stored_in_half_precision_where_float32_is_asked_for(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FloatForm, "_ratio", timed(SLOWER, FASTER))

    bundle = packaged(perceptron, data, precision="float32")

    assert HALF not in outcomes(bundle)
    assert outcomes(bundle)["float32"] == ("ships", "")
    assert types_of(bundle.path / "model.onnx") == {onnx.TensorProto.FLOAT}
    assert bundle.manifest["model"]["kind"] == "float32"


def test_half_precision_that_is_asked_for_by_name_stands_above_float32(perceptron: Path, data: Path) -> None:
    bundle = packaged(perceptron, data, quantize="float16", precision="float32")
    assert types_of(bundle.path / "model.onnx") == {onnx.TensorProto.FLOAT16}


def test_half_precision_that_loses_too_much_is_told_of(
    onnx_file: Callable[..., Path], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its large weights are beyond half precision's 65504: none is stored so, and nothing is smaller."""
    monkeypatch.setattr(FloatForm, "_ratio", timed(SLOWER, FASTER))
    weights = 1e6 * np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    model = onnx_file("f (float[1, 64] x) => (float[1, 256] y) { a = MatMul(x, w) y = Tanh(a) }", w=weights)

    bundle = packaged(model, data, max_drop=0.4)

    told = outcomes(bundle)
    assert told["float32"] == ("ships", "")
    fate, reason = told[HALF]
    assert fate == "refused"
    assert reason.startswith("no smaller than the float model")


def test_half_precision_that_shipped_is_chosen_again_by_like(
    perceptron: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FloatForm, "_ratio", timed(SLOWER, FASTER))
    first = packaged(perceptron, data)
    monkeypatch.setattr(FloatForm, "_ratio", timed(FASTER, SLOWER))

    again = packaged(perceptron, data, "again", like=Choice.of(first))

    chosen = Choice.of(first)
    assert (chosen.candidate, chosen.in_float, chosen.precision) == (HALF, False, None)
    assert outcomes(again)[HALF] == ("ships", "")


def test_the_precision_of_a_float_model_is_chosen_again_by_like() -> None:
    """OpenVINO's are tried in turn, and times decide; where the target decides, they do not."""
    choice = Choice(None, in_float=True, precision="float32")
    assert list(choice.first(("float16", "float32"))) == ["float32", "float16"]
    assert list(choice.first(("auto", "float32"))) == ["auto", "float32"]


@pytest.mark.parametrize(
    ("size", "multiplies_integers", "smaller"),
    [(999, True, True), (999, False, False), (951, False, False), (950, False, True), (1000, True, False)],
)
def test_what_is_no_more_than_smaller_has_to_save_a_twentieth(
    size: int, multiplies_integers: bool, smaller: bool
) -> None:
    """A decoder of 29 MB that holds 8-bit weights was shipped in half precision for 0.06 % of its size, at 17 dB."""
    assert is_smaller(size, 1000, multiplies_integers=multiplies_integers) is smaller
    assert not is_smaller(0, 0, multiplies_integers=multiplies_integers)


def test_half_precision_that_saves_hardly_anything_is_refused(
    onnx_file: Callable[..., Path], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FloatForm, "_ratio", timed(SLOWER, FASTER))
    rng = np.random.default_rng(0)
    model = onnx_file(
        "f (float[1, 64] x) => (float[1, 60000] y, float[1, 64] z) { y = Gather <axis = 1> (x, i) z = MatMul(x, w) }",
        i=rng.integers(0, 64, 60_000),
        w=rng.standard_normal((64, 64)).astype(np.float32),
    )

    told = outcomes(packaged(model, data))

    assert told["float32"] == ("ships", "")
    fate, reason = told[HALF]
    assert (fate, reason.split(":")[0]) == ("refused", "hardly smaller than the float model")

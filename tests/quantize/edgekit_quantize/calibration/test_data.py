from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.errors import InputError
from edgekit.model import ValueSpec
from edgekit_quantize.calibration.data import ConstantInputs, checked_feeds, read_for_their_size

INPUTS = (ValueSpec("x", "float32", (1, "n")), ValueSpec("k", "int64", ()))


class Listed(list[Sample]):
    """Samples in memory."""

    has_labels = False


def _feeds(**arrays: np.ndarray) -> list[dict[str, np.ndarray]]:
    given = {"x": np.zeros((1, 3), np.float32), "k": np.array(1)} | arrays
    return [feeds for feeds, *_ in checked_feeds(Listed([Sample("first.npz", given)]), INPUTS)]


def test_what_fits_is_fed() -> None:
    assert _feeds(extra=np.zeros(2))[0].keys() == {"x", "k"}


def test_texts_are_fed_however_long_the_longest_is() -> None:
    texts = {"t": np.array(["one", "a longer one"])}
    ((feeds, *_),) = checked_feeds(Listed([Sample("first.npz", texts)]), [ValueSpec("t", "str", (2,))])
    assert feeds["t"].tolist() == ["one", "a longer one"]


@pytest.mark.parametrize(
    ("arrays", "message", "more"),
    [
        ({"x": np.zeros((1, 3))}, "wrong type", "expected: float32\nfound: float64\nhint: convert it with .astype"),
        ({"x": np.zeros((2, 3), np.float32)}, "wrong shape", "found: (2, 3)"),
        ({"x": np.zeros(3, np.float32)}, "wrong shape", "found: (3,)"),
        ({"x": np.array([[0, np.nan, np.inf]], np.float32)}, "2 values that are NaN or infinite", "hint: "),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arrays: dict[str, np.ndarray], message: str, more: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        _feeds(**arrays)
    assert str(caught.value).startswith("first.npz: the array 'x' ")
    assert more in str(caught.value)


def test_nan_is_a_missing_value_where_the_model_takes_it_for_one() -> None:
    def checked(*numbers: float) -> np.ndarray:
        feeds = {"x": np.array([numbers], np.float32), "k": np.array(1)}
        ((fed, *_),) = checked_feeds(Listed([Sample("s", feeds)]), INPUTS, {"x"})
        return fed["x"]

    np.testing.assert_array_equal(checked(0, np.nan, 1), [[0, np.nan, 1]])
    with pytest.raises(InputError, match="holds 2 values that are infinite"):
        checked(np.inf, np.nan, -np.inf)


def test_a_missing_input_is_refused() -> None:
    with pytest.raises(InputError, match="no array for the input 'k'"):
        list(checked_feeds(Listed([Sample("s", {"x": np.zeros((1, 3), np.float32)})]), INPUTS))


def test_few_or_equal_samples_are_warned_of() -> None:
    watcher = ConstantInputs()
    for number in range(5):
        watcher.watch({"same": np.ones(3, np.float32), "other": np.full(3, number, np.float32)})

    (few,), (same,) = watcher.few(5), watcher.narrow(5)

    assert "5 calibration samples: ranges from fewer than 8" in few
    assert "'same' is the same in all 5 samples" in same
    assert "give samples that differ" in same


def test_an_input_of_which_the_shape_alone_is_read_may_be_the_same(onnx_model: Callable[..., onnx.ModelProto]) -> None:
    """Zeros of which a graph network takes how many molecules there are."""
    body = "n = Shape (slots) r = ConstantOfShape (n) y = Add (x, r)"
    graph = ir.from_proto(onnx_model(f"g (float[N] slots, float[2, N] x) => (float[2, N] y) {{ {body} }}")).graph
    assert read_for_their_size(graph) == {"slots"}
    fixed = ir.from_proto(onnx_model("g (float[1] slots, float[2, 1] x) => (float[2, 1] y) { y = Relu (x) }")).graph
    assert read_for_their_size(fixed) == {"slots"}
    watcher = ConstantInputs(read_for_their_size(graph))
    for _ in range(8):
        watcher.watch({"slots": np.zeros(2, np.float32), "x": np.ones((2, 3), np.float32)})
    (told,) = watcher.narrow(8)
    assert "'x' is the same in all 8 samples" in told


def test_an_input_that_misses_the_same_value_always_is_the_same() -> None:
    watcher = ConstantInputs()
    for _ in range(8):
        watcher.watch({"x": np.array([1, np.nan], np.float32)})
    assert "'x' is the same in all 8 samples" in watcher.narrow(8)[0]


@pytest.mark.parametrize(("count", "told"), [(1, True), (7, True), (8, False)])
def test_eight_samples_are_enough_not_to_warn(count: int, told: bool) -> None:
    assert bool(ConstantInputs().few(count)) == told


def test_rows_in_one_file_are_one_sample() -> None:
    constants = ConstantInputs()
    constants.watch({"x": np.zeros((40, 3), np.float32)})
    (told,) = constants.few(1)
    assert told.endswith(
        "One file is one sample: if the 40 rows of a file are samples, save each in a file of its own, array[i:i + 1]"
    )
    single = ConstantInputs()
    single.watch({"x": np.zeros((1, 3), np.float32)})
    assert "One file" not in single.few(1)[0]

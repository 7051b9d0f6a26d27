"""Forecasts: numbers for several steps, as quantiles of each hour, that vary little around a large one."""

import numpy as np
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.remarks import remarks_on
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.metrics import OutputComparison


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def compared(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Accuracy:
    comparison = OutputComparison("y")
    for reference, built in pairs:
        comparison.add(reference.astype(np.float32), built.astype(np.float32))
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    return Accuracy("", "", False, len(pairs), floors, (comparison.result(),), None)


@pytest.mark.parametrize("shape", [(1, 12, 3), (12, 3)], ids=str)
def test_quantiles_of_several_hours_are_held_against_what_varies(
    rng: np.random.Generator, shape: tuple[int, ...]
) -> None:
    """A load of 300 give or take 10, and quantiles 8 apart: 20 dB are an error of 30, in which they mean nothing."""
    load = (300 + 10 * rng.normal(size=(40, 12, 1)) + np.array([-8, 0, 8])).reshape(40, *shape)
    mean = load.mean(axis=0)
    near, far = ([(each, mean + share * (each - mean)) for each in load] for share in (0.75, 0.6))
    assert compared(near).shortfalls() == []
    noise = (0.4**2) * ((load - mean) ** 2).sum()
    assert compared(far).shortfalls() == [
        f"output 'y': SQNR {-20 * np.log10(0.4):.1f} dB for what varies between samples (at least 10 dB), "
        f"{10 * np.log10((load**2).sum() / noise):.1f} dB with what is the same in all"
    ]


def test_maps_and_scores_of_tokens_are_no_tables_of_quantities(rng: np.random.Generator) -> None:
    tokens = rng.normal(size=(40, 1, 12, 3))
    assert compared([(each, each + 0.01) for each in tokens]).outputs[0].centred_db is None
    heat = np.clip(0.3 + 0.05 * rng.normal(size=(40, 1, 12, 3)) + [0, 0, 0.3], 0, 1)
    assert compared([(each, each * 0.99) for each in heat]).outputs[0].centred_db is None
    picture = 300 + rng.normal(size=(40, 1, 3, 8, 8))
    assert compared([(each, each + 0.01) for each in picture]).outputs[0].centred_db is None


def test_a_recognizer_that_reads_the_same_in_all_samples_is_no_forecast(rng: np.random.Generator) -> None:
    """Its 40 steps are scores of 37 characters, of which the blank is the largest; what else varies tells nothing."""
    blank = np.zeros(37)
    blank[0] = 30
    steps = blank + 1e-3 * rng.normal(size=(40, 1, 40, 37))
    accuracy = compared([(each, each + 0.01 * rng.normal(size=each.shape)) for each in steps])
    assert accuracy.outputs[0].centred_db is None
    assert accuracy.shortfalls() == []


def test_quantiles_that_cross_are_counted_told_and_refused(rng: np.random.Generator) -> None:
    """The first and second quantile of 30 of 480 hours change places, which are 4 dB better than what is asked."""
    load = 300 + 30 * rng.normal(size=(40, 12, 1)) + np.array([-1.0, 0.0, 1.0])
    crossed = load.copy()
    crossed[:10, :3, :2] = crossed[:10, :3, 1::-1]
    found = compared(list(zip(load, crossed, strict=True)))
    assert found.outputs[0].as_record()["order"] == {"rows": 480, "broken": 30}
    assert found.shortfalls() == [
        "output 'y': 30 of 480 rows are not sorted, while the original's numbers always are (the budget 5 % allows 24)"
    ]
    crossed[2:10] = load[2:10]
    few = compared(list(zip(-load, -crossed, strict=True)))
    assert few.shortfalls() == []
    assert remarks_on(few) == [
        "output 'y': 6 of 480 rows are not sorted, while the original's numbers always are: if they are quantiles, "
        "they cross; an app can sort them"
    ]


def test_numbers_that_are_in_no_order_break_none(rng: np.random.Generator) -> None:
    load = 300 + 30 * rng.normal(size=(40, 12, 3))
    assert compared([(each, each + 1) for each in load]).outputs[0].order is None
    same = np.repeat(load[..., :1], 3, axis=-1)  # quantiles of what is certain
    assert compared([(each, each + rng.normal(size=3)) for each in same]).outputs[0].order is None
    nearly = same + np.array([0, 0.05, 0.1])  # half precision has steps of 0.25
    order = compared([(each, each[..., ::-1]) for each in nearly]).outputs[0].order
    assert order is not None
    assert (order.rows, order.broken) == (480, 0)

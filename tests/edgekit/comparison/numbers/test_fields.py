"""Fields of quantities: what varies between the places of a picture or a volume."""

from dataclasses import replace

import numpy as np
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.remarks import remarks_on
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.fields import Fields
from edgekit.comparison.numbers.metrics import Comparison


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def compared(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Accuracy:
    comparison = Comparison(("flow",), {"flow": Decision(axis=1, are_channels=True)})
    for reference, built in pairs:
        comparison.add({"flow": reference}, {"flow": built})
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    return Accuracy("", "", False, len(pairs), floors, comparison.results(), None)


def displacements(rng: np.random.Generator, deviations: tuple[float, float, float]) -> np.ndarray:
    """In voxels, along three axes: a shift of 3 along the second, and what varies."""
    field = rng.normal(0, 1, (1, 3, 12, 12, 12)) * np.reshape(deviations, (1, 3, 1, 1, 1))
    field[:, 1] += 3
    return field.astype(np.float32)


def test_a_component_of_a_displacement_that_is_lost_is_refused(rng: np.random.Generator) -> None:
    fields = [displacements(rng, (0.27, 0.3, 0.12)) for _ in range(4)]
    lost = [(field, field * np.reshape([0.0, 1, 1], (1, 3, 1, 1, 1)).astype(np.float32)) for field in fields]
    found = compared(lost)
    stacked = np.concatenate(fields).astype(np.float64)
    error = np.mean(stacked[:, 0] ** 2)
    expected = 10 * np.log10(stacked.var(axis=(0, 2, 3, 4)).sum() / error)
    whole = 10 * np.log10((stacked**2).mean(axis=(0, 2, 3, 4)).sum() / error)
    assert whole > 20
    assert found.outputs[0].centred_db == pytest.approx(expected)
    assert found.shortfalls() == [
        f"output 'flow': SQNR {expected:.1f} dB for what varies between places (at least 10 dB), {whole:.1f} dB with "
        "what is the same at all"
    ]
    assert replace(found, seeded=True).shortfalls() == []
    right = [(field, field + np.float32(0.02)) for field in fields]
    assert compared(right).shortfalls() == []


def test_the_channel_with_the_small_numbers_is_told(rng: np.random.Generator) -> None:
    fields = [displacements(rng, (0.1, 4, 4)) for _ in range(2)]
    keep = np.reshape([0.0, 1, 1], (1, 3, 1, 1, 1)).astype(np.float32)
    found = compared([(field, field * keep) for field in fields])
    assert found.shortfalls() == []
    assert remarks_on(found) == [
        "output 'flow': channel 0 of 3 keeps 0.0% of its variance; the SQNR does not show this, since channels with "
        "larger numbers dominate it"
    ]
    assert found.outputs[0].as_record()["worst_column"]["is_channel"] is True
    assert remarks_on(compared([(field, field) for field in fields])) == []


def test_what_varies_as_much_as_it_is_large_is_judged_by_its_signal(rng: np.random.Generator) -> None:
    picture = rng.uniform(0, 1, (1, 3, 20, 20))  # 0.33 of power, 0.08 of variance
    assert compared([(picture, picture * 0.95)]).outputs[0].centred_db is None
    kelvin = picture + 290
    found = compared([(kelvin, kelvin + 1)]).outputs[0]
    assert found.centred_db == pytest.approx(10 * np.log10(picture.var(axis=(0, 2, 3)).mean()))
    assert (found.is_field, found.is_curve) == (True, False)


def test_a_constant_and_what_is_not_finite_do_not_count() -> None:
    flat = np.full((1, 2, 4, 4), 7.0)
    for reference in (flat, np.where(np.arange(4) == 1, np.inf, flat)):
        fields = Fields(1)
        fields.add(reference, flat)
        assert (fields.centred_db(), fields.worst()) == (None, None)


@pytest.mark.parametrize(("channels", "tells"), [(16, True), (17, False)])
def test_many_channels_are_features(rng: np.random.Generator, channels: int, tells: bool) -> None:
    field = rng.normal(50, 1, (1, channels, 8, 8))
    fields = Fields(1)
    fields.add(field, field + 1)
    assert (fields.centred_db() is not None) == tells

"""The frontier of bytes and noise, against all allocations there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from edgekit_quantize.sizing.allocation import Choice, frontier


@pytest.mark.parametrize("seed", range(5))
def test_no_allocation_beats_the_frontier_by_any_price_of_a_byte(seed: int) -> None:
    rng = np.random.default_rng(seed)
    choices = {
        name: [Choice(form, float(rng.integers(1, 100)), float(rng.uniform(0, 10))) for form in "pqrs"]
        for name in ("a", "b", "c", "d")
    }
    every = [(sum(one.bytes for one in some), sum(one.noise for one in some)) for some in product(*choices.values())]

    found = frontier(choices)

    for price in np.geomspace(1e-4, 1e2, 60):
        best = min(noise + price * size for size, noise in every)
        assert min(one.noise + price * one.bytes for one in found) == pytest.approx(best)
    assert [one.bytes for one in found] == sorted((one.bytes for one in found), reverse=True)
    for one in found:
        chosen = [next(c for c in choices[name] if c.form == form) for name, form in one.forms.items()]
        assert one.bytes == pytest.approx(sum(choice.bytes for choice in chosen))
        assert one.noise == pytest.approx(sum(choice.noise for choice in chosen))


def test_the_ends_are_the_best_and_the_smallest() -> None:
    found = frontier({"a": [Choice("float", 8.0, 0.0), Choice("int4", 2.0, 1.0), Choice("worse", 4.0, 2.0)]})
    assert [one.forms["a"] for one in found] == ["float", "int4"]

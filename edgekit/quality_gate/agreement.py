"""Compares a bundle with the golden outputs of an earlier build: whether it still computes the same.

If there are no labels to measure the accuracy, only this distinguishes a model that was trained again from a broken
one. The golden outputs are those of the earlier float model. The bundle is executed here, by a stand-in for the device
if necessary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgekit.bundle import Bundle
from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.numbers.metrics import Comparison, OutputAccuracy
from edgekit.config import Budget
from edgekit.devices.local import LocalDevice
from edgekit.errors import EdgeKitError
from edgekit.execution.recurrence import restart
from edgekit.model import Arrays
from edgekit.quality_gate.baseline import Figures
from edgekit.quality_gate.latency import SAME_FILES, EarlierBuild, same_model
from edgekit.quality_gate.verdict import Figure, Outcome, Verdict, verdict_on
from edgekit.units import decibel_text, limit_text

LEAST_DB = 10.0
"""The least SQNR in dB without a warning if the budget sets none: the difference has a tenth of the outputs' power."""
MOST_MISMATCH = 0.1
"""The largest share of elements that may differ in outputs that are not floating-point."""

_BUDGET = "agreement"
_KEY = "agreement_db"
_SETTING = f"`{_KEY}` in the budget says what is near enough"


def judge_agreement(bundle: Bundle, asked: Budget, earlier: EarlierBuild, figures: Figures) -> Iterator[Verdict]:
    """The verdict on how near the bundle is to an earlier build.

    There is none if the budget sets no agreement and labels give the accuracy of both builds.

    Args:
        bundle: The bundle to judge.
        asked: The budget. If it sets no agreement, less than :data:`LEAST_DB` is inconclusive, and breaks nothing.
        earlier: The earlier build.
        figures: The earlier build's figures, which are known even if its bundle is missing.
    """
    other = earlier.bundle
    known = None not in (Figures.of(bundle).accuracy, figures.accuracy)
    if asked.agreement_db is None and known:
        return
    least = LEAST_DB if asked.agreement_db is None else asked.agreement_db
    limit = f"at least {limit_text(least, 1)} dB to {earlier.whose} golden outputs"
    unclear = Outcome.NOT_COMPARED if asked.agreement_db is None else Outcome.INCONCLUSIVE
    figure = Figure(_KEY, "dB", least)
    if isinstance(other, str):
        yield Verdict(_BUDGET, limit, other, unclear, figure)
        return
    if same_model(bundle, other):
        yield verdict_on(_BUDGET, limit, SAME_FILES, True, figure)
        return
    try:
        results = _compared(bundle, other)
    except EdgeKitError as error:
        found = error.message if error.found is None else f"{error.message}: {error.found}"
        yield Verdict(_BUDGET, limit, found, unclear, figure)
        return
    if isinstance(results, str):
        yield Verdict(_BUDGET, limit, results, unclear, figure)
        return
    farthest = _farthest(results, least)
    found = farthest.text
    if not farthest.is_near and asked.agreement_db is None:
        found = f"{found}: no longer the earlier build's outputs ({_SETTING})"
    broken = Outcome.INCONCLUSIVE if asked.agreement_db is None or farthest.db is None else Outcome.BROKEN
    outcome = Outcome.KEPT if farthest.is_near else broken
    yield Verdict(_BUDGET, limit, found, outcome, Figure(_KEY, "dB", least, farthest.db))


def _compared(bundle: Bundle, earlier: Bundle) -> tuple[OutputAccuracy, ...] | str:
    """How near each output is to the earlier build's; or why the outputs cannot be compared."""
    if [feature.spec for feature in bundle.inputs] != [feature.spec for feature in earlier.inputs]:
        return "the inputs are not those of the earlier build"
    if bundle.open_dims != earlier.open_dims or bundle.states != earlier.states:
        return "the bundle does not take the same sizes as the earlier build"
    present = {feature.name for feature in bundle.outputs}
    floors = earlier.manifest["golden"]["outputs"]
    names = tuple(floor["name"] for floor in floors if floor["name"] in present and floor["max_mismatch"] != 1.0)
    if not names:
        return "no output of the earlier build can be compared"
    comparison = Comparison(names)
    with LocalDevice().open(bundle) as session:
        restart(session)
        for feeds, wanted in earlier.golden():
            found = session.run(feeds)
            other = _of_other_shape(names, wanted, found)
            if other is not None:
                return f"output {other} has another shape than in the earlier build"
            comparison.add(wanted, found)
    return comparison.results()


def _of_other_shape(names: tuple[str, ...], wanted: Arrays, found: Arrays) -> str | None:
    return next((name for name in names if np.shape(wanted[name]) != np.shape(found[name])), None)


@dataclass(frozen=True)
class _Distance:
    """How far one output is from the earlier build's."""

    text: str
    is_near: bool
    db: float | None = None
    """The SQNR in dB; None for outputs that are not floating-point."""


def _farthest(results: tuple[OutputAccuracy, ...], least: float) -> _Distance:
    """The output that is farthest away: a floating-point one, unless only another kind of output is too far."""
    floats = [(output.sqnr_db, output.name) for output in results if output.sqnr_db is not None]
    others = [(output.mismatch, output.name) for output in results if output.sqnr_db is None]
    found: list[_Distance] = []
    if floats:
        db, name = min(floats)
        found.append(_Distance(f"{name}: SQNR {decibel_text(db)}", db >= least, db))
    if others:
        share, name = max(others)
        text = f"{name}: {loss_text(share)} of the elements differ"
        found.append(_Distance(text, share <= MOST_MISMATCH))
    return next((one for one in found if not one.is_near), found[0])

"""Warnings of outputs that pass by their decisions alone, and whose numbers are far off."""

from __future__ import annotations

from collections.abc import Mapping

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.decisions.shared import DecidedBy, Decision
from edgekit.comparison.numbers.metrics import OutputAccuracy


def decided_alone(accuracy: Accuracy, decisions: Mapping[str, Decision | None]) -> list[str]:
    """Returns warnings of outputs that pass by their decisions alone.

    Thresholds may have to move, or the numbers may be no scores at all. Classes that a Softmax, an ArgMax or names
    declare need no warning.

    Args:
        accuracy: The measured accuracy.
        decisions: What counts as a decision in the outputs of which the graph tells it; see
            :mod:`edgekit.comparison.decisions.from_graph`.
    """
    return [text for output in accuracy.by_decisions if (text := _warning(output, decisions)) is not None]


def _warning(output: OutputAccuracy, decisions: Mapping[str, Decision | None]) -> str | None:
    decision = decisions.get(output.name, Decision())
    if decision is None or output.sqnr_db is None or output.max_abs_error is None:
        return None
    if decision.by is DecidedBy.CROSSING or decision.independent:
        return (
            f"output {output.name!r} passes by its yes-or-no decisions alone: a probability is off by up to "
            f"{output.max_abs_error:.2g} (SQNR {output.sqnr_db:.1f} dB), so a threshold other than 0.5 has to be set "
            "anew"
        )
    if decision.is_known or decision.are_scores:
        return None
    same = round((output.agreement or 0.0) * (output.decisions or 0))
    return (
        f"output {output.name!r} passes because its largest number is the original's at {same} of {output.decisions} "
        f"positions, although its SQNR is {output.sqnr_db:.1f} dB; the model does not declare that its numbers are "
        "scores of classes: if they are quantities, --floor 20 judges them as such"
    )

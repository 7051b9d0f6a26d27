"""Checks whether a build stays accurate if an app leaves out the settings that the build was verified with."""

from __future__ import annotations

from collections.abc import Mapping

from edgekit.comparison.numbers.metrics import Comparison
from edgekit.comparison.side_by_side import Executor
from edgekit.data.first_samples import FirstSamples
from edgekit.data.samples import Samples
from edgekit.errors import RequirementError
from edgekit.execution.recurrence import restart
from edgekit.target import Pinned

MOST_SAMPLES = 8
LEAST_DB = 20.0
"""The SQNR in dB, over all samples, below which a loss is reported: the floor of builds below float32."""
LOSS_DB = 6.0
"""The least drop of the SQNR, in dB, that is reported: the verified build may itself be near the floor."""


def lost_by_default(
    samples: Samples, original: Executor, built: Executor, settings: Mapping[str, str], outputs: tuple[str, ...]
) -> list[str]:
    """Returns warnings of outputs that lose accuracy without the settings on this machine.

    Args:
        samples: What to run on; the first 8 are taken.
        original: The float model.
        built: What was built from it, executed with the settings.
        settings: The settings that an app has to set, by the runtime's own names.
        outputs: The original's outputs that are judged by their signal, in order.
    """
    other = built.by_default() if settings and isinstance(built, Pinned) else None
    if other is None:
        return []
    with_settings, without = Comparison(outputs), Comparison(outputs)
    first = FirstSamples(samples, MOST_SAMPLES)
    for executor in (original, built, other):
        restart(executor)
    asked = f"an app has to set {', '.join(f'{name}={value}' for name, value in settings.items())}: without it, as "
    for sample in first:
        wanted, kept_answer = original.run(sample.feeds), built.run(sample.feeds)
        with_settings.add(wanted, kept_answer)
        try:
            without.add(wanted, other.run(sample.feeds))
        except RequirementError as error:  # a loop ran another number of turns, or the model does not run
            found = "" if error.found is None else f" ({error.found} for {error.expected})"
            return [f"{asked}{other.executed_by}, {error.subject}: {error.message}{found}"]
    return [
        f"{asked}{other.executed_by}, output {lost.name!r} has a SQNR of {lost.sqnr_db:.1f} dB, with it "
        f"{kept.sqnr_db:.1f} dB"
        for kept, lost in zip(with_settings.results(), without.results(), strict=True)
        if kept.sqnr_db is not None
        and lost.sqnr_db is not None
        and lost.sqnr_db < min(LEAST_DB, kept.sqnr_db - LOSS_DB)
    ]

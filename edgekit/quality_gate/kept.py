"""The bundle of an earlier build that a baseline keeps, or why there is none to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgekit.bundle import Bundle, check_integrity, other_writer, read_bundle
from edgekit.errors import EdgeKitError
from edgekit.quality_gate.baseline import Figures, kept_bundle
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.registry import canonical_of
from edgekit.units import bytes_text

_AS_KEPT = "the bundle as --update kept it"
_RESTORING = "restore it from version control, with `git lfs pull` if Git LFS holds it; --update writes it anew"
_SHOWN_OF_FINGERPRINT = 12


@dataclass(frozen=True)
class Unusable:
    """Why nothing can be compared with the bundle that the baseline keeps."""

    why: str
    """The reason in short, as shown in place of each comparison."""
    flaw: str | None
    """What is wrong with the kept bundle, which makes the verdict fail; None if the bundle is just missing."""


def read_kept(file: Path, figures: Figures) -> Bundle | Unusable:
    """The bundle of these figures that the baseline at ``file`` keeps, or why it cannot be used."""
    place = kept_bundle(file, figures)
    if not place.exists():
        return Unusable(f"the baseline's bundle is not at hand: {place} (--update writes it)", None)
    try:
        bundle = read_bundle(place)
    except EdgeKitError as error:
        writer = other_writer(place)
        if writer is None:
            return _damaged(place, error)
        why = "another version of EdgeKit wrote the baseline's bundle"
        return Unusable(why, f"{place} is of {writer}, and cannot be read: {_reason(error)} (--update writes it anew)")
    try:
        check_integrity(bundle, canonical_of(bundle.profile_name))
    except EdgeKitError as error:
        return _damaged(place, error)
    return bundle


def judge_kept(
    file: Path, known: Mapping[str, Figures], figures: Figures, kept: Bundle | Unusable
) -> Iterator[Verdict]:
    """A broken verdict if the kept bundle cannot be read, or does not have the figures; none if it is right.

    Figures may differ after a merge that takes the file of one branch and the folder of another. They are not compared
    if several bundles have the same fingerprint, since these share a folder that holds only one of them.

    Args:
        file: The baseline.
        known: All figures in the baseline, by the bundles' names.
        figures: The baseline's figures of the bundle.
        kept: What :func:`read_kept` returned for these figures.
    """
    if isinstance(kept, Unusable):
        if kept.flaw is not None:
            yield Verdict("baseline", _AS_KEPT, f"{kept.why}: {kept.flaw}", Outcome.BROKEN)
        return
    sharing = [each for each in known.values() if each.fingerprint == figures.fingerprint]
    found = Figures.of(kept)
    if len(sharing) == 1 and found != figures:
        text = (
            f"{file} has {_figures_text(figures)}, and {kept.path} has {_figures_text(found)} "
            "(restore both from one commit; --update writes them anew)"
        )
        yield Verdict("baseline", _AS_KEPT, text, Outcome.BROKEN)


def _damaged(place: Path, error: EdgeKitError) -> Unusable:
    return Unusable("the baseline's bundle is damaged", f"{place}: {_reason(error)} ({_RESTORING})")


def _reason(error: EdgeKitError) -> str:
    return error.message if error.found is None else str(error.found)


def _figures_text(figures: Figures) -> str:
    accuracy = "no accuracy" if figures.accuracy is None else f"accuracy {figures.accuracy:.2%}"
    return f"{bytes_text(figures.size)}, {accuracy}, fingerprint {figures.fingerprint[:_SHOWN_OF_FINGERPRINT]}…"

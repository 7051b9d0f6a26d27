"""Judges whether a bundle ships, with the reasons for and against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from edgekit.comparison.boxes.attributes import AttributeAccuracy
from edgekit.comparison.embeddings.angles import LEAST_EXPLAINED
from edgekit.reporting.accuracy_texts import data_text, judging_meaning, worst_output_text
from edgekit.reporting.summary import Manifest, stage_record, unsteady_ratio, warnings
from edgekit.units import decibel_text


class Weight(StrEnum):
    """What a finding means for shipping."""

    GOOD = "good"
    CAUTION = "caution"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """One reason for or against shipping a bundle."""

    weight: Weight
    text: str


HEADLINES = {
    Weight.GOOD: "Ships",
    Weight.CAUTION: "Ships, with reservations",
    Weight.BAD: "Does not ship",
}


def judge(manifest: Manifest) -> tuple[Weight, list[Finding]]:
    """The most severe weight, and the reasons, the most severe first."""
    order = list(Weight)[::-1]
    findings = sorted(_findings(manifest), key=lambda finding: order.index(finding.weight))
    return findings[0].weight, findings


def _findings(manifest: Manifest) -> Iterator[Finding]:
    yield from _accuracy(manifest["accuracy"])
    yield from _operators(manifest)
    if not manifest["target"]["runs_here"]:
        yield Finding(
            Weight.CAUTION,
            f"The device itself has executed nothing: {manifest['accuracy']['executed_by']} stood in for it. "
            f"On the device run `{manifest['check']['command']}`.",
        )
    elif (interval := unsteady_ratio(manifest["latency"])) is not None:
        yield Finding(
            Weight.CAUTION,
            f"Its latency was unsteady, {interval}, as when other programs run. `edgekit bench` measures it again.",
        )
    else:
        weight = Weight.CAUTION if manifest["latency"]["ratio"] > 1 else Weight.GOOD
        yield Finding(weight, f"It takes {manifest['latency']['ratio']:.2f} times as long as the original.")
    for text in warnings(manifest):
        yield Finding(Weight.CAUTION, text[:1].upper() + text[1:])


def _accuracy(accuracy: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings on accuracy. Floors are missed only if the user accepted that: no other such bundle is written."""
    missed = accuracy.get("accepted", ())
    if missed:
        text = f"It is less accurate than asked ({_floors(accuracy)}) and was taken with --accept: {'; '.join(missed)}."
        yield Finding(Weight.BAD, text)
    else:
        text = f"It is as accurate as asked ({_floors(accuracy)}); {worst_output_text(accuracy)}."
        yield Finding(Weight.GOOD, text)
    if accuracy["data"]["kind"] == "seeded":
        text = f"The accuracy was measured on {data_text(accuracy)}: the accuracy on real data can differ."
        yield Finding(Weight.CAUTION, text)


def _floors(accuracy: Mapping[str, Any]) -> str:
    floors = accuracy["floors"]
    asked = [f"SQNR of {decibel_text(floors['sqnr_db'])}" + (" by --floor" if floors.get("asked") else "")]
    if floors["agreement"] is not None:
        asked.append(f"or {floors['agreement']:.0%} equal decisions")
    meaning = judging_meaning(accuracy)
    if meaning is not None:
        angles = meaning.get("angles")
        if angles is None:
            asked.append(f"and {floors['agreement']:.0%} equal {meaning['kind']}")
            if meaning.get("beside") is not None:
                beside = AttributeAccuracy(**meaning["beside"])
                asked.append(f"whose {beside.named} keep {beside.least}")
        else:
            rank = "" if angles["rank"] is None else f"a rank correlation of {floors['agreement']:.4g} and "
            asked.append(f"and {rank}{LEAST_EXPLAINED:.0%} of the embeddings' variance")
    if accuracy["task"] is not None and floors["max_drop"] is not None:
        asked.append(f"and at most {floors['max_drop']:.2%} of the labels lost")
    return " ".join(asked)


_WITNESSES = {
    "compiled": "the target's compiler",
    "registry": "the converter",
    "table": "a table of the vendor's",
    "heuristic": "a rule of thumb",
    "unknown": "nothing known",
}
"""What says that a node is supported, by the evidence of its verdict (:class:`edgekit.target.Evidence`)."""


def _operators(manifest: Manifest) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    evidence: Counter[str] = Counter()
    for group in stage_record(manifest, "check operators").get("verdicts", ()):
        counts[group["support"]] += len(group["nodes"])
        evidence[group["evidence"]] += len(group["nodes"])
    total = counts.total()
    texts = {
        "unsupported": (Weight.BAD, "are not supported by the device"),
        "falls back": (Weight.CAUTION, "fall back to another unit of the device"),
        "unknown": (Weight.CAUTION, "may or may not be supported: it is not known"),
    }
    for support, (weight, text) in texts.items():
        if counts[support]:
            yield Finding(weight, f"Operators: {counts[support]} of {total} nodes {text}.")
    if total and not counts.keys() & texts.keys():
        yield Finding(Weight.GOOD, f"Operators: {_taken(evidence)}.")


def _taken(evidence: Counter[str]) -> str:
    """What says that the nodes are supported; from a converter's support it is not known which unit runs them."""
    total = evidence.total()
    if len(evidence) == 1:
        (kind,) = evidence
        text = f"{_WITNESSES[kind]} takes all {total} nodes"
    else:
        each = ", ".join(f"{count} by {_WITNESSES[kind]}" for kind, count in evidence.most_common())
        text = f"all {total} nodes are taken: {each}"
    return f"{text}; the device decides on which unit they run" if "registry" in evidence else text

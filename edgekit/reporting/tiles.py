"""The four most important figures of a bundle: size, time, accuracy, and how many operators the device supports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edgekit.reporting.accuracy_texts import counted_text, data_text, no_signal_text, without_vanished, worst_db
from edgekit.reporting.summary import Manifest, stage_record, unsteady_ratio
from edgekit.target import Support
from edgekit.units import bytes_text, decibel_text, time_text


@dataclass(frozen=True)
class Tile:
    """A figure with its label and a note."""

    label: str
    value: str
    note: str
    share: float | None = None
    """The figure as a share of the original's, from 0 on; None for figures without such a share."""


def tiles(manifest: Manifest) -> list[Tile]:
    """Size, time, accuracy and operators."""
    return [_size(manifest), _time(manifest), _accuracy(manifest), _operators(manifest)]


def _size(manifest: Manifest) -> Tile:
    size = manifest["size"]
    note = f"{size['ratio']:.2f} times the original's {bytes_text(size['source_bytes'])}"
    return Tile("Size", bytes_text(size["bytes"]), note, size["ratio"])


def _time(manifest: Manifest) -> Tile:
    latency = manifest["latency"]
    if not latency["of_device"]:
        return Tile("Time", "not measured", "`edgekit bench BUNDLE --device DEVICE` measures it on the device")
    interval = unsteady_ratio(latency)
    if interval is not None:
        return Tile("Time", time_text(latency["built"]["p50_ms"]), f"unsteady: {interval}")
    note = f"{latency['ratio']:.2f} times the original's {time_text(latency['reference']['p50_ms'])}"
    return Tile("Time", time_text(latency["built"]["p50_ms"]), note, latency["ratio"])


def _accuracy(manifest: Manifest) -> Tile:
    """The share of labels found if there are labels, else the agreement of boxes or texts, else the worst output."""
    accuracy = manifest["accuracy"]
    where = f"on {data_text(accuracy)}"
    if (task := accuracy["task"]) is not None:
        return Tile("Accuracy", f"{task['built']:.2%}", f"of the labels, the original {task['reference']:.2%}; {where}")
    if (meaning := accuracy.get("meaning")) is not None and meaning["count"]:
        if meaning.get("angles") is not None:
            cosine, worst = (meaning["angles"][key] for key in ("cosine", "worst_cosine"))
            return Tile("Accuracy", f"{cosine:.4f}", f"cosine, {worst:.4f} at worst; {where}")
        right = meaning["count"] - meaning["wrong"]
        return Tile(
            "Accuracy", f"{right} of {meaning['count']}", f"equal {meaning['kind']}{counted_text(meaning)}, {where}"
        )
    worst = worst_db(accuracy)
    if worst is None:
        mismatches = [float(output["mismatch"]) for output in without_vanished(accuracy)["outputs"]]
        if not mismatches:
            return Tile("Accuracy", "not compared", no_signal_text(accuracy))
        share = max(mismatches)
        return Tile("Accuracy", f"{1 - share:.2%}", f"of the worst output's elements equal {where}")
    return Tile("Accuracy", decibel_text(worst), f"SQNR of the worst of {data_text(accuracy)}")


def _operators(manifest: Manifest) -> Tile:
    counts: Counter[str] = Counter()
    for group in stage_record(manifest, "check operators").get("verdicts", ()):
        counts[group["support"]] += len(group["nodes"])
    others = ", ".join(
        Support(support).counted(count) for support, count in counts.items() if support != Support.SUPPORTED
    )
    taken = counts["supported"] + counts["decomposed"]
    return Tile("Operators", f"{taken} of {counts.total()}", others or "nodes supported")

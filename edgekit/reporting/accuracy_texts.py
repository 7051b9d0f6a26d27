"""Texts about the accuracy of a build: labels, boxes and texts, the worst output, and sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.boxes.attributes import AttributeAccuracy
from edgekit.comparison.meaning_accuracy import ANCHORS, BOXES, FEWEST, PEAKS
from edgekit.units import decibel_text

MOST_HEADS = 8
"""If more outputs than this decide, only the worst is reported, and those that give classes by the graph."""
MOST_SIZES = 6
"""If accuracy was measured at more sizes of open dimensions than this, only the worst is reported."""


def padding_texts(accuracy: Mapping[str, Any]) -> list[str]:
    """Which positions were not compared because they are padding of the samples; empty if all were compared."""
    padding = accuracy.get("padding")
    if padding is None:
        return []
    return [f"positions of {', '.join(padding['outputs'])} where {padding['mask']!r} is 0: padding"]


def accuracy_text(accuracy: Mapping[str, Any]) -> str:
    """The share of labels found; else the agreement of boxes, texts or embeddings with the original's.

    Without these, the least share of equal decisions if several heads decide, else an empty text.
    """
    if accuracy["task"] is not None:
        return f"{accuracy['task']['built']:.2%}"
    meaning = accuracy.get("meaning")
    if meaning is None or meaning.get("agreement") is None:
        heads = _deciding(accuracy)
        return f"decisions {min(map(_agreement, heads)):.2%}" if len(heads) > 1 else ""
    return f"{meaning['kind']} {meaning['agreement']:.2%}"


def worst_db(accuracy: Mapping[str, Any]) -> float | str | None:
    """The least SQNR of a floating-point output on any sample, as the manifest writes it; None without such outputs.

    Outputs that were too small to compare are ignored.
    """
    outputs = without_vanished(accuracy)["outputs"]
    figures = [output["worst_sample_db"] for output in outputs if output["worst_sample_db"] is not None]
    return min(figures, key=float, default=None)


def class_texts(accuracy: Mapping[str, Any]) -> list[str]:
    """How many decisions of each output equal the original's, and the class that keeps the fewest, if not all are kept.

    Both are reported for outputs whose classes the graph shows; a class is named if it has at least 20 positions. Of
    several heads that decide, each is reported, or only the worst of more than :data:`MOST_HEADS`. For other outputs
    that decide several times per sample, such as those of taggers and language models, only the decisions are reported;
    for maps, which decide nothing by themselves, only the class. Scores of boxes are left out: most belong to no box.
    """
    texts = []
    meaning = accuracy.get("meaning") or {}
    of_boxes = meaning.get("outputs", ()) if meaning.get("kind") in (ANCHORS, BOXES, PEAKS) else ()
    reduced = accuracy["floors"]["agreement"] is not None
    deciding = _deciding(accuracy)
    of_heads = deciding if 1 < len(deciding) <= MOST_HEADS else sorted(deciding, key=_agreement)[: len(deciding) > 1]
    for output in accuracy["outputs"]:
        if output["name"] in of_boxes:
            continue
        worst = output.get("worst_class")
        least = worst and f"{worst['kept']} of {worst['places']} places kept, overlap {worst['overlap']:.2f}"
        if worst is not None and worst["told"] and output["agreement"] is not None:
            equal = round(output["agreement"] * output["decisions"])
            least_alike = (
                f"; the least alike is class {worst['number']}, {least}" if equal < output["decisions"] else ""
            )
            texts.append(f"{output['name']}: {equal} of {output['decisions']} decisions equal{least_alike}")
        elif worst is not None and output["agreement"] is None and (worst["told"] or reduced):
            kept = (
                f"worst for values above 0.5: map {worst['number']}"
                if worst.get("is_map")
                else f"worst where one channel is clearly the largest: channel {worst['number']}"
            )
            texts.append(f"{output['name']}: {kept}, {least}")
        elif (
            reduced
            and output["agreement"] is not None
            and (
                output.get("tells_classes")
                or (output.get("decisions") or 0) > output["samples"]
                or any(output is head for head in of_heads)
            )
        ):
            equal = round(output["agreement"] * output["decisions"])
            texts.append(f"{output['name']}: {equal} of {output['decisions']} decisions equal")
    return texts


def worst_head_text(accuracy: Mapping[str, Any]) -> str:
    """The share of equal decisions of the worst of several heads; empty if fewer than two outputs decide."""
    heads = _deciding(accuracy)
    if len(heads) < 2:
        return ""
    worst = min(heads, key=_agreement)
    equal = round(worst["agreement"] * worst["decisions"])
    return f"of {len(heads)} heads, the worst is {worst['name']}: {equal} of {worst['decisions']} decisions equal"


def _deciding(accuracy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The outputs that decide, except those that are judged by their boxes, texts or embeddings."""
    judged = (accuracy.get("meaning") or {}).get("outputs", ())
    return [
        each for each in accuracy.get("outputs", ()) if each["agreement"] is not None and each["name"] not in judged
    ]


def _agreement(output: Mapping[str, Any]) -> float:
    return float(output["agreement"])


def task_text(accuracy: Mapping[str, Any]) -> str:
    """The shares of the labels that the built model and the original find."""
    task = accuracy["task"]
    auc = task.get("auc")
    area = "" if auc is None else f"; AUC {auc['built']:.4f}, the original's {auc['reference']:.4f}"
    return f"{task['built']:.2%} of the labels found, {task['reference']:.2%} by the original{area}"


def counted_text(meaning: Mapping[str, Any]) -> str:
    """Says that what both models find counts twice; empty for kinds of which the original's alone count."""
    return "" if meaning.get("of_original") is None else ", counted in both models"


def meaning_text(meaning: Mapping[str, Any]) -> str:
    """How many boxes or characters of the built model equal the original's, or how near its embeddings are."""
    if meaning.get("angles") is not None:
        return _angles_text(meaning["angles"])
    if not meaning["count"]:
        return f"none on these samples ({meaning['read_as']})"
    overlap = "" if meaning["overlap"] is None else f", {meaning['overlap']:.2f} overlap on average"
    right = meaning["count"] - meaning["wrong"]
    equal = f"{right} of {meaning['count']} equal{counted_text(meaning)}"
    return f"{equal}{overlap}{_beside_text(meaning)} ({meaning['read_as']})"


def _beside_text(meaning: Mapping[str, Any]) -> str:
    """How near key points, angles or masks are, for boxes that both models find; empty if there are none."""
    if meaning.get("beside") is None:
        return ""
    return f", {AttributeAccuracy(**meaning['beside'])}"


def _angles_text(angles: Mapping[str, Any]) -> str:
    """Cosines to the original's vectors, and how well the order of neighbors is kept."""
    text = f"cosine {angles['cosine']:.4f}, {angles['worst_cosine']:.4f} on its worst sample"
    if not angles["tells"]:
        return f"{text}; too few different vectors to judge by"
    rank = "" if angles["rank"] is None else f"; rank correlation of cosines {angles['rank']:.4f}"
    lost = f"; {angles['lost']} of {angles['vectors']} vectors lost" if angles["lost"] else ""
    return f"{text}{rank}; {angles['explained']:.2%} of the variance explained{lost}"


def worst_output_text(accuracy: Mapping[str, Any]) -> str:
    """The floating-point output that is farthest from the original's on any sample, and the worst integer output."""
    accuracy = without_vanished(accuracy)
    if not accuracy["outputs"]:
        return no_signal_text(accuracy)
    worst = worst_db(accuracy)
    others = [output for output in accuracy["outputs"] if output["worst_sample_db"] is None]
    unequal = max(others or accuracy["outputs"], key=_unequal)
    if worst is None:
        return _unequal_text(accuracy, unequal)
    output = next(output for output in accuracy["outputs"] if output["worst_sample_db"] == worst)
    text = f"{output['name']}: {_signal_text(output['sqnr_db'], worst)}{_judged_by(accuracy, output)}"
    own = accuracy["self_agreement_db"].get(output["name"])
    text = text if own is None else f"{text}; two executions of the original agree to {decibel_text(own)}"
    return f"{text}; {_unequal_text(accuracy, unequal)}" if others and _unequal(unequal) else text


def _judged_by(accuracy: Mapping[str, Any], output: Mapping[str, Any]) -> str:
    """What judges an output in place of its SQNR, which says little if rows of boxes change places; else empty."""
    meaning = judging_meaning(accuracy)
    if meaning is None or meaning.get("angles") is not None or output["name"] not in meaning["outputs"]:
        return ""
    return f"; judged by its {meaning['kind']}"


def judging_meaning(accuracy: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The record of boxes, anchors, texts or embeddings by which the build was judged; else None."""
    meaning, floors = accuracy.get("meaning"), accuracy.get("floors")
    if meaning is None or floors is None or floors["agreement"] is None or floors.get("asked"):
        return None
    angles = meaning.get("angles")
    tells = meaning["count"] >= FEWEST if angles is None else angles["tells"]  # of bundles without the key
    tells = meaning.get("judges", tells)
    return meaning if tells else None


def _signal_text(sqnr_db: float | str, worst_db: float | str) -> str:
    if float(worst_db) == math.inf:
        return "equal on all samples"
    return f"SQNR {decibel_text(sqnr_db)}, {decibel_text(worst_db)} on its worst sample"


def _unequal_text(accuracy: Mapping[str, Any], output: Mapping[str, Any]) -> str:
    """The share of an output's elements that differ; for a picture, also by how much."""
    if not _unequal(output):
        return f"{output['name']}: equal on all samples"
    text = f"{output['name']}: {loss_text(_unequal(output))} of the elements differ"
    if output.get("picture_db") is None or not output["mismatch"]:
        return text
    text = f"{text}, by at most {output['max_abs_error']:.0f} (SQNR {decibel_text(output['picture_db'])})"
    own = accuracy.get("pooled_agreement_db", {}).get(output["name"])
    return text if own is None else f"{text}; two executions of the original agree to {decibel_text(own)}"


def _unequal(output: Mapping[str, Any]) -> float:
    return float(output["mismatch"])


def no_signal_text(accuracy: Mapping[str, Any]) -> str:
    """The text for a build of which no output has an SQNR: why it has none."""
    vanished = accuracy.get("vanished", ())
    return f"{', '.join(vanished)}: too small on these inputs to compare" if vanished else "no floating-point output"


def without_vanished(accuracy: Mapping[str, Any]) -> Mapping[str, Any]:
    """The accuracy record without the outputs that were too small to compare."""
    vanished = accuracy.get("vanished", ())
    if not vanished:
        return accuracy
    return {**accuracy, "outputs": [output for output in accuracy["outputs"] if output["name"] not in vanished]}


def sizes_texts(accuracy: Mapping[str, Any]) -> list[str]:
    """The worst output at each size of open dimensions; of more than :data:`MOST_SIZES` sizes, only at the worst."""
    sizes: list[Mapping[str, Any]] = list(accuracy.get("sizes", ()))
    if len(sizes) <= MOST_SIZES:
        return [size_accuracy_text(accuracy, size) for size in sizes]
    figures = [worst_db(size) for size in sizes]
    worst = min(range(len(sizes)), key=lambda place: math.inf if figures[place] is None else float(figures[place] or 0))
    return [f"{size_accuracy_text(accuracy, sizes[worst])}, the worst of {len(sizes)}"]


def size_accuracy_text(accuracy: Mapping[str, Any], size: Mapping[str, Any]) -> str:
    """How near the original the worst output is at one size of the open dimensions."""
    place = ", ".join(f"{name}={size}" for name, size in size["sizes"].items())
    return f"{place}: {worst_output_text({**accuracy, 'vanished': (), **size})}"


def data_text(accuracy: Mapping[str, Any]) -> str:
    """What the comparison was made on."""
    data = accuracy["data"]
    several = "s" * (data["samples"] != 1)
    what = f"random input{several} from a fixed seed" if data["kind"] == "seeded" else f"sample{several}"
    return f"{data['samples']} {what}"

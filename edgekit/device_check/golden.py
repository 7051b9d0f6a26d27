"""Writes golden data: a few inputs and the original model's outputs, for the check on the device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.comparison.accuracy import DECISION_DB, MAX_DISAGREEMENT, Accuracy, Executor, Kind
from edgekit.comparison.metrics import Comparison, OutputAccuracy
from edgekit.data.samples import Sample, Samples
from edgekit.data.sized_samples import SizedSamples
from edgekit.execution.recurrence import GOLDEN_STEPS, Restartable, restart
from edgekit.model import Arrays
from edgekit.target import Feature

GOLDEN_SAMPLES = 3
MOST_GOLDEN_SIZES = 8
MOST_ASKED_DB = 25.0
"""More is not asked of a device's own arithmetic, which may be half precision."""
DEVICE_MARGIN_DB = 6.0
"""How much nearer to the original the artifact may be here than on the device, which rounds at other places: twice the
error."""


def write_golden(
    folder: Path | None,
    samples: Samples,
    original: Executor,
    built: Executor,
    inputs: tuple[Feature, ...],
    outputs: tuple[Feature, ...],
    kind: Kind,
    accuracy: Accuracy,
) -> dict[str, Any]:
    """Writes ``<sample>/inputs/<i>.npy`` and ``<sample>/outputs/<i>.npy``: one sample a folder.

    They are the first :data:`GOLDEN_SAMPLES` (of a sequence the first
    :data:`edgekit.execution.recurrence.GOLDEN_STEPS`), and one for each size of open dimensions that the accuracy was
    measured at, up to :data:`MOST_GOLDEN_SIZES`.

    Args:
        folder: Where to write; it is made. None writes nothing: for a further build of the same model.
        samples: What to take the first of; samples of other sizes are made of them.
        original: Computes the outputs.
        built: What was built, to see how accurate it is on these samples.
        inputs: The inputs in the manifest's order.
        outputs: The outputs in the manifest's order.
        kind: What was built.
        accuracy: Its accuracy on all samples.

    Returns:
        The manifest's ``golden``. A device may compute a float build in half precision, whatever it was built as, and
        has to reach that floor; a quantized build has to be as accurate as here, save for :data:`DEVICE_MARGIN_DB`.
    """
    comparison, count = Comparison(tuple(feature.name for feature in outputs)), 0
    restart(original)
    restart(built)
    first = islice(samples, GOLDEN_STEPS if isinstance(built, Restartable) else GOLDEN_SAMPLES)
    for sample in chain(first, _of_other_sizes(samples, inputs, accuracy)):
        wanted = original.run(sample.feeds)
        comparison.add(wanted, built.run(sample.feeds))
        if folder is not None:
            _save(folder / str(count) / "inputs", sample.feeds, inputs)
            _save(folder / str(count) / "outputs", wanted, outputs)
        count += 1
    return {"samples": count, "outputs": [_floor(output, kind, accuracy) for output in comparison.results()]}


def _of_other_sizes(samples: Samples, inputs: tuple[Feature, ...], accuracy: Accuracy) -> Iterator[Sample]:
    """A sample for each size; the last one is the greatest, so it stays where there are too many."""
    specs = [feature.spec for feature in inputs]
    others = [size.sizes for size in accuracy.sizes[1:]]
    kept = others if len(others) <= MOST_GOLDEN_SIZES else [*others[: MOST_GOLDEN_SIZES - 1], others[-1]]
    for sizes in kept:
        yield from SizedSamples(samples, specs, sizes, 1)


def _save(folder: Path, arrays: Arrays, features: tuple[Feature, ...]) -> None:
    folder.mkdir(parents=True)
    for position, feature in enumerate(features):
        array = arrays[feature.name]
        texts = array.dtype == object  # as ONNX Runtime gives them
        np.save(folder / f"{position}.npy", array.astype(np.str_) if texts else array, allow_pickle=False)


def _is_quantized(output: OutputAccuracy, accuracy: Accuracy) -> bool:
    """Whether it holds numbers of 8 bits, of which one count more or less is rounding."""
    return any(each.picture_db is not None for each in accuracy.outputs if each.name == output.name)


def _floor(output: OutputAccuracy, kind: Kind, accuracy: Accuracy) -> dict[str, Any]:
    floor_db = max_mismatch = None
    exact = kind is Kind.FLOAT32
    if output.name in accuracy.vanished:
        max_mismatch = 1.0  # nothing on these inputs tells one device from another
    elif output.sqnr_db is None:
        max_mismatch = accuracy.integer_floor(output) if exact else min(1.0, output.mismatch + MAX_DISAGREEMENT)
        if output.mismatch > max_mismatch:  # these few samples differ more than all do
            slack = MAX_DISAGREEMENT if _is_quantized(output, accuracy) else 0.0  # a device rounds at other places
            max_mismatch = min(1.0, output.mismatch + slack)
    elif exact:
        floor_db = min(MOST_ASKED_DB, accuracy.float_floor(output.name))
    else:
        worst = output.sqnr_db if output.worst_sample_db is None else output.worst_sample_db
        floor_db = min(worst, MOST_ASKED_DB) - DEVICE_MARGIN_DB
    if accuracy.ranked is not None:  # a device compares rows by their places, and half of their power has to be right
        by_place, unequal = accuracy.ranked.by_place_db.get(output.name), accuracy.ranked.by_place_mismatch
        if floor_db is not None and by_place is not None:
            floor_db = min(floor_db, max(by_place - DEVICE_MARGIN_DB, min(by_place, DECISION_DB)))
        if max_mismatch is not None and (elements := unequal.get(output.name, 0.0)) > 0:
            max_mismatch = max(max_mismatch, min(1.0, elements + MAX_DISAGREEMENT))
    return {"name": output.name, "floor_db": floor_db, "max_mismatch": max_mismatch}

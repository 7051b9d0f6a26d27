"""Writes golden data: a few inputs and the outputs that belong to them, for the check on the device.

A device's outputs are compared with those of the original model if the built model is near enough to them. A small
model may be so far from the original that zeros, or another sample's outputs, are as near: no floor that a correct
device reaches would then prove anything. Such an output is compared with what the built model computed here instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.comparison.acceptance.accuracy import DECISION_DB, LEAST_DB, Accuracy
from edgekit.comparison.floors import MAX_DISAGREEMENT, Kind
from edgekit.comparison.numbers.metrics import Comparison, OutputAccuracy
from edgekit.comparison.side_by_side import Executor
from edgekit.data.lengths import Lengths
from edgekit.data.samples import Sample, Samples
from edgekit.data.sized_samples import SizedSamples
from edgekit.device_check.wrong_answers import AS_GOOD_AS_RIGHT_DB, mismatch_of_wrong, sqnr_of_wrong
from edgekit.execution.recurrence import GOLDEN_STEPS, Restartable, restart
from edgekit.model import Arrays
from edgekit.progress import Step
from edgekit.target import Feature

GOLDEN_SAMPLES = 3
MOST_GOLDEN_SIZES = 8
ORIGINAL, BUILT = "outputs", "built"
"""Folders of a golden sample: the original's outputs, and what the built model computed here."""
MOST_ASKED_DB = AS_GOOD_AS_RIGHT_DB
"""The highest floor for a device, whose arithmetic may be half precision."""
DEVICE_MARGIN_DB = 6.0
"""How many dB nearer to the original the artifact may be here than on the device, which rounds at other places: a
factor of two in the error."""
ABOVE_WRONG_DB = 1.0
"""How many dB above the best wrong output a floor has to be."""


def write_golden(
    folder: Path,
    samples: Samples,
    original: Executor,
    built: Executor,
    inputs: tuple[Feature, ...],
    outputs: tuple[Feature, ...],
    kind: Kind,
    accuracy: Accuracy,
    further: str | None = None,
    lengths: Lengths | None = None,
    progress: Step | None = None,
) -> dict[str, Any]:
    """Writes ``<sample>/inputs/<i>.npy`` and ``<sample>/outputs/<i>.npy``, one folder per sample.

    The golden samples are the first :data:`GOLDEN_SAMPLES` (for a sequence, the first
    :data:`edgekit.execution.recurrence.GOLDEN_STEPS`), and one for each size of open dimensions that the accuracy was
    measured at, up to :data:`MOST_GOLDEN_SIZES`. An output that is compared with the built model's has a file in
    ``<sample>/built`` as well.

    Args:
        folder: The folder to write to; it is made.
        samples: The samples to take the first from; samples of other sizes are made from them.
        original: Computes the outputs.
        built: The built model, to measure how accurate it is on these samples.
        inputs: The inputs in the manifest's order.
        outputs: The outputs in the manifest's order.
        kind: The kind of the built model.
        accuracy: The built model's accuracy on all samples.
        further: The profile of a further build of the same model: inputs and the original's outputs exist already, and
            the built model's outputs go into ``<sample>/built-<profile>``.
        lengths: The values below which lengths stay in samples of other sizes.
        progress: Told of each golden sample.

    Returns:
        The manifest's ``golden``. A device may compute a float build in half precision, whatever it was built as, and
        has to reach that floor; a quantized build has to be as accurate as here, except for :data:`DEVICE_MARGIN_DB`.
        No floor is one that :mod:`edgekit.device_check.wrong_answers` reach, as far as the samples can tell them from
        correct ones.
    """
    comparison = Comparison(tuple(feature.name for feature in outputs))
    restart(original)
    restart(built)
    first = islice(samples, GOLDEN_STEPS if isinstance(built, Restartable) else GOLDEN_SAMPLES)
    wanted, got, names = [], [], []
    for count, sample in enumerate(chain(first, _of_other_sizes(samples, inputs, accuracy, lengths))):
        names.append(sample.name)
        if progress is not None:
            progress("golden sample", count, 0)
        wanted.append(original.run(sample.feeds))
        got.append(built.run(sample.feeds))
        comparison.add(wanted[-1], got[-1])
        if further is None:
            _save(folder / str(count) / "inputs", sample.feeds, inputs)
            _save(folder / str(count) / ORIGINAL, wanted[-1], outputs)
    beside = BUILT if further is None else f"{BUILT}-{further}"
    floors = []
    for place, output in enumerate(comparison.results()):
        right, made = ([arrays[output.name] for arrays in answers] for answers in (wanted, got))
        floor = _floor(output, kind, accuracy)
        if output.name not in accuracy.vanished and _is_of_no_use(floor, output, right, kind, accuracy):
            floor = _floor_of_built(floor, made, accuracy)
            floor["folder"] = beside
            for count, array in enumerate(made):
                _save_one(folder / str(count) / beside, place, array)
        floors.append(floor)
    return {"samples": len(wanted), "names": names, "outputs": floors}


def _is_of_no_use(
    floor: dict[str, Any], output: OutputAccuracy, right: Sequence[np.ndarray], kind: Kind, accuracy: Accuracy
) -> bool:
    """Whether wrong outputs reach a floor against the original's outputs, or the built model does not reach it."""
    if floor["floor_db"] is None:
        least = mismatch_of_wrong(right)
        return least is not None and floor["max_mismatch"] >= least
    if output.sqnr_db is not None and output.sqnr_db < floor["floor_db"]:
        return True  # the user accepted the build although it misses the floor
    if kind is Kind.FLOAT32:
        return False  # its floor is at least LEAST_DB; what the original does not determine, no build does
    return bool(floor["floor_db"] < _least_above_wrong(floor["name"], right, accuracy))


def _least_above_wrong(name: str, right: Sequence[np.ndarray], accuracy: Accuracy) -> float:
    if accuracy.ranked is not None and name in accuracy.ranked.by_place_db:
        return ABOVE_WRONG_DB  # above zeros only: a device may put rows in another order
    return min(MOST_ASKED_DB, max(DECISION_DB, sqnr_of_wrong(right) + ABOVE_WRONG_DB))


def _floor_of_built(floor: dict[str, Any], made: Sequence[np.ndarray], accuracy: Accuracy) -> dict[str, Any]:
    """The floor of a device's output against what the built model computed here, which differs only by rounding."""
    name = floor["name"]
    if floor["floor_db"] is not None or (made[0].dtype.itemsize == 1 and made[0].dtype.kind in "iu"):
        least = _least_above_wrong(name, made, accuracy)
        ranked = accuracy.ranked is not None and name in accuracy.ranked.by_place_db
        return {**floor, "floor_db": least if ranked else max(LEAST_DB, least), "max_mismatch": None}
    wrong = mismatch_of_wrong(made)
    return {**floor, "max_mismatch": floor["max_mismatch"] if wrong is None else min(floor["max_mismatch"], wrong / 2)}


def _of_other_sizes(
    samples: Samples, inputs: tuple[Feature, ...], accuracy: Accuracy, lengths: Lengths | None
) -> Iterator[Sample]:
    """Yields a sample for each size; if there are too many sizes, the last one, which is the greatest, is kept."""
    specs = [feature.spec for feature in inputs]
    others = [size.sizes for size in accuracy.sizes[1:]]
    kept = others if len(others) <= MOST_GOLDEN_SIZES else [*others[: MOST_GOLDEN_SIZES - 1], others[-1]]
    for sizes in kept:
        below = None if lengths is None else lengths.below(sizes)
        yield from SizedSamples(samples, specs, sizes, 1, below)


def _save(folder: Path, arrays: Arrays, features: tuple[Feature, ...]) -> None:
    for position, feature in enumerate(features):
        _save_one(folder, position, arrays[feature.name])


def _save_one(folder: Path, position: int, array: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = array.dtype == object  # as ONNX Runtime gives them
    # Row by row, also what a sample holds column by column: the checks in JavaScript and Swift read no other order.
    stored = np.asarray(array.astype(np.str_) if texts else array, order="C")
    np.save(folder / f"{position}.npy", stored, allow_pickle=False)


def _is_quantized(output: OutputAccuracy, accuracy: Accuracy) -> bool:
    """Whether an output holds 8-bit numbers, for which a difference of 1 is rounding."""
    return any(each.picture_db is not None for each in accuracy.outputs if each.name == output.name)


def _floor(output: OutputAccuracy, kind: Kind, accuracy: Accuracy) -> dict[str, Any]:
    floor_db = max_mismatch = None
    exact = kind is Kind.FLOAT32
    if output.name in accuracy.vanished:
        max_mismatch = 1.0  # on these inputs, this output cannot show a wrong device
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
    return {"name": output.name, "floor_db": floor_db, "max_mismatch": max_mismatch, "folder": ORIGINAL}

"""Warnings about a measured accuracy, in addition to its figures."""

from __future__ import annotations

import numpy as np

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.acceptance.untaken_branches import untaken_branches
from edgekit.comparison.numbers.bounded import ROUNDING
from edgekit.comparison.numbers.ranked import FEW_LOST
from edgekit.comparison.side_by_side import Executor
from edgekit.data.samples import Samples
from edgekit.graph.dependence import inputs_behind
from edgekit.model import Model

_MOST_LABELS = 0.5
"""An original that finds fewer labels than this share is rarely worth shipping."""


def remarks_on(accuracy: Accuracy) -> list[str]:
    """Returns warnings of hardly determined outputs, disorder, lost columns or classes, and doubtful labels."""
    remarks = [
        f"output {name!r} is determined to {limit:.0f} dB only on these inputs: the original agrees with itself no "
        "better when its inputs and weights change by half a unit in the last place"
        for name, limit in accuracy.self_agreement_db.items()
    ]
    remarks += [
        f"output {name!r} is not determined in {loss_text(share)} of its elements on these inputs: they change in "
        "the original itself when its inputs and weights change by half a unit in the last place"
        for name, share in accuracy.self_mismatch.items()
    ]
    remarks += [
        f"output {name!r} is too small on these inputs to compare: it differs by at most {ROUNDING:.1g}, and its "
        "values may reach 1; give samples in which there is something to find"
        for name in accuracy.vanished
    ]
    remarks += [
        f"output {output.name!r}: channel {column.column} of {column.columns} keeps {max(column.explained, 0):.1%} "
        "of its variance; the SQNR does not show this, since channels with larger numbers dominate it"
        if column.is_channel
        else f"output {output.name!r}: column {column.column} of {column.columns} keeps "
        f"{max(column.explained, 0):.1%} of its variance between samples; the SQNR does not show this, since "
        "columns with larger numbers dominate it"
        for output in accuracy.outputs
        if (column := output.worst_column) is not None and column.is_lost
    ]
    remarks += [
        f"output {output.name!r}: {output.order}: if they are quantiles, they cross; an app can sort them"
        for output in accuracy.outputs
        if output.order is not None and output.order.broken
    ]
    remarks += _of_one_answer(accuracy)
    remarks += [
        f"output {output.name!r}: {output.worst_class}: if these are scores of classes, that class is lost; --labels "
        "FILE, with the names of the classes, judges them as such"
        for output in accuracy.outputs
        if accuracy.task is None and accuracy.floors.agreement is not None
        if output.worst_class is not None and output.worst_class.is_lost and not output.worst_class.is_known
    ]
    remarks += [
        (
            f"output {output.name!r}: {flaw}; if these are scores of classes, more decisions are lost than --max-drop "
            "allows"
        )
        for output in accuracy.outputs
        if not output.tells_classes and (flaw := accuracy.changed_too_often(output)) is not None
    ]
    doubts = (
        accuracy.label_exchange,
        accuracy.label_doubt,
        _of_few_labels(accuracy),
        accuracy.few_boxes_kept,
        accuracy.few_classes_shown,
    )
    return remarks + [doubt for doubt in doubts if doubt is not None]


def _of_few_labels(accuracy: Accuracy) -> str | None:
    """Returns a warning if the original itself misses most labels, more than by chance; None if it does not.

    The usual reason is that samples become the input in another way than in training. A list of a recommender's items
    finds few labels even if nothing is wrong.
    """
    task = accuracy.task
    if task is None or accuracy.floors.max_drop is None or task.listed is not None or task.reference >= _MOST_LABELS:
        return None
    return (
        f"the original itself finds only {task.reference:.2%} of {accuracy.samples} labels: if it found more in "
        "training, the samples do not become the input as they did there; check [preprocessing], the labels and the "
        "order of the classes"
    )


def _of_one_answer(accuracy: Accuracy) -> list[str]:
    """Returns warnings of outputs that give one answer on all samples, so that errors in other answers would pass.

    Random inputs often give one answer, and are left out, as are outputs that are judged otherwise, such as boxes.
    """
    if accuracy.seeded:
        return []
    texts = []
    for output in accuracy.outputs:
        answer = output.only_answer
        if answer is None or output.name in accuracy.judged_otherwise:
            continue
        yes_or_no = ("no", "yes")
        said = f"class {answer} alone" if output.tells_classes else yes_or_no[answer]
        missing = "the other classes" if output.tells_classes else yes_or_no[1 - answer]
        texts.append(
            f"the original's output {output.name!r} says {said} for every sample, which leaves {missing} untested: "
            "give samples with other answers too"
        )
    return texts


def unproven(accuracy: Accuracy, model: Model, samples: Samples) -> list[str]:
    """Returns warnings of what samples do not test: outputs that are the same for all, and branches that none takes.

    Args:
        accuracy: The accuracy measured on the samples; for random inputs see :func:`untested_outputs`.
        model: The original.
        samples: What the accuracy was measured on.
    """
    return [*_unvaried(accuracy, model), *untaken_branches(model, samples)]


def _unvaried(accuracy: Accuracy, model: Model) -> list[str]:
    """Returns warnings of outputs that depend on the inputs but are the same for all: errors in them would pass."""
    outputs = {output.name: output for output in accuracy.outputs}
    return [
        f"the original's output {value.name!r} is the same for every sample, so errors in it would not show: give "
        "samples in which it differs"
        for value in model.graph.outputs
        if (output := outputs.get(str(value.name))) is not None
        and output.is_constant
        and output.only_answer is None
        and output.name not in {*accuracy.judged_otherwise, *accuracy.vanished}
        and inputs_behind(value)
    ]


def lost_rows(accuracy: Accuracy) -> list[str]:
    """Returns a warning if rows by falling score are not the original's because scores are equal at the cut-off."""
    ranked = accuracy.ranked
    if ranked is None or ranked.lost_rows <= FEW_LOST:
        return []
    return [
        f"up to {ranked.lost_rows:.1%} of a sample's rows differ from the original's; two executions of the original "
        f"differ in {ranked.own_lost_rows:.1%}: candidates at the cut-off have equal scores"
    ]


def untested_outputs(reference: Executor, samples: Samples) -> list[str]:
    """Returns warnings of outputs that random inputs do not test: all are the same, or hold zeros and ones alone."""
    seen: dict[str, list[np.ndarray]] = {}
    for sample in samples:
        for name, array in reference.run(sample.feeds).items():
            if array.dtype.kind == "f" and array.size:
                seen.setdefault(name, []).append(array)
    warnings = []
    for name, arrays in seen.items():
        first = arrays[0]
        same = len(arrays) > 1 and all(np.array_equal(first, other, equal_nan=True) for other in arrays)
        saturated = all(np.isin(array, (0, 1)).all() for array in arrays)
        if same or saturated:
            what = "the same for all of the" if same else "zeros and ones alone for the"
            warnings.append(
                f"output {name!r} is {what} random inputs, so errors in it would not show: give real samples with "
                "--data"
            )
    return warnings

"""Measures how far executions of the original agree with each other if a built model misses its floors."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

import onnx_ir as ir

from edgekit.comparison.acceptance.accuracy import LEAST_DB, SELF_MARGIN_DB, Accuracy
from edgekit.comparison.acceptance.conditioning import KnownConditioning
from edgekit.comparison.numbers.bounded import ROUNDING, bounded_outputs
from edgekit.comparison.numbers.ranked import RankedRows
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import Samples
from edgekit.execution.recurrence import reference_of
from edgekit.execution.reference import NotRunnableError
from edgekit.graph.integer_products import multiplies_integers
from edgekit.graph.single_precision import in_single_precision
from edgekit.model import Model
from edgekit.progress import Step


def with_self_agreement(
    accuracy: Accuracy,
    original: Model,
    samples: Samples,
    ranked: RankedRows | None = None,
    step: Step | None = None,
    known: KnownConditioning | None = None,
) -> Accuracy:
    """Returns the accuracy, with how far executions of the original agree if an output misses its floor.

    Args:
        accuracy: The measured accuracy.
        original: The float model.
        samples: The samples that the accuracy was measured on.
        ranked: How rows by falling score were matched.
        step: Told how many samples of all executions are done.
        known: The conditioning that is known already.
    """
    silent = {output.name for output in accuracy.outputs if output.sqnr_db == -math.inf}
    accuracy = replace(accuracy, vanished=_vanished(accuracy, silent, original))
    if not accuracy.misses_a_signal():
        return accuracy
    limits = (known or KnownConditioning()).of(original, samples, ranked, step, accuracy.padding)
    reduced = accuracy.floors.agreement is not None
    agreed = limits.pooled_db if reduced else limits.sqnr_db
    limited = {name: limit for name, limit in agreed.items() if limit - SELF_MARGIN_DB < accuracy.floors.sqnr_db}
    if accuracy.ranked is not None:
        own = replace(accuracy.ranked, own_lost_rows=limits.lost_rows, own_lost_scores=limits.lost_scores)
        accuracy = replace(accuracy, ranked=own)
    if reduced:
        return replace(accuracy, self_agreement_db=limited)
    undetermined = {name for name, limit in limited.items() if limit - SELF_MARGIN_DB < LEAST_DB}
    unequal = {
        output.name: share
        for output in accuracy.outputs
        if output.sqnr_db is None and output.mismatch and (share := limits.mismatch.get(output.name, 0.0))
    }
    rounded = {*limited, *(output.name for output in accuracy.outputs if output.picture_db is not None)}
    pooled = {name: db for name, db in limits.pooled_db.items() if name in rounded and multiplies_integers(original)}
    accuracy = replace(
        accuracy,
        self_agreement_db=limited,
        pooled_agreement_db=pooled,
        self_mismatch=unequal,
        vanished=_vanished(accuracy, silent | undetermined, original),
    )
    return replace(accuracy, in_single_db=_in_single_db(accuracy, original, samples, step))


def _in_single_db(accuracy: Accuracy, original: Model, samples: Samples, step: Step | None) -> dict[str, float]:
    """Returns the SQNR of the original executed in float32, for the outputs that miss their floor then, too."""
    single = in_single_precision(original.graph_model, {ir.DataType.DOUBLE})
    if single is original.graph_model or not accuracy.shortfalls():
        return {}
    names = tuple(output.name for output in accuracy.outputs)
    try:
        outputs, _ = compare(samples, reference_of(original), reference_of(original.with_graph(single)), names, step)
    except NotRunnableError:
        return {}  # an operator exists in float64 only: the missed floor is reported as it is
    missed = replace(accuracy, outputs=outputs).shortfalls()
    return {
        output.name: output.worst_sample_db
        for output in outputs
        if output.worst_sample_db is not None and any(repr(output.name) in shortfall for shortfall in missed)
    }


def _vanished(accuracy: Accuracy, names: Collection[str], original: Model) -> tuple[str, ...]:
    """Returns those of the named outputs that lie between 0 and 1 and differ by no more than the rounding of 1."""
    bounded = bounded_outputs(original) if names else frozenset()
    return tuple(
        output.name
        for output in accuracy.outputs
        if output.name in names
        and output.name in bounded
        and output.max_abs_error is not None
        and output.max_abs_error <= ROUNDING
    )

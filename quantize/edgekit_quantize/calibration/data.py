"""Checks calibration samples against the model's inputs, with a hint if they do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from edgekit.data.samples import Sample
from edgekit.errors import InputError
from edgekit.model import ValueSpec

FEWEST = 8
"""Fewer samples than this say little about the ranges of real data."""
_OF_SHAPES = ("Shape", "Size")


def checked_feeds(
    samples: Iterable[Sample], inputs: Sequence[ValueSpec], nan_inputs: Collection[str] = ()
) -> Iterator[tuple[dict[str, np.ndarray], int | None, str]]:
    """The model's inputs for each sample, the sample's label, and its name, in order.

    Args:
        samples: The samples.
        inputs: The model's inputs.
        nan_inputs: The inputs that may hold NaN.

    Raises:
        InputError: A sample lacks an input, has the wrong shape or type, or holds infinities, or NaN in another input.
    """
    for sample in samples:
        missing = [spec.name for spec in inputs if spec.name not in sample.feeds]
        if missing:
            raise InputError(
                f"the sample has no array for the input {missing[0]!r}",
                subject=sample.where,
                expected=", ".join(spec.name for spec in inputs),
                found=", ".join(sample.feeds) or "nothing",
                hint="name the arrays of every .npz file as the model's inputs",
            )
        feeds = {spec.name: sample.feeds[spec.name] for spec in inputs}
        for spec in inputs:
            _check(feeds[spec.name], spec, sample.where, takes_nan=spec.name in nan_inputs)
        yield feeds, sample.label, sample.where


def _check(array: np.ndarray, spec: ValueSpec, name: str, *, takes_nan: bool) -> None:
    if array.dtype.name != spec.dtype and not (array.dtype.kind == "U" and spec.dtype == "str"):
        raise InputError(
            f"the array {spec.name!r} has the wrong type",
            subject=name,
            expected=spec.dtype,
            found=array.dtype.name,
            hint=f"convert it with .astype({spec.dtype!r}) before saving",
        )
    shape = spec.shape
    fits = shape is None or (
        len(shape) == array.ndim
        and all(not isinstance(want, int) or want == have for want, have in zip(shape, array.shape, strict=True))
    )
    if not fits:
        raise InputError(
            f"the array {spec.name!r} has the wrong shape", subject=name, expected=str(spec), found=str(array.shape)
        )
    if not np.issubdtype(array.dtype, np.floating):
        return
    bad = np.isinf(array) if takes_nan else ~np.isfinite(array)
    if bad.any():
        raise InputError(
            f"the array {spec.name!r} holds {np.count_nonzero(bad)} values that are "
            + ("infinite" if takes_nan else "NaN or infinite"),
            subject=name,
            expected="finite numbers, or NaN where one is missing" if takes_nan else "finite numbers",
            hint="leave this sample out, or repair its preprocessing",
        )


def read_for_their_size(graph: ir.Graph) -> frozenset[str]:
    """The inputs of which nodes read the shape at most, so that their numbers do not matter.

    Of an input of a fixed size nothing is read at all: its shape is a constant.
    """
    return frozenset(
        str(value.name)
        for value in graph.inputs
        if not value.is_graph_output()
        and all(not node.domain and node.op_type in _OF_SHAPES for node, _ in value.uses())
    )


class ConstantInputs:
    """Watches a stream of feeds for float inputs that never change.

    Args:
        indifferent: Inputs whose numbers do not matter (:func:`read_for_their_size`).
    """

    def __init__(self, indifferent: Collection[str] = ()) -> None:
        self._indifferent = indifferent
        self._first: dict[str, np.ndarray] = {}
        self._changing: set[str] = set()
        self._rows: set[int] = set()

    def watch(self, feeds: dict[str, np.ndarray]) -> None:
        """Take note of one sample."""
        self._rows.update(len(array) if array.ndim else 1 for array in feeds.values())
        for name, array in feeds.items():
            if name in self._changing or name in self._indifferent or not np.issubdtype(array.dtype, np.floating):
                continue
            first = self._first.setdefault(name, array)
            if first is not array and not np.array_equal(first, array, equal_nan=True):
                self._changing.add(name)
                del self._first[name]

    def _tables(self) -> str:
        (rows, *others) = sorted(self._rows)
        held = f"{rows} rows" if not others else "several rows"
        return f"if the {held} of a file are samples, save each in a file of its own, array[i:i + 1]"

    def few(self, count: int) -> list[str]:
        """A warning if ``count`` samples are few."""
        if count >= FEWEST:
            return []
        return [
            f"{count} calibration sample{'s' if count != 1 else ''}: ranges from fewer than {FEWEST} are guesses; "
            "give some dozens of samples that are like real data"
            + (f". One file is one sample: {self._tables()}" if min(self._rows, default=1) > 1 else "")
        ]

    def narrow(self, count: int) -> list[str]:
        """Warnings of inputs that are the same in all ``count`` samples, for a model with calibrated ranges."""
        if count < 2:
            return []
        return [
            f"the input {name!r} is the same in all {count} samples: its range and the ranges computed from it may "
            "be too narrow; give samples that differ as real ones do"
            for name in self._first
        ]

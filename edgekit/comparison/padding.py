"""Finds positions that are padding: what a model gives there means nothing, and is not compared.

Texts of several lengths are padded to one length, and a mask of ones and zeros says which positions count. The outputs
at the other positions are whatever the layers make of a padding token, and an app does not read them. In sentences that
were padded to 512 tokens, 19 of 20 positions may be padding.

Names do not tell which input is a mask; the original's behavior does. While a mask is 0 at some positions, other inputs
may change at these positions, and no output changes at the positions with a 1; with ones throughout, outputs do change
at the latter. An input that means something else at each position does not behave so. At the positions with a 0, the
output depends on what the inputs hold there, or is one number throughout: values that a model fills in for missing ones
are neither.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from edgekit.comparison.decisions.yes_or_no import yes_or_no_outputs
from edgekit.data.limits import index_limits
from edgekit.data.samples import Samples
from edgekit.errors import EdgeKitError
from edgekit.model import Arrays, Model

_MOST_READ = 256
"""How many samples are searched for samples with padding."""
_SHOWN = 2
"""On how many samples with padding, at most, an input has to behave as a mask."""
_SAME = 1e-4
"""By which share of its greatest magnitude an output may change through rounding."""
_MASK_RANK = 2


class _Executor(Protocol):
    """Runs a model."""

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name."""


@dataclass(frozen=True)
class Padding:
    """Which positions of which outputs are padding."""

    mask: str
    """The input that is 0 at padding, of the shape batch × positions."""
    outputs: tuple[str, ...]
    """The outputs with a vector for each position, or a number that is a class or says yes or no, whose first two axes
    are those of the mask."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {"mask": self.mask, "outputs": list(self.outputs)}

    def without(self, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a sample's outputs without padding: :attr:`outputs` become 1 × positions that count × further axes.

        An output whose first two axes are not those of the mask stays as it is.
        """
        counts = np.asarray(feeds[self.mask]) != 0
        kept = dict(outputs)
        for name in self.outputs:
            array = np.asarray(outputs[name]) if name in outputs else None
            if array is not None and _has_positions(array, counts.shape):
                kept[name] = array[counts][np.newaxis]
        return kept


def padding_on(samples: Samples, original: _Executor, model: Model) -> Padding | None:
    """Returns the padding in samples, as far as the original shows it, or None if there is none.

    Args:
        samples: What to look at.
        original: Executes the model.
        model: The float model.
    """
    if model.states or len(model.inputs) < 2:
        return None
    for mask in (spec.name for spec in model.inputs if spec.shape is None or len(spec.shape) == _MASK_RANK):
        shown = list(itertools.islice(_with_zeros(samples, mask), _SHOWN))
        try:
            found = [_shown_by(feeds, mask, original, model) for feeds in shown]
        except EdgeKitError:  # the model does not run on the changed inputs
            continue
        names = [name for name in found[0] if all(name in each for each in found)] if found else []
        if names:
            return Padding(mask, tuple(names))
    return None


def _with_zeros(samples: Samples, mask: str) -> Iterator[Mapping[str, np.ndarray]]:
    """Yields the inputs of samples whose mask has one run of ones in each row, and at least one 0."""
    for sample in itertools.islice(samples, _MOST_READ):
        array = sample.feeds.get(mask)
        if array is None or array.ndim != _MASK_RANK or array.dtype.kind not in "biuf":
            return
        if not np.isin(array, (0, 1)).all():
            return
        padded = np.pad(array != 0, ((0, 0), (1, 1)))
        pieces = (padded[:, 1:] & ~padded[:, :-1]).sum(1)
        if (pieces == 1).all() and not array.all():
            yield sample.feeds


def _shown_by(feeds: Mapping[str, np.ndarray], mask: str, original: _Executor, model: Model) -> list[str]:
    """Returns the outputs with padding if a sample shows that the input is a mask, else an empty list."""
    counts = feeds[mask] != 0
    changed = _changed(feeds, mask, model)
    if changed is None:
        return []
    ones = {mask: np.ones_like(feeds[mask])}
    before, after = original.run(feeds), original.run(changed)
    open_before, open_after = original.run({**feeds, **ones}), original.run({**changed, **ones})
    found, answers = [], yes_or_no_outputs(model)
    for name, array in before.items():
        form = np.asarray(array)
        # With one number for each position an app may ask for the largest, wherever it is: where an answer begins.
        alone = form.ndim > _MASK_RANK or form.dtype.kind in "iub" or name in answers
        if not alone or form.dtype.kind not in "fiub":
            continue
        if not all(_has_positions(each[name], counts.shape) for each in (before, after, open_before, open_after)):
            continue
        at_padding = np.asarray(array)[~counts]
        # A model may give zeros, or another constant, at all padding.
        says_nothing = not _same(after[name], array, ~counts) or bool((at_padding == at_padding[:1]).all())
        mixes = not _same(open_after[name], open_before[name], counts)
        if says_nothing and mixes and _same(after[name], array, counts):
            found.append(name)
    return found


def _changed(feeds: Mapping[str, np.ndarray], mask: str, model: Model) -> dict[str, np.ndarray] | None:
    """Returns the inputs with other numbers where the mask is 0, or None if no input has numbers at those positions."""
    counts, limits = feeds[mask] != 0, index_limits(model)
    changed = dict(feeds)
    for name, array in feeds.items():
        if name == mask or not _has_positions(array, counts.shape):
            continue
        limit = limits.get(name)
        other = np.array(array)
        if array.dtype.kind == "f":
            other[~counts] = np.random.default_rng(0).normal(size=other[~counts].shape).astype(array.dtype)
        elif array.dtype.kind in "iu" and isinstance(limit, int) and limit > 1:
            steps = 1 + np.arange(other[~counts].size).reshape(other[~counts].shape) % (limit - 1)
            other[~counts] = (other[~counts] + steps) % limit
        else:
            continue
        changed[name] = other
    return changed if any(not np.array_equal(changed[name], feeds[name]) for name in feeds) else None


def _has_positions(array: Any, shape: tuple[int, ...]) -> bool:
    """Whether an array has a vector or a number at each position of the mask."""
    return bool(np.shape(array)[:_MASK_RANK] == shape)


def _same(one: Any, other: Any, where: np.ndarray) -> bool:
    """Whether two outputs are the same, apart from rounding, at the positions of ``where``."""
    first, second = (np.asarray(array)[where].astype(np.float64) for array in (one, other))
    scale = float(np.abs(first[np.isfinite(first)]).max(initial=0.0))
    return bool(np.allclose(first, second, rtol=0.0, atol=_SAME * scale, equal_nan=True))

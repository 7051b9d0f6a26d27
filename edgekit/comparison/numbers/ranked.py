"""Rows in the order of a score: which of them two models both give, wherever they stand.

A detector that ends in TopK or in non-maximum suppression gives its boxes by falling score. If scores are equal apart
from rounding, rounding decides their order, and which candidate is the last one that is taken. On a picture without
objects most rows are such: a sigmoid of 1e-6 is computed in steps of 6e-8, so that dozens of scores are the same
number, and one candidate more or less moves all rows behind it. What the model determines is the scores, place by
place, and the set of rows.

So rows change places, and only with rows of the same score, before outputs are compared as usual. Scores stay where
they are, and so does a row whose place has another score in the built model, which counts as lost: another order is
another list. Two scores are the same if they differ by less than the noise that the asked SQNR allows, or by less than
executions of a sigmoid differ. Two rows are the same if their scores and whole numbers (classes) are the same, and the
other numbers differ by no more than the noise that this SQNR allows in an average row.

In a float32 build a row at the cut-off, which has the score of the list's last one, may be another candidate. Such a
row is left out of the comparison, and counted: rows that only one model has may be :data:`FEW_LOST` of a sample's list
and of the sum of its scores, or twice what executions of the original lose
(:mod:`edgekit.comparison.acceptance.conditioning`). The sum of the scores shows a single object that is lost among
hundreds of rows of background. Every element of a batch has a list of its own. Items that a recommender gives by
falling logits or cosines are such rows, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.comparison.numbers.bounded import ROUNDING
from edgekit.comparison.numbers.metrics import Comparison, json_number
from edgekit.model import Arrays

FEW_LOST = 0.01
"""The share of a list that only one model may have if the original determines all of it. As with a picture's elements
that may be rounded otherwise, it is not 0, since a score may happen to lie at the cut-off."""
LOST_FACTOR = 2.0
"""How many times the loss between executions of the original may be lost: twice the error, as with numbers."""
FEWEST_STEPS = 16
"""The least number of steps from row to row over which a column has to fall to count as in order: by chance it does so
once in 2**16 times."""
MOST_ROWS = 1000
"""Rows of longer lists are compared place by place: to match rows, every row is compared with every other."""
_DECIDES_ORDER = {"NonMaxSuppression", "TopK"}


@dataclass(frozen=True)
class RankedAccuracy:
    """Which rows of a list both models give, over all samples."""

    outputs: tuple[str, ...]
    """The outputs that hold the rows."""
    lost_rows: float
    """The share of a list's rows that only one model has, on the worst sample."""
    lost_scores: float
    """The share of the sum of a list's scores in rows that only one model has, on the worst sample; 0 with scores below
    0."""
    by_place_db: Mapping[str, float] = field(default_factory=dict)
    """The least SQNR in dB of a sample if rows are compared place by place, for floating-point outputs."""
    by_place_mismatch: Mapping[str, float] = field(default_factory=dict)
    """The share of unequal elements if rows are compared place by place, for other outputs."""
    own_lost_rows: float = 0.0
    own_lost_scores: float = 0.0
    """:attr:`lost_rows` and :attr:`lost_scores` between executions of the original; 0 if they were not measured."""

    def shortfall(self) -> str | None:
        """Returns which share of a float32 build is not the original's, in words, or None if it is near enough."""
        for what, lost, own in (
            ("rows", self.lost_rows, self.own_lost_rows),
            ("sum of scores", self.lost_scores, self.own_lost_scores),
        ):
            most = max(FEW_LOST, LOST_FACTOR * own)
            if not lost <= most:
                alone = (
                    f"rows that only one of the two models gives make up {lost:.1%} of the {what} on the worst sample"
                )
                return f"{alone} (at most {most:.1%})"
        return None

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        by_place = {name: json_number(value) for name, value in self.by_place_db.items()}
        return {**asdict(self), "outputs": list(self.outputs), "by_place_db": by_place}


@dataclass(frozen=True)
class _Rows:
    """How an output holds a row of the list."""

    axis: int
    """The axis of the rows; those before it have the size 1."""
    numbers: tuple[int, ...]
    """The columns that are compared by their distance."""
    names: tuple[int, ...]
    """The columns that have to be equal: whole numbers, such as classes."""
    score: int | None = None
    """The column that the rows are ordered by; None if another output has it."""

    def table(self, array: np.ndarray) -> np.ndarray:
        """Returns the array as (rows, columns)."""
        return _table(array, self.axis)

    def count(self, array: np.ndarray) -> int | None:
        """Returns the number of rows; None if the array does not hold one list of such rows."""
        ahead, (size, *columns) = array.shape[: self.axis], array.shape[self.axis :] or (0,)
        wide = len(self.numbers) + len(self.names) + (self.score is not None)
        fits = array.ndim > self.axis and math.prod(ahead) == 1 and math.prod(columns) == wide
        return size if fits else None


class RankedRows:
    """Reorders a built model's rows to match the original's, and counts the rows that the original does not have.

    Args:
        rows: How each output holds the rows.
        asked_db: The SQNR that is asked of what was built.
        leaves_out: Whether other candidates at the cut-off are left out of the comparison.
        in_batches: Whether a sample has a list for each element of a batch, along the first axis.
    """

    def __init__(
        self, rows: Mapping[str, _Rows], asked_db: float, *, leaves_out: bool, in_batches: bool = False
    ) -> None:
        self._rows = dict(rows)
        self._asked_db = asked_db
        self._leaves_out = leaves_out
        self._in_batches = in_batches
        self._by_place = Comparison(tuple(rows))
        self._lost_rows = self._lost_scores = 0.0
        ((self._score, self._score_column),) = (
            (name, each.score) for name, each in rows.items() if each.score is not None
        )

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that hold the rows."""
        return tuple(self._rows)

    def anew(self) -> RankedRows:
        """Returns a new object of the same settings, without samples."""
        return RankedRows(self._rows, self._asked_db, leaves_out=self._leaves_out, in_batches=self._in_batches)

    def result(self) -> RankedAccuracy:
        """Returns the figures of the samples so far; at least one has been added."""
        by_place = self._by_place.results()
        return RankedAccuracy(
            self.outputs,
            self._lost_rows,
            self._lost_scores,
            {output.name: worst for output in by_place if (worst := output.worst_sample_db) is not None},
            {output.name: output.mismatch for output in by_place if output.worst_sample_db is None},
        )

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> Arrays:
        """Returns the built model's outputs on one more sample, with their rows where the original has the same ones.

        The outputs stay as they are if one is missing, if shapes or types differ, or if they do not hold lists as those
        that were seen; samples of other sizes may hold one for each element of a batch.
        """
        if any(
            name not in reference or name not in built or _form(built[name]) != _form(reference[name])
            for name in self._rows
        ):
            return dict(built)
        if not self._in_batches and self._is_list(reference):
            return self._of_one_list(reference, built)
        pairs = [*zip(_lists(reference, self._rows), _lists(built, self._rows), strict=True)]
        if not all(self._is_list(wanted) for wanted, _ in pairs):
            return dict(built)
        lists = [self._of_one_list(*pair) for pair in pairs]
        names = self._rows if lists else ()
        return {**built, **{name: np.concatenate([each[name] for each in lists]) for name in names}}

    def _is_list(self, outputs: Mapping[str, np.ndarray]) -> bool:
        """Whether outputs hold one list, of at most :data:`MOST_ROWS` rows."""
        (count, *others) = {rows.count(outputs[name]) for name, rows in self._rows.items()}
        return not others and count is not None and count <= MOST_ROWS

    def _of_one_list(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> Arrays:
        moved = dict(built)
        self._by_place.add(reference, built)
        wanted = {name: rows.table(reference[name]) for name, rows in self._rows.items()}
        got = {name: rows.table(built[name]) for name, rows in self._rows.items()}
        scores, found = (tables[self._score][:, self._score_column].astype(np.float64) for tables in (wanted, got))
        if not len(scores):
            return moved
        distances = self._distances(wanted, got)
        distances[~self._are_same(scores[:, None], found[None])] = math.inf
        in_order = self._are_same(scores, found)
        places = _partners(distances, in_order)
        lost = ~((distances[np.arange(len(places)), places] <= self._share) & in_order)
        self._count(lost, scores)
        out = lost & self._at_cut_off(scores, scores) & self._at_cut_off(scores, found[places])
        for name, rows in self._rows.items():
            table = got[name][places]
            columns = [*rows.numbers, *rows.names]
            left = out & np.isfinite(table[:, columns].astype(np.float64)).all(axis=1)
            table[left] = wanted[name][left] if self._leaves_out else table[left]
            if rows.score is not None:
                table[:, rows.score] = got[name][:, rows.score]
            moved[name] = table.reshape(built[name].shape)
        return moved

    @property
    def _share(self) -> float:
        """The share of a power that the asked SQNR leaves to noise."""
        return float(10 ** (-self._asked_db / 10))

    def _are_same(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        most = np.maximum(ROUNDING, math.sqrt(self._share) * np.maximum(np.abs(one), np.abs(other)))
        with np.errstate(invalid="ignore"):  # the difference of infinities
            near: np.ndarray = np.where(np.isfinite(most), np.abs(one - other) <= most, one == other)
        return near

    def _at_cut_off(self, scores: np.ndarray, each: np.ndarray) -> np.ndarray:
        return self._are_same(each, scores.min())

    def _count(self, lost: np.ndarray, scores: np.ndarray) -> None:
        self._lost_rows = max(self._lost_rows, float(lost.mean()))
        total = float(scores.sum()) if (scores >= 0).all() else 0.0  # of others a sum tells nothing
        if 0 < total < math.inf:
            self._lost_scores = max(self._lost_scores, float(scores[lost].sum()) / total)

    def _distances(self, wanted: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns how far each row is from each of the other model's, as a share of an average row's power.

        With several outputs the farthest counts; rows that differ in whole numbers are infinitely far apart.
        """
        count = len(next(iter(wanted.values())))
        apart = np.zeros((count, count))
        for name, rows in self._rows.items():
            if rows.numbers:
                one, other = (tables[name][:, rows.numbers].astype(np.float64) for tables in (wanted, got))
                apart = np.maximum(apart, _apart(one, other))
            for column in rows.names:
                apart[wanted[name][:, None, column] != got[name][None, :, column]] = math.inf
        return apart


def _lists(outputs: Mapping[str, np.ndarray], names: Collection[str]) -> list[Arrays]:
    """Returns the outputs for each element of a batch; empty if outputs have batches of several sizes."""
    arrays = {name: outputs[name] for name in names if name in outputs}
    sizes = {array.shape[:1] for array in arrays.values()}
    if len(sizes) != 1 or () in sizes:
        return []
    ((size,),) = sizes
    return [{name: array[place : place + 1] for name, array in arrays.items()} for place in range(size)]


def _form(array: np.ndarray) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return array.shape, array.dtype


def _apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns squared distances of rows, as a share of the mean power of ``one``'s rows."""
    powers = np.square(one).sum(axis=1)
    with np.errstate(all="ignore"):
        squares = powers[:, None] + np.square(other).sum(axis=1)[None] - 2 * one @ other.T
        rounding = len(one.T) * np.finfo(np.float64).eps * np.maximum(powers[:, None], squares)
        squares = np.where(squares <= 4 * rounding, 0.0, squares)
        shares: np.ndarray = squares / powers.mean() if powers.mean() else np.where(squares == 0, 0.0, math.inf)
    return np.where(np.isfinite(shares), shares, math.inf)


def _partners(distances: np.ndarray, may_move: np.ndarray) -> np.ndarray:
    """Returns for each row the index of the other model's row to compare it with: nearest pairs first, each row once.

    Rows without a partner get the rows that are left, in order.
    """
    rows, places = np.nonzero(np.isfinite(distances) & may_move[:, None] & may_move)
    found = np.where(may_move, -1, np.arange(len(distances)))
    free = may_move.copy()
    left = int(np.count_nonzero(free))
    for pair in np.argsort(distances[rows, places], kind="stable"):
        row, place = rows[pair], places[pair]
        if found[row] < 0 and free[place]:
            found[row], free[place], left = place, False, left - 1
            if not left:
                break
    found[found < 0] = np.flatnonzero(free)
    return found


def ranked_rows(
    answers: Sequence[Mapping[str, np.ndarray]], graph: ir.Graph, asked_db: float, *, leaves_out: bool
) -> RankedRows | None:
    """Returns how a model's rows are matched, or None if it is not seen to give any by falling score.

    Args:
        answers: The original's outputs on a few samples.
        graph: The original's graph.
        asked_db: The SQNR that is asked of what was built.
        leaves_out: Whether other candidates at the cut-off are left out of the comparison.
    """
    ordered = _ordered_outputs(graph)
    rows = _rows_by_score(answers, ordered)
    if rows is not None:
        return RankedRows(rows, asked_db, leaves_out=leaves_out)
    rows = _rows_by_score([one for answer in answers for one in _lists(answer, ordered)], ordered)
    return None if rows is None else RankedRows(rows, asked_db, leaves_out=leaves_out, in_batches=True)


def _rows_by_score(answers: Sequence[Mapping[str, np.ndarray]], ordered: Sequence[str]) -> dict[str, _Rows] | None:
    """Returns how outputs hold the rows of a list by falling score, or None if none do."""
    if not answers:
        return None
    lists: dict[tuple[int, ...], dict[str, int]] = defaultdict(dict)
    for name in ordered:
        arrays = [answer[name] for answer in answers if name in answer]
        axis = _axis_of_rows([array.shape for array in arrays])
        if axis is not None and arrays[0].dtype.kind in "fiu":
            lists[tuple(array.shape[axis] for array in arrays)][name] = axis
    for counts, axes in lists.items():
        if max(counts) > MOST_ROWS or sum(max(count - 1, 0) for count in counts) < FEWEST_STEPS:
            continue
        tables = {name: [_table(answer[name], axis) for answer in answers] for name, axis in axes.items()}
        score = _score_among(tables)
        if score is None:
            continue
        rows = {
            name: _columns(axes[name], found, score[1] if score[0] == name else None) for name, found in tables.items()
        }
        if any(each.numbers or each.names for each in rows.values()):
            return rows
    return None


def is_ranked(graph: ir.Graph) -> bool:
    """Whether an output follows from an operator that puts rows in order."""
    return bool(_ordered_outputs(graph))


def _ordered_outputs(graph: ir.Graph) -> list[str]:
    """The outputs that follow from an operator that puts rows in order."""
    follows: set[ir.Value] = set()
    for node in graph:  # in the order of execution
        inside = (each for attribute in node.attributes.values() for each in _nodes_inside(attribute))
        decides = any(each.op_type in _DECIDES_ORDER and not each.domain for each in (node, *inside))
        if decides or any(value in follows for value in node.inputs if value is not None):
            follows.update(node.outputs)
    return [value.name for value in graph.outputs if value.name and value in follows]


def _nodes_inside(attribute: ir.Attr) -> list[ir.Node]:
    is_graph = attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref()
    return list(attribute.as_graph().all_nodes()) if is_graph else []


def _axis_of_rows(shapes: Sequence[tuple[int, ...]]) -> int | None:
    """Returns the first axis that is longer than one in some answer, or None if there is none, or ranks differ."""
    if not shapes or any(len(shape) != len(shapes[0]) for shape in shapes):
        return None
    return next((axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if set(sizes) != {1}), None)


def _table(array: np.ndarray, axis: int) -> np.ndarray:
    """Returns an array as (rows, columns); there may be no rows."""
    return array.reshape(array.shape[axis], math.prod(array.shape[axis + 1 :]))


def _score_among(tables: Mapping[str, Sequence[np.ndarray]]) -> tuple[str, int] | None:
    """Returns the output and the column of the score: a falling one, from 0 to 1 if possible, with the most values."""
    found: dict[tuple[str, int], tuple[bool, int]] = {}
    for name, parts in tables.items():
        if parts[0].dtype.kind != "f" or len({part.shape[1] for part in parts}) != 1:
            continue
        for column in range(parts[0].shape[1]):
            numbers = np.concatenate([part[:, column] for part in parts])
            falls = all((part[1:, column] <= part[:-1, column]).all() for part in parts)
            is_share = bool(((numbers >= 0) & (numbers <= 1)).all())
            may_be_score = is_share or (parts[0].shape[1] == 1 and np.isfinite(numbers).all())  # others: coordinates
            if falls and may_be_score and (different := len(np.unique(numbers))) > 1:
                found[name, column] = is_share, different
    return max(found, key=lambda each: found[each], default=None)


def _columns(axis: int, parts: Sequence[np.ndarray], score: int | None) -> _Rows:
    """Returns which columns are names: integers, and whole floats unless all of several columns are whole."""
    others = [column for column in range(parts[0].shape[1]) if column != score]
    if parts[0].dtype.kind != "f":
        return _Rows(axis, (), tuple(others), score)
    whole = [column for column in others if all((part[:, column] == np.round(part[:, column])).all() for part in parts)]
    names = () if len(whole) == len(others) > 1 else tuple(whole)  # coordinates may be whole pixels
    return _Rows(axis, tuple(column for column in others if column not in names), names, score)

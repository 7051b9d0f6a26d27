"""Decisions of further outputs (heads), other than the one that the metric is computed from.

Several heads of one network may each choose between classes: the digits of a code, the root and the bass of a chord,
the face class beside its box, the parity beside the digit. Each head has the whole budget: a candidate that loses one
of them is no better for keeping the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from edgekit.comparison.decisions.class_overlap import CROSSING, FEWEST
from edgekit.comparison.decisions.shared import DecidedBy, Decision, DecisionCount, may_be_there
from edgekit.model import Arrays
from edgekit_quantize.calibration.references import References
from edgekit_quantize.graph.nodes import is_standard
from edgekit_quantize.search.choices import FORMS, decides_by_product, has_decisions
from edgekit_quantize.search.margins import FEW_DECISIONS, Margins, share_kept
from edgekit_quantize.search.score import HeadKept

_CHOOSING = ("ArgMax", "LogSoftmax", "Sigmoid", "Softmax")
"""Operators whose output has the same decision as their input."""


def choices_beside(graph: ir.Graph, decisions: Mapping[str, Decision | None]) -> dict[str, Decision]:
    """The outputs after the first that choose between classes according to the graph.

    Attention weights, which are also computed by a Softmax, are excluded: a product reads them.

    Args:
        graph: The model's graph.
        decisions: The decision of each output (:func:`edgekit.comparison.decisions.from_graph.decisions_of`).
    """
    found = {}
    for output in graph.outputs[1:]:
        decision = decisions.get(output.name or "")
        if decision is not None and decision.is_known and not _is_multiplied(output):
            found[str(output.name)] = decision
    return found


def heads_of(graph: ir.Graph, decisions: Mapping[str, Decision | None]) -> dict[str, Decision]:
    """All outputs that may decide: classes known from the graph, yes/no answers, tags, and products with a bias.

    If a Softmax or an ArgMax marks some outputs as classes, an output of a mere product is not one: it may be a box.

    Args:
        graph: The model's graph.
        decisions: See :func:`choices_beside`.
    """
    by_output = {
        str(output.name): each for output in graph.outputs if (each := decisions.get(output.name or "")) is not None
    }
    classes = any(each.is_known for each in by_output.values())
    found = {}
    for output in graph.outputs:
        name = str(output.name)
        decision = by_output.get(name) if name in decisions else Decision()
        if decision is None or decision.is_map or decision.are_channels or _is_multiplied(output):
            continue
        known = decision.is_known or decision.independent or decision.by is DecidedBy.CROSSING
        if known or (not classes and not decision.one_each and decides_by_product(output)):
            found[name] = decision
    return found


def signals_of(graph: ir.Graph, decisions: Mapping[str, Decision | None]) -> list[str]:
    """The float outputs that the graph does not mark as classes; they are judged by their signal unless they are heads.

    Args:
        graph: The model's graph.
        decisions: See :func:`choices_beside`.
    """
    decided = {name for name, each in decisions.items() if each is not None and each.is_known}
    floats = [output for output in graph.outputs if output.dtype is not None and output.dtype.is_floating_point()]
    return [name for output in floats if (name := str(output.name)) not in decided]


def choosing_like(graph: ir.Graph, name: str) -> set[str]:
    """The outputs with the same decision as a given one: logits, their softmax, and the index of the largest.

    Args:
        graph: The model's graph.
        name: The name of one of its outputs.
    """
    roots = {str(output.name): _root(output) for output in graph.outputs}
    return {other for other, root in roots.items() if root is roots.get(name)}


def is_first_made_into(graph: ir.Graph, outputs: Mapping[str, Decision]) -> bool:
    """Whether one of the outputs is computed from the first one alone, as probabilities from logits."""
    first = graph.outputs[0]
    for output in graph.outputs:
        value: ir.Value | None = output if output.name in outputs else None
        while value is not None and value is not first:
            node = value.producer()
            is_form = node is not None and is_standard(node, "ArgMax", "LogSoftmax", "Softmax", *FORMS)
            value = node.inputs[0] if node is not None and is_form else None
        if value is first:
            return True
    return False


def is_decided(references: References, decision: Decision, output: str) -> bool:
    """Whether the float model decides something in an output that is a head.

    Args:
        references: Samples with the float model's answers; at least one.
        decision: The decision in the output.
        output: The output's name.
    """
    count = DecisionCount(decision)
    for reference in references.answers():
        count.add(reference.outputs[output], reference.outputs[output])
    if decision.by is DecidedBy.CROSSING:
        return count.shared()[0] is not None
    return not count.tells_one and has_decisions(references, decision, output)


class ChoicesKept:
    """Counts, output by output, how many decisions equal the float model's.

    Args:
        decisions: The decision in each output, by name.
    """

    def __init__(self, decisions: Mapping[str, Decision]) -> None:
        self._heads = {name: _Head(decision) for name, decision in decisions.items()}

    def add(self, expected: Arrays, found: Arrays) -> None:
        """Adds the outputs for one more sample."""
        for name, head in self._heads.items():
            head.add(expected[name], np.asarray(found[name]))

    def kept(self, of_numbers: float = 1.0) -> dict[str, HeadKept]:
        """What is kept of each output, by name; outputs with nothing counted are left out.

        Args:
            of_numbers: The share of class indices that all outputs of such indices keep together. It limits the share
                of each of them if it has few: class indices do not show how near a decision is to changing.
        """
        return {name: found for name, head in self._heads.items() if (found := head.kept(of_numbers)) is not None}

    @property
    def of_numbers(self) -> tuple[int, int]:
        """The number of class indices that changed and their total, over all outputs that hold class indices."""
        numbers = [each for head in self._heads.values() if (each := head.of_numbers) is not None]
        return sum(each.changed for each in numbers), sum(each.positions for each in numbers)


class _Head:
    """The decisions of one output."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision
        self._count = DecisionCount(decision)
        self._largest, self._answers = _Changes(), _Answers()
        self._has_other_shape = False

    @property
    def of_numbers(self) -> _Changes | None:
        """The changes of class indices; None if the output holds no class indices."""
        return self._largest if self._decision.by is DecidedBy.NUMBER else None

    def add(self, expected: np.ndarray, found: np.ndarray) -> None:
        if expected.shape != found.shape:
            self._has_other_shape = True
            return
        self._count.add(expected, found)
        if self._decision.by is DecidedBy.NUMBER:
            self._largest.add(expected, found)
        elif self._decision.by is DecidedBy.LARGEST:
            along = [np.moveaxis(array, self._decision.axis, -1) for array in (expected, found)]
            largest = [array.argmax(-1) for array in along]
            if self._decision.independent:  # among several tags that are present, any may be the largest
                some = may_be_there(*along)
                self._largest.add(*(each[some] for each in largest))
            else:
                self._largest.add(*largest)
                self._largest.margins.add(*along)
        if self._decision.by is DecidedBy.CROSSING or self._decision.independent:
            self._answers.add(expected, found)

    def kept(self, of_numbers: float) -> HeadKept | None:
        """The share of largest entries or of yes/no answers that is kept, whichever is less; None if none was counted.

        Args:
            of_numbers: See :meth:`ChoicesKept.kept`.
        """
        kinds = [each for each in (self._largest.kept(), self._answers.kept()) if each is not None]
        if self._has_other_shape:
            return HeadKept(0.0, max((each.decisions or 0 for each in kinds), default=0))
        worst = self._count.worst_class()
        if worst is not None and worst.is_lost:
            kinds = [replace(each, share=0.0) for each in kinds]
        least = min(kinds, key=lambda each: each.share, default=None)
        if least is not None and self.of_numbers is not None and self._largest.positions < FEW_DECISIONS:
            return replace(least, share=min(least.share, of_numbers))
        return least


class _Changes:
    """Counts the positions at which the decision changed."""

    def __init__(self) -> None:
        self.positions = self.changed = 0
        self.margins = Margins()

    def add(self, expected: np.ndarray, found: np.ndarray) -> None:
        self.positions += expected.size
        self.changed += int((expected != found).sum())

    def kept(self) -> HeadKept | None:
        if not self.positions:
            return None
        return HeadKept(share_kept(self.changed, self.positions, self.margins), self.positions)


class _Answers:
    """Counts changed yes/no answers relative to the float model's rarer answer (:class:`DecisionCount`)."""

    def __init__(self) -> None:
        self._answers = np.zeros((2, 2), int)
        self._margins = Margins()

    def add(self, expected: np.ndarray, found: np.ndarray) -> None:
        np.add.at(self._answers, ((expected > CROSSING).astype(int), (found > CROSSING).astype(int)), 1)
        self._margins.add(*(np.stack([1 - array, array], -1) for array in (expected, found)))

    def kept(self) -> HeadKept | None:
        rarer = int(self._answers.sum(axis=1).argmin())
        count = int(self._answers[rarer].sum() + self._answers[:, rarer].sum())
        if max(count, 2 * int(self._answers[rarer].sum())) < FEWEST:
            return None
        changed = int(self._answers[0, 1] + self._answers[1, 0])
        return HeadKept(share_kept(changed, count, self._margins, self._margins.count / count), count)


def _is_multiplied(output: ir.Value) -> bool:
    return any(is_standard(use.node, "MatMul") for use in output.uses())


def _root(output: ir.Value) -> object:
    """The node or value that determines an output's decision, before operators that keep its largest entry in place."""
    value: ir.Value = output
    while (
        (node := value.producer()) is not None and is_standard(node, *_CHOOSING, *FORMS) and node.inputs[0] is not None
    ):
        value = node.inputs[0]
    return value if node is None or not node.domain else node


@dataclass(frozen=True)
class Others:
    """The outputs that may have to be judged beside those of the metric."""

    decided: Mapping[str, Decision]
    """The decisions of outputs, by name."""
    signals: Collection[str]
    """Float outputs that decide nothing."""
    alike: Callable[[str], Collection[str]]
    """Returns the outputs with the same decision as a given one, including that one."""

    def beside(self, covered: Iterable[str]) -> tuple[dict[str, Decision], list[str]]:
        """The decisions and the signals that are left if the metric covers these outputs."""
        judged = set[str]().union(*map(self.alike, covered))
        heads = {name: each for name, each in self.decided.items() if name not in judged}
        return heads, [name for name in self.signals if name not in {*judged, *heads}]

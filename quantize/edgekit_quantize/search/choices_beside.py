"""What outputs decide that stand beside the one that candidates are judged by.

Heads of one network choose between classes each: the digits of a code, the root and the bass of a chord, the face
beside its box. A candidate that loses one of them is no better for keeping the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from edgekit.comparison.decisions import DecidedBy, Decision
from edgekit.model import Arrays
from edgekit_quantize.graph.nodes import is_standard
from edgekit_quantize.search.choices import FORMS

MOST_CHANGED = 0.01
"""The share of an output's decisions that may change."""
ONE_SIDED = 1.645
"""Standard deviations below which a count lies once in 20 times."""


def choices_beside(graph: ir.Graph, decisions: Mapping[str, Decision | None]) -> dict[str, Decision]:
    """The outputs behind the first that the graph tells to choose between classes.

    Weights of an attention are made by a Softmax as well; a product reads them.

    Args:
        graph: The model's.
        decisions: What decides in its outputs (:func:`edgekit.comparison.told_decisions.decisions_of`).
    """
    found = {}
    for output in graph.outputs[1:]:
        decision = decisions.get(output.name or "")
        if decision is not None and decision.told and not any(is_standard(use.node, "MatMul") for use in output.uses()):
            found[str(output.name)] = decision
    return found


def is_first_made_into(graph: ir.Graph, outputs: Mapping[str, Decision]) -> bool:
    """Whether one of the outputs is the first one's own: probabilities beside the logits that they are made of."""
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


class ChoicesKept:
    """Counts, output by output, how many decisions are the float model's.

    Args:
        decisions: What decides, by output.
    """

    def __init__(self, decisions: Mapping[str, Decision]) -> None:
        self._decisions = decisions
        self._changed = dict.fromkeys(decisions, 0)
        self._all = dict.fromkeys(decisions, 0)

    def add(self, expected: Arrays, found: Arrays) -> None:
        """Takes the outputs for one more sample."""
        for name, decision in self._decisions.items():
            wanted, got = _decided(expected[name], decision), _decided(np.asarray(found[name]), decision)
            self._all[name] += wanted.size
            self._changed[name] += int((wanted != got).sum()) if wanted.shape == got.shape else wanted.size

    @property
    def worst(self) -> tuple[float, str | None]:
        """The share that is kept of the output that loses the most, and its name.

        1 and no name where no more than :data:`MOST_CHANGED` change surely.
        """
        counted = [name for name, count in self._all.items() if count]
        surely, worst = max(((self._surely_changed(name), name) for name in counted), default=(0.0, ""))
        return (1.0, None) if surely <= MOST_CHANGED else (1 - self._changed[worst] / self._all[worst], worst)

    def _surely_changed(self, name: str) -> float:
        changed = self._changed[name]
        return (changed - ONE_SIDED * math.sqrt(changed)) / self._all[name]


def _decided(output: np.ndarray, decision: Decision) -> np.ndarray:
    return output if decision.by is DecidedBy.NUMBER else np.asarray(output.argmax(decision.axis))

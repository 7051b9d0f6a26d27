"""Remembers which operations stay in float32, as found for drafts of a model."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from edgekit.graph.simplification.cleanup import digest
from edgekit.graph.sizes.shapes import topology_digest
from edgekit.model import Model
from edgekit_mlprogram.trial_inputs import TrialInputs

if TYPE_CHECKING:
    from edgekit_mlprogram.mixed_precision import Choice


@dataclass
class CachedChoices:
    """Choices of operations for the forms of one model: of the model that was converted last.

    Forms of a model differ in how its weights are rounded. A form that was built as a draft is built again when it is
    judged on more samples, and when it ships. The same graph and the same trial inputs lead to the same choice, which
    takes dozens of runs in the reference runtime to find.
    """

    last_draft: Choice | None = None
    """The choice for the previous draft."""
    _model: Hashable = None
    _by_form: dict[str, tuple[Choice, bool]] = field(default_factory=dict)
    """The choice by the form's digest, and whether it was found by a search that starts from the smallest set."""
    _by_decisions: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    """Digests of the graph and the examples of each choice made by decisions (:attr:`Choice.by_decisions`)."""

    def turn_to(self, model: Hashable) -> None:
        """Forgets all choices if ``model`` is another model than before."""
        if model != self._model:
            self._model, self.last_draft = model, None
            self._by_form.clear()
            self._by_decisions.clear()

    def of(self, form: str, *, draft: bool) -> Choice | None:
        """Returns the choice for an earlier draft of the same form, or None if there was none.

        Args:
            form: Digest by :func:`form_digest`.
            draft: Whether a choice is accepted that held when it was tried first, because another form has it.
        """
        choice, is_searched = self._by_form.get(form, (None, False))
        return choice if is_searched or draft else None

    def missed_decisions(self, graph: str, examples: frozenset[str]) -> bool:
        """Whether an earlier choice by decisions, on fewer of these examples, must have failed on the others.

        Args:
            graph: Digest of the graph without inputs, by :func:`form_digest`.
            examples: Digests by :func:`example_digests`.
        """
        return any(other == graph and fewer < examples for other, fewer in self._by_decisions)

    def add_decisions(self, graph: str, examples: frozenset[str]) -> None:
        """Records that a choice was made by decisions."""
        self._by_decisions.add((graph, examples))

    def add_draft(self, form: str, choice: Choice) -> None:
        """Stores the choice for the draft of a form, for which :attr:`last_draft` was tried first."""
        first = self.last_draft
        is_first = first is not None and (choice.kept, choice.everything) == (first.kept, first.everything)
        self._by_form[form] = choice, not is_first
        self.last_draft = choice


def form_digest(graph_model: ir.Model, trials: Sequence[TrialInputs]) -> str:
    """Returns a digest of a graph with its weights, and of the inputs on which its programs are compared."""
    model = Model(graph_model)
    found = hashlib.blake2b(topology_digest(model).encode(), digest_size=16)
    for tensor in model.tensors():
        found.update(digest(tensor))
    for name, array in _arrays(trials):
        _add(found, name, array)
    return found.hexdigest()


def example_digests(trials: Sequence[TrialInputs]) -> frozenset[str]:
    """Returns a digest of each input on which programs are compared."""
    digests = set()
    for feeds in (feeds for trial in trials for feeds in trial.compared):
        found = hashlib.blake2b(digest_size=16)
        for name, array in feeds.items():
            _add(found, name, array)
        digests.add(found.hexdigest())
    return frozenset(digests)


def _add(found: hashlib.blake2b, name: str, array: np.ndarray) -> None:
    found.update(f"{name} {array.dtype} {array.shape}".encode())
    found.update(np.ascontiguousarray(array).tobytes())


def _arrays(trials: Sequence[TrialInputs]) -> Iterator[tuple[str, np.ndarray]]:
    for trial in trials:
        for kind, several in (("compared", trial.compared), ("further", trial.further)):
            yield from ((f"{kind} {name}", array) for feeds in several for name, array in feeds.items())

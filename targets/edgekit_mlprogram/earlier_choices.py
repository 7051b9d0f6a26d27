"""What stays in float32 as it was found for drafts of a model's forms."""

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
class EarlierChoices:
    """Choices for the forms of one model, the one that was asked about last.

    A draft is built once more where it is judged on more samples, and as it ships: the same graph and the same trial
    inputs make the same choice, which takes dozens of runs in the reference runtime to find.
    """

    last_draft: Choice | None = None
    """What was chosen for the draft before."""
    _model: Hashable = None
    _by_form: dict[str, tuple[Choice, bool]] = field(default_factory=dict)
    """By the form, with whether it was searched for from the smallest set on."""
    _by_decisions: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    """The graphs and examples for which a choice was made by decisions."""

    def turn_to(self, model: Hashable) -> None:
        """Forgets the choices for the forms of another model."""
        if model != self._model:
            self._model, self.last_draft = model, None
            self._by_form.clear()
            self._by_decisions.clear()

    def of(self, form: str, *, draft: bool) -> Choice | None:
        """What was chosen for a draft of the same form; None where there was none.

        Args:
            form: What :func:`form_digest` tells.
            draft: Whether a choice will do for which that of another form was tried first.
        """
        choice, is_searched = self._by_form.get(form, (None, False))
        return choice if is_searched or draft else None

    def missed_decisions(self, graph: str, examples: frozenset[str]) -> bool:
        """Whether a choice was made by decisions on fewer of these examples: it is asked for again where it missed.

        Args:
            graph: What :func:`form_digest` tells of the graph without inputs.
            examples: What :func:`example_digests` tells.
        """
        return any(other == graph and fewer < examples for other, fewer in self._by_decisions)

    def add_decisions(self, graph: str, examples: frozenset[str]) -> None:
        """Takes note that a choice was made by decisions."""
        self._by_decisions.add((graph, examples))

    def add_draft(self, form: str, choice: Choice) -> None:
        """Keeps what was chosen for the draft of a form, :attr:`last_draft` having been tried first."""
        first = self.last_draft
        is_first = first is not None and (choice.kept, choice.everything) == (first.kept, first.everything)
        self._by_form[form] = choice, not is_first
        self.last_draft = choice


def form_digest(graph_model: ir.Model, trials: Sequence[TrialInputs]) -> str:
    """A digest of a graph with its weights, and of the inputs that programs made of it are compared on."""
    model = Model(graph_model)
    found = hashlib.blake2b(topology_digest(model).encode(), digest_size=16)
    for tensor in model.tensors():
        found.update(digest(tensor))
    for name, array in _arrays(trials):
        _add(found, name, array)
    return found.hexdigest()


def example_digests(trials: Sequence[TrialInputs]) -> frozenset[str]:
    """A digest of each input that programs are compared on."""
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

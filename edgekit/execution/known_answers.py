"""The outputs of an original for samples, which are computed once for several forms and instruction sets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from edgekit.execution.recurrence import FedBackOriginal, Original, reference_of
from edgekit.execution.reference import Reference
from edgekit.model import Arrays, Model

MOST_BYTES = 128 * 2**20
"""Most bytes of outputs that are kept."""


class KnownAnswers:
    """The outputs of an original by its inputs, as far as they fit into :data:`MOST_BYTES`."""

    def __init__(self) -> None:
        self._of: Model | None = None
        self._answers: dict[bytes, Arrays] = {}
        self._bytes = 0

    def reference_of(self, model: Model) -> Original | CachingOriginal:
        """Executes a model, or returns known outputs; a model with states is always executed, as its outputs vary."""
        reference = reference_of(model)
        if isinstance(reference, FedBackOriginal):
            return reference
        if self._of is not model:
            self._of, self._answers, self._bytes = model, {}, 0
        return CachingOriginal(reference, self)

    def of(self, feeds: Mapping[str, np.ndarray], reference: Reference) -> Arrays:
        """The outputs by name; arrays that are kept cannot be written to.

        Raises:
            edgekit.execution.reference.NotRunnableError: A node fails on these inputs.
        """
        key = _digest(feeds)
        known = self._answers.get(key)
        if known is not None:
            return dict(known)
        outputs = reference.run(feeds)
        if not all(isinstance(array, np.ndarray) and array.dtype != object for array in outputs.values()):
            return outputs
        size = sum(array.nbytes for array in outputs.values())
        if self._bytes + size <= MOST_BYTES:
            # Copies: a runtime's own arrays keep all of the memory that its session took.
            outputs = {name: array.copy() for name, array in outputs.items()}
            for array in outputs.values():
                array.setflags(write=False)
            self._answers[key] = outputs
            self._bytes += size
        return dict(outputs)


class CachingOriginal:
    """Executes an original, except on inputs whose outputs are known.

    Args:
        reference: Executes the original.
        answers: The known outputs, to which new ones are added.
    """

    def __init__(self, reference: Reference, answers: KnownAnswers) -> None:
        self._reference = reference
        self._answers = answers

    @property
    def executed_by(self) -> str:
        """Runtime, version, device and how the graph is executed, as the reference reports them."""
        return self._reference.executed_by

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """The outputs by name.

        Raises:
            edgekit.execution.reference.NotRunnableError: A node fails on these inputs.
        """
        return self._answers.of(feeds, self._reference)


def _digest(feeds: Mapping[str, np.ndarray]) -> bytes:
    """A hash of the names, types, shapes and elements of arrays."""
    found = hashlib.blake2b(digest_size=16)
    for name, array in sorted(feeds.items()):
        given = np.asarray(array)
        elements = repr(given.tolist()).encode() if given.dtype == object else np.ascontiguousarray(given).tobytes()
        found.update(repr((name, str(given.dtype), given.shape, len(elements))).encode())
        found.update(elements)
    return found.digest()

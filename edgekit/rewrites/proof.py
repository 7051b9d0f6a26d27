"""Proves that a rewritten model computes what the model computed before."""

from __future__ import annotations

from collections.abc import Iterable

from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError
from edgekit.model import Model
from edgekit.rewrite import Rewrite
from edgekit.rewrites.definition import Definition


class Proof:
    """Holds rewritten models against the one before, executed by ONNX Runtime on seeded inputs.

    What ONNX Runtime has no kernel for cannot be executed. Then only rewrites hold that put in an operator's definition
    of the ONNX standard, which is right by definition.

    Args:
        model: The model before.
    """

    def __init__(self, model: Model) -> None:
        self._before: Equivalence | None = None
        self._because = ""
        try:
            self._before = Equivalence(model)
        except NotRunnableError as error:
            self._because = str(error)

    def difference(self, changed: Model, rewrites: Iterable[Rewrite]) -> str | None:
        """What the changed model computes differently, or why it cannot be told; None where it computes the same."""
        if self._before is not None:
            return self._before.difference(changed)
        if all(isinstance(rewrite, Definition) for rewrite in rewrites):
            return None
        return f"nothing can be compared: {self._because}"

"""Whether this system has the locales that a model changes texts by."""

from __future__ import annotations

from edgekit.errors import RequirementError
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.model import Model
from edgekit.operators.hints import locale_hint

_READER = "StringNormalizer"
"""The operator that has a locale."""


def require_locales(model: Model) -> None:
    """Refuses a model that changes texts by a locale which this system lacks: nothing can be compared with it.

    Raises:
        RequirementError: The locale is missing; the hint says how to install it.
    """
    if all(node.op_type != _READER for node in model.graph.all_nodes()):
        return
    try:
        Reference(model)
    except NotRunnableError as error:
        if error.locale is not None:
            raise RequirementError(
                f"changes texts by the locale {error.locale}, which this system does not have",
                subject=model.name if error.node is None else f"{model.name}, node {error.node!r}",
                expected="a system that executes the model, which the bundle is compared with",
                hint=locale_hint(error.locale),
            ) from error

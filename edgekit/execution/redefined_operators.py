"""Functions of a model that bear the names of ONNX Runtime's own operators.

ONNX leaves open whether such a function or the operator is meant. ONNX Runtime executes its operator; EdgeKit inlines
the function, because other runtimes lack the operator. Both compute the same where an exporter defines the operator.
"""

from __future__ import annotations

from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError
from edgekit.model import Model, name_nodes

_DOMAIN = "com.microsoft"


def redefining_copy(model: Model) -> Model | None:
    """Returns a copy of a model with functions in the domain of ONNX Runtime's operators; None for other models."""
    if not any(function.domain == _DOMAIN for function in model.graph_model.functions.values()):
        return None
    return model.with_graph(model.graph_model.clone())


def redefined_operators(as_called: Model, inlined: Model) -> list[str]:
    """Returns a warning if ONNX Runtime computes something else where the functions are not inlined.

    Args:
        as_called: The model whose nodes call the functions.
        inlined: The same model with the functions inlined.
    """
    after = inlined.with_graph(inlined.graph_model.clone())
    name_nodes(as_called.graph_model)
    name_nodes(after.graph_model)
    try:
        difference = Equivalence(as_called).difference(after)
    except NotRunnableError:
        return []  # it has no such operator for these types, or none of that form
    if difference is None:
        return []
    names = sorted(each.name for each in as_called.graph_model.functions.values() if each.domain == _DOMAIN)
    return [
        f"ONNX Runtime has operators with the names of the model's functions ({', '.join(names)}) and executes them in "
        f"their place, which gives other numbers: {difference}; EdgeKit takes the functions"
    ]

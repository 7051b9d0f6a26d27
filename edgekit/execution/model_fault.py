"""Whether a model on which a conversion fails is itself at fault, so that nothing can run it."""

from __future__ import annotations

import onnx

from edgekit.errors import InputError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.reading.ir_version import newest_opset
from edgekit.graph.reading.onnx_file import check_in_memory
from edgekit.model import Model

NO_KERNEL = "Could not find an implementation"
"""Part of ONNX Runtime's message where it lacks an operator for an element type: the model may be right."""


def model_fault(model: Model) -> InputError | None:
    """Returns the error for a model that ONNX Runtime refuses, too; None if the model is not known to be at fault.

    Args:
        model: The model on which a conversion failed. Its nodes have names, by which the error calls them.
    """
    rule = _broken_rule(model)
    if rule is None and model.opset > newest_opset():
        return None
    try:
        Reference(model)
    except NotRunnableError as refusal:
        if rule is None and NO_KERNEL in refusal.cause:
            return None
        return InputError(
            rule or "contradicts itself",
            subject=model.source,
            found=refusal,
            hint="export the model again, with a newer exporter if there is one",
        )
    return None


def runs(model: Model) -> bool:
    """Whether ONNX Runtime executes the model on some trial inputs, or may lack a kernel for it."""
    try:
        Equivalence(model)
    except NotRunnableError as refusal:
        return NO_KERNEL in refusal.cause
    return True


def _broken_rule(model: Model) -> str | None:
    try:
        check_in_memory(model)
    except onnx.shape_inference.InferenceError as error:
        return f"contradicts itself: {' '.join(str(error).split())}"
    except onnx.checker.ValidationError as error:
        return f"breaks the rules of ONNX: {' '.join(str(error).split())}"
    return None

"""Whether a model that a step or a conversion fails on is itself at fault, so that no runtime can run it.

A model that breaks rules may get far, because no library checks all rules. Only when something fails, so that other
models take no more time, the model is checked by the strictest rules: the checker of ONNX, its shape inference with
every contradiction as an error, and a run of the model as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.errors import EdgeKitError, InputError
from edgekit.execution.equivalence import trial_inputs
from edgekit.execution.kernels import NO_KERNEL
from edgekit.execution.reference import Reference
from edgekit.features.dimensions import defaults
from edgekit.files.disk_space import is_out_of_space
from edgekit.graph.reading.ir_version import newest_opset
from edgekit.graph.reading.onnx_file import check_in_memory
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, ValueSpec

_TRIAL_SIZE = 2
"""The size of dynamic dimensions in the first run."""


def find_unsoundness(model: Model, *, strictly: bool = True) -> str | None:
    """Why a model is not sound (shapes or types contradict each other, or it cannot be run); None if it is sound.

    Args:
        model: The model.
        strictly: Whether contradictions count that do not keep ONNX Runtime from running the model.
    """
    try:
        if strictly:
            infer_shapes(model)
        reference, limits = Reference(model), index_limits(model)
        failure: EdgeKitError | None = None
        for specs in _trials(model):
            try:
                reference.run(seeded_inputs(specs, 0, limits))
            except EdgeKitError as error:
                failure = failure or error
            else:
                return None
        return None if failure is None else " ".join(failure.message.split())
    except EdgeKitError as error:
        return " ".join(error.message.split())
    except Exception as error:  # libraries that fail on reading the model
        if is_out_of_space(error):
            raise
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def runs(model: Model) -> bool:
    """Whether ONNX Runtime executes the model on some trial inputs, or may lack a kernel for it."""
    flaw = find_unsoundness(model, strictly=False)
    return flaw is None or NO_KERNEL in flaw


def model_fault(model: Model) -> InputError | None:
    """Returns the error for a model that ONNX Runtime refuses, too; None if the model is not known to be at fault.

    Args:
        model: The model on which a conversion failed. Its nodes have names, by which the error calls them.
    """
    rule = _broken_rule(model)
    if rule is None and model.opset > newest_opset():
        return None
    flaw = find_unsoundness(model, strictly=False)
    if flaw is None or (rule is None and NO_KERNEL in flaw):
        return None
    return InputError(
        rule or "the model is not sound",
        subject=model.source,
        found=flaw,
        hint="export the model again, with a newer exporter if there is one",
    )


def _broken_rule(model: Model) -> str | None:
    try:
        check_in_memory(model)
    except onnx.shape_inference.InferenceError as error:
        return f"contradicts itself: {' '.join(str(error).split())}"
    except onnx.checker.ValidationError as error:
        return f"breaks the rules of ONNX: {' '.join(str(error).split())}"
    return None


def _trials(model: Model) -> Iterator[Sequence[ValueSpec]]:
    """The inputs with sizes that the model may run at: a mask, say, has to be as long as the past and the new steps."""
    yield [_static(spec) for spec in at_sizes(model.inputs, defaults(model.open_dims))]
    if not all(spec.is_static for spec in model.inputs):
        yield from (specs for specs, _ in trial_inputs(model))


def _static(spec: ValueSpec) -> ValueSpec:
    shape = None if spec.shape is None else tuple(dim if isinstance(dim, int) else _TRIAL_SIZE for dim in spec.shape)
    return ValueSpec(spec.name, spec.dtype, shape)

"""Whether an unforeseen failure of a stage is the fault of the model, or of EdgeKit.

A model that breaks rules may get far, because no library checks all rules, and then cause an error in the middle of a
stage. Only when that happens, so that other models take no more time, the model is checked by the strictest rules:
ONNX's own shape inference with every contradiction as an error, and a run of the model as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.execution.equivalence import trial_inputs
from edgekit.execution.reference import Reference
from edgekit.features.dimensions import defaults
from edgekit.files.disk_space import is_out_of_space
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, ValueSpec
from edgekit.stages.load import Load

_TRIAL_SIZE = 2
"""The size of dynamic dimensions in the first run."""


def find_unsoundness(model: Model) -> str | None:
    """Why a model is not sound (shapes or types contradict each other, or it cannot be run); None if it is sound."""
    try:
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


def fault_of_model(path: Path, failure: Exception) -> InputError | None:
    """The error for a model that is not sound, after an unforeseen failure.

    Args:
        path: The model's file.
        failure: The exception that was raised.

    Returns:
        The error, also for a lack of memory; None if the model is sound, so that the fault is EdgeKit's.
    """
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, MemoryError):
            return InputError(
                f"needs more memory than it may take: {cause}",
                subject=path,
                found=str(failure).partition("\n")[0],
                hint="`--max-memory SIZE` allows more, where the model needs it",
            )
        cause = cause.__cause__ or cause.__context__
    try:
        flaw = find_unsoundness(Load()(path).model)
    except EdgeKitError as error:
        flaw = error.message
    if flaw is None:
        return None
    return InputError(
        f"the model is not sound: {flaw}",
        subject=path,
        found=f"{type(failure).__name__}: {' '.join(str(failure).split())[:300]}",
        hint="export the model again; `onnx.checker.check_model(path, full_check=True)` may tell more",
    )


@contextmanager
def blamed_on_model(path: Path) -> Iterator[None]:
    """Raises the error for an unsound model in place of an unforeseen one, if the model is unsound."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, EdgeKitError) and error.exit_code != InternalError.exit_code:
            raise
        fault = fault_of_model(path, error)
        if fault is None:
            raise
        raise fault from error


def _trials(model: Model) -> Iterator[Sequence[ValueSpec]]:
    """The inputs with sizes that the model may run at: a mask, say, has to be as long as the past and the new steps."""
    yield [_static(spec) for spec in at_sizes(model.inputs, defaults(model.open_dims))]
    if not all(spec.is_static for spec in model.inputs):
        yield from (specs for specs, _ in trial_inputs(model))


def _static(spec: ValueSpec) -> ValueSpec:
    shape = None if spec.shape is None else tuple(dim if isinstance(dim, int) else _TRIAL_SIZE for dim in spec.shape)
    return ValueSpec(spec.name, spec.dtype, shape)

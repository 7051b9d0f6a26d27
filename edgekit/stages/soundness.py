"""Whose fault it is that a stage failed in a way that nobody has foreseen: the model's, or EdgeKit's own.

Models that break rules get far at times, because no library checks all of them, and then raise something in the middle
of a stage. Only when that happens, and so at no cost to anybody else, the model is held against the strictest rules
that there are: ONNX's own inference with every contradiction an error, and a run of it as it stands.
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
from edgekit.files.room import is_for_want_of_room
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, ValueSpec
from edgekit.stages.load import Load

_TRIAL_SIZE = 2
"""What dynamic dimensions are set to for the first run."""


def find_unsoundness(model: Model) -> str | None:
    """Why a model is not sound: its shapes or types contradict one another, or it cannot be run; None if it is."""
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
    except Exception as error:  # libraries that cannot even look at it
        if is_for_want_of_room(error):
            raise
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def fault_of_model(path: Path, failure: Exception) -> InputError | None:
    """The error for a model that is not sound, where something failed that nobody has foreseen.

    Args:
        path: The model's file.
        failure: What was raised.

    Returns:
        None where the model is sound: then the fault is EdgeKit's own.
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
    """Raises the error for an unsound model in place of one that nobody has foreseen."""
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
    """The inputs with sizes that the model may run at: a mask, say, has to be as long as a past and what is new."""
    yield [_static(spec) for spec in at_sizes(model.inputs, defaults(model.open_dims))]
    if not all(spec.is_static for spec in model.inputs):
        yield from (specs for specs, _ in trial_inputs(model))


def _static(spec: ValueSpec) -> ValueSpec:
    shape = None if spec.shape is None else tuple(dim if isinstance(dim, int) else _TRIAL_SIZE for dim in spec.shape)
    return ValueSpec(spec.name, spec.dtype, shape)

"""Whether an unforeseen failure of a stage is the fault of the model's file, or of EdgeKit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.execution.soundness import find_unsoundness
from edgekit.stages.load import Load


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

"""Skips native code that has already ended a process of the command.

Runtimes crash on some forms of a model, and end the process. From :func:`guarded` the supervising process knows what
was being tried, and repeats the command; what ended the process then raises :class:`CrashError`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from edgekit.errors import RequirementError
from edgekit.processes import supervision

_alone = threading.RLock()


class CrashError(RequirementError):
    """What is to be tried has ended a process of this command before."""


@contextmanager
def guarded(what: str, *, may_stall: bool = False) -> Iterator[None]:
    """Wraps native code that may end the process; once some has, only one thread at a time runs such code.

    Args:
        what: Identifies what is tried; the same when the command is repeated.
        may_stall: Whether the command is also repeated without this code if the code exceeds a limit of time or memory.

    Raises:
        CrashError: This code has ended the process before.
    """
    ended_by = supervision.crashed().get(what)
    if ended_by is not None:
        raise CrashError("it ended the process", found=ended_by)
    with _alone if supervision.crashed() else nullcontext():
        supervision.tell(begun=what, may_stall=may_stall)
        try:
            yield
        finally:
            supervision.tell(done=what)

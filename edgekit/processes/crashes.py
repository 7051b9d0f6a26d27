"""Native code that ended the process once is not run again.

Runtimes crash on some forms of a model, and take the process with them. The supervising process knows by
:func:`guarded` what was being tried, and does the command anew; what ended it raises :class:`CrashError` then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from edgekit.errors import RequirementError
from edgekit.processes import supervision

_alone = threading.RLock()


class CrashError(RequirementError):
    """What was to be tried ended the process before."""


@contextmanager
def guarded(what: str, *, may_stall: bool = False) -> Iterator[None]:
    """Wraps native code that may end the process; where some has, one thread at a time.

    Args:
        what: Tells apart what is tried; the same when the command is done anew.
        may_stall: Whether the command is also done anew without it where the limits of time or memory ended it.

    Raises:
        CrashError: It ended the process before.
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

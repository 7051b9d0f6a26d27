"""A process that is started imports the main module: a script that does its work at import would run again.

Python's documentation of ``multiprocessing`` calls for ``if __name__ == "__main__":`` ("Safe importing of main
module").
"""

from __future__ import annotations

import multiprocessing
import sys

from edgekit.errors import InputError

MESSAGE = "a process that was started runs the script once more"
_HINT = 'put what it does under `if __name__ == "__main__":`; a process that is started imports the script'


def require_guarded() -> None:
    """Refuses to start processes from one that still imports the main module.

    Raises:
        InputError: The process still imports the main module: the script has no guard.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise unguarded()


def unguarded() -> InputError:
    """The error for a script without a guard."""
    return InputError(MESSAGE, subject=main_file() or "the main module", hint=_HINT)


def main_file() -> str | None:
    """The script that processes import as they start; None if there is none, as in a notebook."""
    main = sys.modules.get("__main__")
    if main is None or getattr(main, "__spec__", None) is not None:  # started as a module, by its name
        return None
    return getattr(main, "__file__", None)

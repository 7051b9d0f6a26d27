"""The process of the command line: what the script ``edgekit`` and ``python -m edgekit`` start."""

import signal
import sys
import threading
import warnings

COLLECT_AFTER = 50_000
"""Number of new objects after which Python's garbage collector searches for cycles: graphs are tens of thousands of
small objects, and with the default of 700 the search takes up to a tenth of the time."""

# NumPy's warnings, such as "overflow encountered in exp": verdicts report what a model computes. They are turned off
# when this module is imported, because child processes import it, too.
warnings.filterwarnings("ignore", r".* encountered in ", RuntimeWarning)


def run() -> int:
    """Runs the command line, and returns the exit code; a command that a signal has ended ends this process by it."""
    _end_at_once_by_interrupts()
    import gc

    from edgekit.processes.interruption import end_by_signal
    from edgekit.processes.supervision import supervised

    gc.set_threshold(COLLECT_AFTER)
    code = supervised(_command, _failed)
    end_by_signal(code)
    return code


def _end_at_once_by_interrupts() -> None:
    """Lets Ctrl-C end the process without a traceback until a command runs, which handles it itself."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _command() -> int:
    import gc

    from edgekit.cli import end_with_error, main

    _use_safe_streams()
    code = main()
    try:
        sys.stdout.flush()
    except Exception as failure:
        code = end_with_error(failure)
    gc.freeze()  # the process ends: a last garbage collection would take a quarter of a second with a large model
    return code


def _failed(failure: Exception) -> int:
    """Prints the error that ended the working process, and returns the exit code."""
    from edgekit.cli import end_with_error

    _use_safe_streams()
    code = end_with_error(failure)
    sys.stdout.flush()
    return code


def _use_safe_streams() -> None:
    import os
    from pathlib import Path

    from edgekit.terminal.foreign_text import safe_stream

    sys.stdout = safe_stream(sys.stdout, "standard output")
    sys.stderr = safe_stream(sys.stderr or Path(os.devnull).open("w"), "standard error")  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(run())

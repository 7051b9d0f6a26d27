"""The process of the command line: what the script ``edgekit`` and ``python -m edgekit`` start."""

import gc
import sys

from edgekit.cli import main

COLLECT_AFTER = 50_000
"""How many new objects Python's search for cycles waits for: graphs are tens of thousands of small objects, and with
the default of 700 the search takes up to a tenth of the time."""


def run() -> int:
    """Runs what the command line asks for, and returns the exit code."""
    gc.set_threshold(COLLECT_AFTER)
    code = main()
    gc.freeze()  # the process ends: going through a large model once more would take a quarter of a second
    return code


if __name__ == "__main__":
    sys.exit(run())

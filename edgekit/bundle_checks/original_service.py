"""Executes a bundle's original for :mod:`edgekit.bundle_checks.original`, in a process that does nothing else.

It is run as ``python -m edgekit.bundle_checks.original_service FOLDER``; :mod:`edgekit.execution.lone_session`
describes the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgekit.device_check.check_service import OpenModel, serve
from edgekit.execution.lone_session import LoneSession, import_runtime


def open_model(folder: Path) -> OpenModel:
    """The original, ready to run."""
    session = LoneSession(folder)
    return OpenModel(session.run, session.runtime, {"threads": "1"})


if __name__ == "__main__":
    import_runtime()
    sys.exit(serve(lambda: open_model(Path(sys.argv[1]))))

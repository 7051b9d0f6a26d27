"""How many processors there are for this process."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """How many processors this process may run on; the number of the machine if the system does not tell."""
    # the check in a bundle, which ships without this file, counts the same way: edgekit/device_check/check_service.py
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

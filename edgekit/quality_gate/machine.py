"""The kind of machine that this is, as far as the ratio of two models' times depends on it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

_LINUX_CPU = Path("/proc/cpuinfo")
_NAME = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_ARM_PART = re.compile(r"^CPU (implementer|part)\s*:\s*(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Machine:
    """A kind of machine: latencies on one kind say nothing about another."""

    cpu: str
    processors: int
    """The number of processors that the system offers, including hyperthreads."""
    system: str

    def __str__(self) -> str:
        return f"{self.cpu}, {self.processors} processor{'s' if self.processors != 1 else ''}, {self.system}"

    def as_record(self) -> dict[str, str | int]:
        """Plain data for the baseline file."""
        return asdict(self)


def this_machine() -> Machine:
    """The machine that executes this process."""
    return Machine(_cpu_name(), os.cpu_count() or 1, f"{platform.system()} {platform.machine()}")


def _cpu_name() -> str:
    if platform.system() == "Darwin":
        answer = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip() or platform.machine()
    name = cpu_of_linux(_LINUX_CPU.read_text(encoding="utf-8")) if _LINUX_CPU.is_file() else None
    return name or platform.processor() or platform.machine()


def cpu_of_linux(cpuinfo: str) -> str | None:
    """The processor in ``/proc/cpuinfo``: its name, or on ARM the codes of maker and part; None if there is neither."""
    name = _NAME.search(cpuinfo)
    if name is not None:
        return " ".join(name[1].split())
    codes = dict(_ARM_PART.findall(cpuinfo))
    return f"ARM {codes['implementer']} {codes['part']}" if {"implementer", "part"} <= codes.keys() else None

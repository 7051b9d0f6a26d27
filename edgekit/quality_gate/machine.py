"""What machine this is, as far as a ratio of two models' times depends on it."""

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
    """A kind of machine: figures of one say nothing about another."""

    cpu: str
    processors: int
    """That the system offers, hyperthreads counted."""
    system: str

    def __str__(self) -> str:
        return f"{self.cpu}, {self.processors} processor{'s' if self.processors != 1 else ''}, {self.system}"

    def as_record(self) -> dict[str, str | int]:
        """Plain data for the baseline file."""
        return asdict(self)


def this_machine() -> Machine:
    """The machine that executes this."""
    return Machine(_cpu_name(), os.cpu_count() or 1, f"{platform.system()} {platform.machine()}")


def _cpu_name() -> str:
    if platform.system() == "Darwin":
        told = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        return told.stdout.strip() or platform.machine()
    name = cpu_of_linux(_LINUX_CPU.read_text(encoding="utf-8")) if _LINUX_CPU.is_file() else None
    return name or platform.processor() or platform.machine()


def cpu_of_linux(cpuinfo: str) -> str | None:
    """The processor that ``/proc/cpuinfo`` tells of: by its name, on ARM by the codes of maker and part."""
    name = _NAME.search(cpuinfo)
    if name is not None:
        return " ".join(name[1].split())
    codes = dict(_ARM_PART.findall(cpuinfo))
    return f"ARM {codes['implementer']} {codes['part']}" if {"implementer", "part"} <= codes.keys() else None

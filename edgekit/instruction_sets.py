"""Instruction sets that multiply 8-bit integers, and the note for a bundle that was verified on another one.

EdgeKit copies this file into its bundles: it uses nothing but the standard library. The sets are in order of
preference: of those that a processor has, runtimes use the last one.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from pathlib import Path
from typing import Any

FLAGS = {
    "avx2": ("avx2",),
    "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
    "vnni": ("avx512_vnni",),
    "amx": ("amx_tile", "amx_int8"),
}
"""Instruction sets of x86 by what users call them, each with the flags that Linux shows of a processor that has it."""
ARM = "neon"
"""The instruction set of every 64-bit ARM processor."""
NAMES = (*FLAGS, ARM)
WITHOUT_VNNI = ("avx2", "avx512")
"""The sets of x86 that add products of 8-bit integers in pairs, in 16 bits."""
WITH_BF16 = ("amx",)
"""The sets of x86 that multiply bfloat16, whatever else the processor has."""
SHORT_VNNI = "avx_vnni"
"""The flag of processors whose VNNI works on 256 bits, without AVX-512; its sums have 32 bits, too."""
CPUINFO = Path("/proc/cpuinfo")
ARM_MACHINES = ("aarch64", "arm64")


def processor_flags() -> frozenset[str]:
    """The flags that Linux lists for this processor; empty on other systems."""
    if not CPUINFO.is_file():
        return frozenset()
    lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), ()))


def own_set(flags: Collection[str] | None = None, machine: str | None = None) -> str | None:
    """The instruction set that runtimes choose on a processor; None if it is not known.

    Args:
        flags: The processor's flags, as :func:`processor_flags` gives them; None for this processor.
        machine: The machine's type, as :func:`platform.machine` gives it; None for this machine.
    """
    if (platform.machine() if machine is None else machine) in ARM_MACHINES:
        return ARM
    has = set(processor_flags() if flags is None else flags)
    found = [name for name, needed in FLAGS.items() if has.issuperset(needed)]
    if SHORT_VNNI in has and found == ["avx2"]:
        return "vnni"
    return found[-1] if found else None


def note_on(manifest: dict[str, Any], own: str | None) -> str | None:
    """Returns a note if a bundle runs with another instruction set than those it was verified on, else None.

    Args:
        manifest: The bundle's manifest.
        own: The processor's instruction set, as :func:`own_set` gives it.
    """
    verified = manifest.get("instruction_sets", {}).get("verified", {})
    if not verified or own is None or own in verified:
        return None
    return f"this processor computes with {own}; the bundle was verified on {', '.join(verified)}"

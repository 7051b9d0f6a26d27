"""Decibels, bytes and times as people read them."""

from __future__ import annotations

import math


def decibel_text(value: float | str) -> str:
    """Decibels as the manifest writes them, for people."""
    number = float(value)
    return f"{number:.1f} dB" if math.isfinite(number) else "exact" if number > 0 else "nothing right"


def bytes_text(count: int) -> str:
    """A number of bytes in the unit that reads best, powers of 1000."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} GB"


def bytes_texts(*counts: int) -> tuple[str, ...]:
    """Texts of sizes that are shown together: all in bytes if two different sizes would read the same."""
    texts = tuple(map(bytes_text, counts))
    if len(set(texts)) == len(set(counts)):
        return texts
    return tuple(f"{count:,} B" for count in counts)


def time_text(milliseconds: float) -> str:
    """A latency: milliseconds, and seconds from one second on."""
    return f"{milliseconds:.3g} ms" if milliseconds < 999.5 else f"{milliseconds / 1000:.3g} s"


def duration_text(microseconds: float) -> str:
    """A time in microseconds, or in milliseconds from 1 ms on."""
    return f"{microseconds:.3g} µs" if microseconds < 999.5 else f"{microseconds / 1000:.3g} ms"

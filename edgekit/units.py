"""Decibels, bytes and times as people read them."""

from __future__ import annotations

import math
from decimal import Decimal


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


def limit_text(limit: float, decimals: int) -> str:
    """A limit as its author wrote it, with at least ``decimals`` decimals: rounded, 0.125 would read as 0.12."""
    written = Decimal(repr(float(limit))).normalize()
    return f"{written:.{max(decimals, -int(written.as_tuple().exponent))}f}"


def share_limit_text(limit: float, decimals: int) -> str:
    """A limit that is a share, in percent, with at least ``decimals`` decimals and all that its author wrote."""
    return f"{limit_text(float(Decimal(repr(float(limit))).scaleb(2)), decimals)}%"


def beyond_text(value: float, limit: float, decimals: int) -> str:
    """A number beyond a limit, with at least ``decimals`` decimals and as many as show that it is not the limit."""
    if not math.isfinite(value):
        return str(value)
    while value != limit and float(f"{value:.{decimals}f}") == float(f"{limit:.{decimals}f}"):
        decimals += 1
    return f"{value:.{decimals}f}"


def share_text(share: float, limit: float, *, kept: bool) -> str:
    """A share in percent with two decimals; a share that breaks its limit has as many decimals as show that."""
    return f"{share:.2%}" if kept else f"{beyond_text(100 * share, 100 * limit, 2)}%"


def milliseconds_text(milliseconds: float) -> str:
    """Milliseconds without a unit, with three digits, or with all before the point: never as a power of ten."""
    return f"{milliseconds:.3g}" if milliseconds < 999.5 else f"{milliseconds:.0f}"


def time_text(milliseconds: float) -> str:
    """A latency: milliseconds, and seconds from one second on."""
    return f"{milliseconds:.3g} ms" if milliseconds < 999.5 else f"{milliseconds / 1000:.3g} s"


def duration_text(microseconds: float) -> str:
    """A time in microseconds, or in milliseconds from 1 ms on."""
    return f"{microseconds:.3g} µs" if microseconds < 999.5 else f"{microseconds / 1000:.3g} ms"

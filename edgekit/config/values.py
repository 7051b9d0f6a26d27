"""Shares and numbers of bytes as people write them, on the command line and in project files."""

from __future__ import annotations

import re
from decimal import Decimal

from edgekit.errors import InputError

_LEAST_DOUBTFUL_LOSS = 0.5
_PREFIXES = ("", "k", "m", "g")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmg])(i?))?b?", re.ASCII | re.IGNORECASE)
_MOST_BYTES = 2**63 - 1
SIZES = "'2.5 MB' (B; kB, MB, GB of 1000; KiB, MiB, GiB of 1024)"
"""How a number of bytes is written, for errors."""
DROP = "would allow {:.0%} of the samples to be lost"
"""The message for a loss of accuracy so large that it was probably meant as a percentage."""


def parse_fraction(value: float | str) -> float:
    """A share written as a number from 0 to 1 or as a text such as ``1%`` or ``0.01``.

    Raises:
        ValueError: The value is not a share.
    """
    if isinstance(value, str) and value.rstrip().endswith("%"):
        try:
            number = float(Decimal(value.rstrip()[:-1]).scaleb(-2))  # 98.4 / 100 is more than 0.984 in floating point
        except ArithmeticError as error:
            raise ValueError("there is no number before the percent sign") from error
    else:
        number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("a share lies between 0 and 1, or 0% and 100%")
    return number


def parse_max_drop(value: float | str, subject: object) -> float:
    """The accuracy that may be lost, as a fraction; 0.5 or more has to be written with a percent sign.

    Raises:
        InputError: The value is no share, or a number that was surely meant as a percentage. The error's subject is
            ``subject``, the flag or key of the value.
    """
    return parse_loss(value, subject, DROP)


def parse_loss(value: float | str, subject: object, would_allow: str) -> float:
    """A share of something that may be lost; 0.5 or more has to be written with a percent sign.

    Args:
        value: The value as it was written.
        subject: The flag or key of the value, for errors.
        would_allow: What a share allows, as a format string with a place for the share.

    Raises:
        InputError: The value is no share, or a number that was surely meant as a percentage.
    """
    try:
        share = parse_fraction(value)
    except ValueError as error:
        raise no_share(value, subject) from error
    mark = "" if isinstance(value, str) else '"'  # a number comes from a project file, where texts are quoted
    if share >= _LEAST_DOUBTFUL_LOSS and not str(value).rstrip().endswith("%"):
        raise InputError(
            would_allow.format(share),
            subject=subject,
            expected=f"a number below {_LEAST_DOUBTFUL_LOSS}, or a percentage",
            found=value,
            hint=f"{share:g}% is written {mark}{share:g}%{mark}; "
            f"where {share:.0%} is meant, write {mark}{share:.0%}{mark}",
        )
    return share


def no_share(value: object, subject: object, hint: str | None = None) -> InputError:
    """The error for a value that is no share; ``subject`` is the flag or key of the value."""
    return InputError(
        "is not a share", subject=subject, expected="a number from 0 to 1, or from 0% to 100%", found=value, hint=hint
    )


def parse_bytes(value: int | str) -> int:
    """A number of bytes written as a number or as a text such as ``2.5 MB``, ``10k``, ``3 MiB`` or ``300``.

    1 MB and 1 M are 1,000,000 bytes, 1 MiB is 1,048,576; capital and small letters are the same.

    Raises:
        ValueError: The text is not a number of bytes.
    """
    if isinstance(value, int):
        return _within_limit(value)
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError(f"a size is a number of bytes, or a text such as {SIZES}")
    number, prefix, binary = match.groups()
    unit: int = (1024 if binary else 1000) ** _PREFIXES.index((prefix or "").lower())
    return _within_limit(round(Decimal(number) * unit))


def _within_limit(size: int) -> int:
    if size > _MOST_BYTES:
        raise ValueError("a size is a number of 64 bits")
    return size

"""The errors that EdgeKit raises, each with its exit code.

An error names its subject (a file, a node, a flag), says what was expected and what was found, and gives a hint where
there is something to do. The command line prints ``str(error)`` and exits with ``exit_code``:

    0  done
    1  the model or bundle does not meet what was asked
    2  wrong usage or bad input
    3  a fault of EdgeKit itself
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


class EdgeKitError(Exception):
    """Base of all errors that EdgeKit raises on purpose.

    Args:
        message: What is wrong, as a sentence without a full stop.
        subject: The file, node or flag that the error is about; printed first.
        expected: What would have been right.
        found: What is there instead.
        hint: What to do about it.
    """

    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        subject: object = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.subject = None if subject is None else str(subject)
        self.expected = None if expected is None else str(expected)
        self.found = None if found is None else str(found)
        self.hint = hint

    def __str__(self) -> str:
        text = self.message if self.subject is None else f"{self.subject}: {self.message}"
        if self.expected is not None:
            text += f"\nexpected: {self.expected}"
        if self.found is not None:
            text += f"\nfound: {self.found}"
        if self.hint is not None:
            text += f"\nhint: {self.hint}"
        return text

    def as_record(self) -> dict[str, Any]:
        """The error as plain data, for ``--json``."""
        fields = {
            "type": type(self).__name__,
            "message": self.message,
            "subject": self.subject,
            "expected": self.expected,
            "found": self.found,
            "hint": self.hint,
        }
        return {name: value for name, value in fields.items() if value is not None}


class InputError(EdgeKitError):
    """Wrong usage, or an input that cannot be used: exit code 2."""

    exit_code = 2


class RequestError(InputError):
    """A request that cannot be met in any form of the model, so no other form is tried: exit code 2."""


class RequirementError(EdgeKitError):
    """The model or bundle does not meet what was asked: exit code 1."""

    exit_code = 1


class InternalError(EdgeKitError):
    """A fault of EdgeKit itself: exit code 3."""


@dataclass(frozen=True, kw_only=True)
class OpGap:
    """An operator that a target cannot take, and its node."""

    op_type: str
    """Operator name, with its domain in front unless that is the standard one (``com.microsoft.Gelu``)."""
    node: str
    """Name of the node, or of its first output if the node has no name."""
    reason: str
    """Why the operator cannot be taken: no lowering, or a restriction that it violates."""
    hint: str = ""
    """What could be done about it; empty if nothing is known."""

    def __str__(self) -> str:
        text = f"{self.op_type} (node {self.node!r}): {self.reason}"
        return f"{text}; {self.hint}" if self.hint else text


class UnsupportedOpsError(RequirementError, NotImplementedError):
    """Operators that cannot be converted or executed; lists every one of them, not only the first.

    Args:
        gaps: All gaps that were found.
        subject: The model or package.
        hint: What to do about them.
    """

    def __init__(self, gaps: Iterable[OpGap], *, subject: object = None, hint: str | None = None) -> None:
        self.gaps: Sequence[OpGap] = tuple(gaps)
        self.ops: list[str] = sorted({gap.op_type for gap in self.gaps})
        count = len(self.gaps)
        lines = "".join(f"\n  {gap}" for gap in self.gaps)
        super().__init__(
            f"{count} unsupported node{'s' if count != 1 else ''}{lines}",
            subject=subject,
            hint=hint,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the error by its gaps, from which the constructor makes the message again."""
        return functools.partial(type(self), self.gaps, subject=self.subject, hint=self.hint), ()

"""The error raised when a program cannot be executed on the given values."""

from __future__ import annotations

from edgekit.errors import RequirementError


class ExecutionError(RequirementError, RuntimeError):
    """An operation cannot be computed on the values it was given, and Core ML fails on them too.

    The message begins with the text that Core ML uses.

    Args:
        message: What is wrong.
        operation: Name of the operation.
        expected: The value that would have been valid.
        found: The value that was found.
    """

    def __init__(self, message: str, *, operation: str, expected: object = None, found: object = None) -> None:
        super().__init__(
            f"Unable to compute the prediction using ML Program: {message}",
            subject=operation,
            expected=expected,
            found=found,
        )

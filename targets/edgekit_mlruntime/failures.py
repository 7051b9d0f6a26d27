"""The error of a program that cannot be executed on the values it got."""

from __future__ import annotations

from edgekit.errors import RequirementError


class ExecutionError(RequirementError, RuntimeError):
    """A run fails where Core ML fails as well, for what an operation was given; begins with Core ML's own words.

    Args:
        message: What is wrong.
        operation: Name of the operation.
        expected: What would have been right.
        found: What is there instead.
    """

    def __init__(self, message: str, *, operation: str, expected: object = None, found: object = None) -> None:
        super().__init__(
            f"Unable to compute the prediction using ML Program: {message}",
            subject=operation,
            expected=expected,
            found=found,
        )

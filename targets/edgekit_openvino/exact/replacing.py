"""Puts one operation of a network in another one's place, or behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any


def hand_over(old: Any, new: Any, readers: Collection[Any] | None = None) -> None:
    """Redirects inputs that read a value to another value, which gets the names of the first.

    Args:
        old: The output of an operation.
        new: The output of another one.
        readers: The inputs to redirect; None redirects all that read the old value. If the new value is made of the old
            one, these are the inputs that read the old value before.
    """
    moved = old.get_target_inputs() if readers is None else readers
    names = old.get_tensor().get_names()
    old.get_tensor().set_names(set())
    for reader in moved:
        reader.replace_source_output(new)
    new.get_tensor().set_names(names)


def put_in_place_of(operation: Any, by: Any) -> None:
    """Redirects readers of an operation's one value to that of ``by``, which gets its names and must not read it."""
    hand_over(operation.output(0), by.output(0))
    by.set_friendly_name(operation.get_friendly_name())


def put_behind(operation: Any, make: Callable[[Any], Any]) -> Any:
    """Redirects readers of an operation's only value to what ``make`` makes of it, which gets its names.

    Args:
        operation: The operation.
        make: Returns the new operation for the value.

    Returns:
        The new operation.
    """
    value = operation.output(0)
    readers = value.get_target_inputs()
    made = make(value)
    hand_over(value, made.output(0), readers)
    return made

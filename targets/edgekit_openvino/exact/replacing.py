"""Puts one operation of a network in another one's place, or behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any


def hand_over(old: Any, new: Any, readers: Collection[Any] | None = None) -> None:
    """Has inputs that read a value read another one, which gets its names.

    Args:
        old: The output of an operation.
        new: The output of another one.
        readers: Which inputs; None takes all that read the old value. Where the new value is made of the old one, those
            that read it before.
    """
    moved = old.get_target_inputs() if readers is None else readers
    names = old.get_tensor().get_names()
    old.get_tensor().set_names(set())
    for reader in moved:
        reader.replace_source_output(new)
    new.get_tensor().set_names(names)


def put_in_place_of(operation: Any, by: Any) -> None:
    """Has all that read an operation's one value read another's, which gets its names and must not depend on it."""
    hand_over(operation.output(0), by.output(0))
    by.set_friendly_name(operation.get_friendly_name())


def put_behind(operation: Any, make: Callable[[Any], Any]) -> Any:
    """Has all that read an operation's one value read what is made of it, which gets its names.

    Args:
        operation: The operation.
        make: What makes the other operation of the value.

    Returns:
        The other operation.
    """
    value = operation.output(0)
    readers = value.get_target_inputs()
    made = make(value)
    hand_over(value, made.output(0), readers)
    return made

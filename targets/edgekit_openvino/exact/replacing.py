"""Puts one operation of a network in another one's place, or behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def put_in_place_of(operation: Any, by: Any) -> None:
    """Has all that read an operation's one value read another's, which gets its names and must not depend on it."""
    old, new = operation.output(0), by.output(0)
    readers, names = old.get_target_inputs(), old.get_tensor().get_names()
    old.get_tensor().set_names(set())
    for reader in readers:
        reader.replace_source_output(new)
    new.get_tensor().set_names(names)
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
    readers, names = value.get_target_inputs(), value.get_tensor().get_names()
    made = make(value)
    value.get_tensor().set_names(set())
    for reader in readers:
        reader.replace_source_output(made.output(0))
    made.output(0).get_tensor().set_names(names)
    return made

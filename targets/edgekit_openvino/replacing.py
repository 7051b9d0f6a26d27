"""Puts one operation of a network in another one's place."""

from __future__ import annotations

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

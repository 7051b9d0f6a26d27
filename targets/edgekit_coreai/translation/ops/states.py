"""States, which survive from one run to the next: Apple's handles, read and written in the order of the program."""

from __future__ import annotations

from typing import Any

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("read_state", opset=18)
def read_state(b: Builder, call: Call, input: Any) -> Tensor:  # noqa: A002 - MIL's name of it
    """The content of a state."""
    value, input.token = b.read_handle(input.handle, input.token)
    return value


@lowering("write_state", opset=18)
def write_state(b: Builder, call: Call, input: Any, data: Tensor) -> None:  # noqa: A002 - MIL's name of it
    """Replace the content of a state."""
    input.token = b.write_handle(input.handle, data, input.token)


@lowering("coreml_update_state", opset=18)
def coreml_update_state(b: Builder, call: Call, state: Any, value: Tensor) -> Tensor:
    """Replace the content of a state, and return it."""
    state.token = b.write_handle(state.handle, value, state.token)
    return value

"""States: buffers that keep their content from one run to the next."""

from __future__ import annotations

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, StateBuffer, kernel


# Kernels never write to arrays, so read_state may return the buffer's array without copying it. What is written to a
# state is copied, because it may be a feed, which belongs to the caller.
@kernel("read_state", opset=18, raw=True)
def read_state(call: Call, input: StateBuffer) -> Array:  # noqa: A002 - MIL's name of it
    """The content of a state."""
    return input.value


@kernel("write_state", opset=18, raw=True)
def write_state(call: Call, input: StateBuffer, data: Array) -> None:  # noqa: A002 - MIL's name of it
    """Replace the content of a state."""
    input.value = data.copy()


@kernel("coreml_update_state", opset=18, raw=True)
def coreml_update_state(call: Call, state: StateBuffer, value: Array) -> Array:
    """Replace the content of a state, and return it."""
    state.value = value.copy()
    return state.value

"""What a lowering is given: the operator, its outputs, the target, and a function that lowers a subgraph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from edgekit_mil.core.mil import Var, ct
from edgekit_mil.core.values import FIX_SIZES, HIGHEST_RANK, Unsupported, Value, computed


@dataclass(frozen=True)
class Context:
    """The node at hand."""

    op_type: str
    domain: str
    version: int
    """Schema version (`since_version`) of the operator at the opset that the graph imports."""
    name: str
    """The node's name, or its first output's where it has none."""
    output_used: tuple[bool, ...]
    """For every output, whether anything reads it: an output that nothing reads need not be computed."""
    target: ct.target
    """The deployment target, which decides what MIL operators there are."""
    lower_graph: Callable[[ir.Graph, Sequence[Value]], list[Value]]
    """Lowers a subgraph in the current MIL block: its inputs' values in, its outputs' values out."""
    note: Callable[[str], None]
    """Reports to the user something that the model has and the program lacks."""

    def at_least(self, target: ct.target) -> bool:
        """Whether the deployment target is this one or a later one."""
        return bool(self.target >= target)


def output_values(
    ctx: Context, schema: onnx.defs.OpSchema | None, inputs: Sequence[Value | None], result: Any
) -> list[Value | None]:
    """Returns the result of a lowering as one value for each output.

    A bare MIL variable gets the ONNX type that the schema derives from the inputs: lowerings return a
    :class:`Value` only where the schema leaves the type open (an attribute decides it).
    """
    results = list(result) if isinstance(result, tuple | list) else [result]
    values: list[Value | None] = []
    for position, item in enumerate(results):
        if item is None or isinstance(item, Value):
            values.append(item)
        elif isinstance(item, Var):
            if item.rank > HIGHEST_RANK:
                reason = f"makes a tensor of rank {item.rank}, Core ML has {HIGHEST_RANK} dimensions at most"
                is_fixed = all(isinstance(size, int | np.integer) for size in item.shape)
                raise Unsupported(reason) if is_fixed else Unsupported(reason, FIX_SIZES)
            values.append(computed(item, output_dtype(ctx, schema, inputs, position)))
        else:
            raise TypeError(f"the lowering of {ctx.op_type} returned {type(item).__name__}, not a Var or Value")
    return values


def output_dtype(
    ctx: Context, schema: onnx.defs.OpSchema | None, inputs: Sequence[Value | None], position: int
) -> ir.DataType:
    """Element type of an output: the type of the input with the same type variable, or the one type allowed."""
    if schema is None:
        first = next(value for value in inputs if value is not None)
        return first.dtype
    formal = schema.outputs[min(position, len(schema.outputs) - 1)]
    for index, value in enumerate(inputs):
        same = schema.inputs[min(index, len(schema.inputs) - 1)].type_str == formal.type_str
        if value is not None and same:
            return value.dtype
    if len(formal.types) == 1:
        name = next(iter(formal.types)).removeprefix("tensor(").removesuffix(")")
        return ir.DataType[name.upper()]
    raise TypeError(f"the schema of {ctx.op_type} leaves the type of output {position} open: return a Value")

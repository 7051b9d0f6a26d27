from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from edgekit_mlruntime.executor import FunctionPlan
from edgekit_mlruntime.precision import hold
from edgekit_mlruntime.program import Binding, Block, DataType, Function, NamedType, Operation, TensorType, Value
from edgekit_mlruntime.registry import IOS_OF_OPSET

OPSETS = {ios: name for name, ios in IOS_OF_OPSET.items()}


class OneOperation:
    """A function of one operation, planned by the real executor.

    Inputs named in ``fed`` are the function's, of any shape; the others are constants of the program.
    """

    def __init__(
        self, op_type: str, inputs: Mapping[str, Any], *, ios: int, fed: Sequence[str], dtypes: Sequence[str]
    ) -> None:
        self.fed = list(fed)
        bindings: dict[str, list[Binding]] = {
            name: [name] if name in self.fed else [_constant(item) for item in _items(value)]
            for name, value in inputs.items()
        }
        outputs = [
            NamedType(f"output_{index}", TensorType(DataType[dtype.upper()], None))
            for index, dtype in enumerate(dtypes)
        ]
        block = Block([], [output.name for output in outputs], [Operation(op_type, "op", bindings, outputs)])
        self.types = {name: _type(np.asarray(inputs[name])) for name in self.fed}
        arguments = [NamedType(name, TensorType(declared.dtype, None)) for name, declared in self.types.items()]
        function = Function("main", arguments, OPSETS[ios], block)
        self.plan = FunctionPlan(function, rounds_to_half=True, seed=0, subject=op_type)

    def run(self, *feeds: Any) -> list[Any]:
        held = [
            hold(np.asarray(feed), self.types[name].dtype, rounds=False)
            for name, feed in zip(self.fed, feeds, strict=True)
        ]
        return self.plan.run(held)


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _constant(value: Any) -> Value:
    if isinstance(value, str):
        return Value(TensorType(DataType.STRING, ()), lambda: value)
    array = np.asarray(value)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype == np.int64:
        array = array.astype(np.int32)
    return Value(_type(array), lambda: array)


def _type(array: np.ndarray) -> TensorType:
    return TensorType(DataType[array.dtype.name.upper()], array.shape)


@pytest.fixture
def one_operation() -> type[OneOperation]:
    return OneOperation


@pytest.fixture
def run_op() -> Callable[..., Any]:
    """Runs one operation: a tuple is a variadic input; returns the output, or a list of several."""

    def run(
        op_type: str, *, ios: int = 15, fed: Sequence[str] = ("x",), dtypes: Sequence[str] = ("float32",), **inputs: Any
    ) -> Any:
        results = OneOperation(op_type, inputs, ios=ios, fed=fed, dtypes=dtypes).run(*(inputs[name] for name in fed))
        return results[0] if len(results) == 1 else results

    return run

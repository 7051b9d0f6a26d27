"""Plans a function once and executes it any number of times.

Planning resolves every name to a slot of one flat frame (nested blocks share it), looks up all kernels, separates
constant inputs from results of other operations, and notes after which operation each result is no longer needed.
Constants, and the results of ``constexpr_`` operations, are read when an operation first needs them: loading stays
quick, and unused constants cost nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgekit.errors import InternalError, OpGap, UnsupportedOpsError
from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.precision import HELD_TYPES, IN_PLACE_FROM, hold
from edgekit_mlruntime.program import (
    Array,
    Binding,
    Block,
    Function,
    ListType,
    NamedType,
    Operation,
    TensorType,
    Value,
    ValueType,
)
from edgekit_mlruntime.registry import IOS_OF_OPSET, Call, Kernel, Parameter, find_kernel

MISFITS = (
    "could not be broadcast",
    "mismatch in its core dimension",
    "must match exactly",
    "negative dimensions are not allowed",
)
"""Parts of NumPy's messages about shapes that do not fit each other, or are none: open sizes may get any number."""


class Constant:
    """A value that never changes, computed on first access."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = make
        self._value: Any = None

    @property
    def value(self) -> Any:
        """The value, as kernels see it."""
        if self._make is not None:
            self._value = self._make()
            self._make = None
        return self._value


def _output(results: Constant, index: int) -> Any:
    """Returns output number ``index`` of an operation that was computed as a constant."""
    return results.value[index]


Source = int | Constant
"""Where a value comes from: a slot of the frame, or a constant."""


@dataclass
class _Argument:
    """An input of a step."""

    name: str
    sources: Sequence[Source]
    parameter: Parameter

    @property
    def is_constant(self) -> bool:
        return all(isinstance(source, Constant) for source in self.sources)

    def read(self, frame: Sequence[Any]) -> Any:
        """The value to pass to the kernel."""
        values = [source.value if isinstance(source, Constant) else frame[source] for source in self.sources]
        if self.parameter.variadic:
            return values
        convert = self.parameter.convert
        return values[0] if convert is None else convert(values[0])


class Step:
    """One operation, ready to be executed."""

    def __init__(self, call: Call, kernel: Kernel, arguments: Sequence[_Argument], output_slots: Sequence[int]) -> None:
        self.call = call
        self.arguments = arguments
        self.output_slots = output_slots
        self.frees: Sequence[int] = ()
        self.blocks: list[BlockPlan] = []
        self._function = kernel.function
        self._rounds = call.rounds_to_half and not kernel.raw
        self._constants: dict[str, Any] | None = None
        variables = [argument for argument in arguments if not argument.is_constant]
        self._read_at_once = [
            (argument.name, source, argument.parameter.convert)
            for argument in variables
            for source in argument.sources
            if isinstance(source, int) and not argument.parameter.variadic
        ]
        self._variadic = [argument for argument in variables if argument.parameter.variadic]

    def compute(self, frame: Sequence[Any]) -> list[Any]:
        """Run the kernel.

        Returns:
            The outputs as they are held.

        Raises:
            InternalError: The kernel's result does not have the declared type.
        """
        return self.evaluate(self.inputs(frame))

    def inputs(self, frame: Sequence[Any]) -> dict[str, Any]:
        """Returns the values that the kernel is called with, by the operation's input names."""
        if self._constants is None:
            self._constants = {
                argument.name: argument.read(frame) for argument in self.arguments if argument.is_constant
            }
        inputs = dict(self._constants)
        for name, slot, convert in self._read_at_once:
            value = frame[slot]
            inputs[name] = value if convert is None else convert(value)
        for argument in self._variadic:
            inputs[argument.name] = argument.read(frame)
        return inputs

    def evaluate(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Run the kernel on the given inputs; returns and raises as :meth:`compute` does."""
        try:
            result = self._function(self.call, **inputs)
        except Exception as error:
            if isinstance(error, ValueError) and any(text in str(error) for text in MISFITS):
                raise self._misfit("the inputs do not fit each other", inputs) from error
            if isinstance(error, IndexError | ValueError) and _lacks_elements(inputs):
                message = "an input is empty at these sizes, and Core ML has no tensors without elements"
                raise self._misfit(message, inputs) from error
            error.add_note(f"in operation {self.call.name!r} ({self.call.op_type})")
            raise
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        declared = self.call.outputs
        if len(results) != len(declared):
            raise self._mismatch(f"{len(declared)} outputs", len(results))
        return [self._held(value, kind, inputs) for value, kind in zip(results, declared, strict=True)]

    def _held(self, value: Any, declared: ValueType, inputs: Mapping[str, Any]) -> Any:
        """A kernel's result in the form in which values of the declared type are held."""
        if not isinstance(declared, TensorType) or isinstance(value, str):
            return value
        is_large = self._rounds and isinstance(value, np.ndarray) and value.size > IN_PLACE_FROM
        in_place = is_large and _is_fresh(value, inputs)
        array = hold(value, declared.dtype, rounds=self._rounds, in_place=in_place)
        shape = declared.shape
        if shape is not None and array.shape != shape and not _fits(array.shape, shape):
            if not array.size:
                message = "the result is empty at these sizes, and Core ML has no tensors without elements"
                raise ExecutionError(message, operation=self.call.name, expected=shape, found=array.shape)
            raise self._mismatch(f"shape {shape}", f"shape {array.shape}")
        return array

    def _misfit(self, message: str, inputs: Mapping[str, Any]) -> ExecutionError:
        named = (
            (name, each) for name, value in inputs.items() for each in (value if isinstance(value, list) else [value])
        )
        shapes = [f"{name} {value.shape}" for name, value in named if isinstance(value, np.ndarray)]
        return ExecutionError(message, operation=self.call.name, found=", ".join(shapes))

    def _mismatch(self, expected: object, found: object) -> InternalError:
        return InternalError(
            f"the result of {self.call.op_type} does not have the type that the program declares",
            subject=self.call.name,
            expected=expected,
            found=found,
        )


def _lacks_elements(inputs: Mapping[str, Any]) -> bool:
    return any(isinstance(value, np.ndarray) and not value.size for value in inputs.values())


def _fits(found: Sequence[int], declared: Sequence[int | None]) -> bool:
    """Whether a shape is as declared; a loop, because ``all`` would cost small steps of long programs more time."""
    if len(found) != len(declared):
        return False
    for got, want in zip(found, declared, strict=True):  # noqa: SIM110
        if want is not None and want != got:
            return False
    return True


def _is_fresh(array: Array, inputs: Mapping[str, Any]) -> bool:
    """Whether an array is neither an input nor a view of another array, so that it can be changed in place."""
    return array.flags.owndata and not any(
        array is value or (isinstance(value, list) and any(array is item for item in value))
        for value in inputs.values()
    )


Observer = Callable[[Step, Sequence[Any], list[Any]], None]
"""Called with a step that was executed, the frame that the step read from, and its outputs.

An observer may replace items in the list of outputs.
"""


@dataclass
class BlockPlan:
    """A block, ready to be executed."""

    input_slots: list[int]
    steps: list[Step] = field(default_factory=list)
    outputs: list[Source] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    """Slots that the block or its nested blocks read; in the finished plan, only those of enclosing blocks."""


class FunctionPlan:
    """A function, ready to be executed; supports one run at a time.

    Args:
        function: The function.
        rounds_to_half: Whether float16 values are rounded; False for ``float32`` mode.
        seed: Seed of the random operations that specify none.
        subject: What error messages name as their subject: the package.

    Raises:
        UnsupportedOpsError: The function has operations without a kernel; the error lists all of them.
    """

    def __init__(self, function: Function, *, rounds_to_half: bool, seed: int, subject: object) -> None:
        # The kernel modules register their kernels when they are imported.
        import edgekit_mlruntime.kernels  # noqa: F401

        self.random = np.random.default_rng(seed)
        self._planner = _Planner(self, function, rounds_to_half)
        self._block = self._planner.plan()
        if self._planner.gaps:
            raise UnsupportedOpsError(self._planner.gaps, subject=subject)
        self._blocks = self._planner.nested
        self._frame: list[Any] = []
        self._observer: Observer | None = None

    def run(self, arguments: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Execute the function; arguments and returned outputs are in the form in which values are held.

        Args:
            arguments: The function's inputs.
            observer: Called after every step with the step, the frame and the step's outputs.
        """
        self._frame = [None] * self._planner.slot_count
        self._observer = observer
        try:
            with np.errstate(all="ignore"):
                return self._execute(self._block, arguments)
        finally:
            self._frame = []
            self._observer = None

    def run_block(self, call: Call, index: int, arguments: Sequence[Any]) -> list[Any]:
        """Execute a nested block of an operation that is being executed."""
        return self._execute(self._blocks[id(call)][index], arguments)

    def _execute(self, block: BlockPlan, arguments: Sequence[Any]) -> list[Any]:
        frame = self._frame
        for slot, value in zip(block.input_slots, arguments, strict=True):
            frame[slot] = value
        for step in block.steps:
            results = step.compute(frame)
            if self._observer is not None:
                self._observer(step, frame, results)
            for slot, value in zip(step.output_slots, results, strict=True):
                frame[slot] = value
            for slot in step.frees:
                frame[slot] = None
        return [source.value if isinstance(source, Constant) else frame[source] for source in block.outputs]


class _Planner:
    """Builds the plan of one function."""

    def __init__(self, context: FunctionPlan, function: Function, rounds_to_half: bool) -> None:
        self._context = context
        self._function = function
        self._rounds = rounds_to_half
        self._opset = IOS_OF_OPSET.get(function.opset, 0)
        self.slot_count = 0
        self.gaps: list[OpGap] = []
        self.nested: dict[int, list[BlockPlan]] = {}

    def plan(self) -> BlockPlan:
        """The plan of the function's block."""
        if not self._opset:
            self.gaps.append(
                OpGap(
                    op_type=self._function.opset, node=self._function.name, reason="an operator set that is not known"
                )
            )
        return self._block(self._function.block, self._function.inputs, {}, {})

    def _block(
        self,
        block: Block,
        inputs: Sequence[NamedType],
        outer: Mapping[str, Source],
        outer_types: Mapping[str, ValueType],
    ) -> BlockPlan:
        scope, types = dict(outer), dict(outer_types)
        plan = BlockPlan([self._new_slot() for _ in inputs])
        for slot, declared in zip(plan.input_slots, inputs, strict=True):
            scope[declared.name] = slot
            types[declared.name] = declared.type
        for operation in block.operations:
            self._operation(operation, plan, scope, types)
        plan.outputs = [scope.get(name, -1) for name in block.outputs]
        plan.used.update(source for source in plan.outputs if isinstance(source, int))
        own = set(plan.input_slots).union(*(step.output_slots for step in plan.steps))
        self._note_last_uses(plan, own)
        plan.used -= own
        return plan

    def _note_last_uses(self, plan: BlockPlan, own: set[int]) -> None:
        """Note at each step which of the block's own slots no later step needs."""
        alive = {source for source in plan.outputs if isinstance(source, int)}
        for step in reversed(plan.steps):
            touched = set(step.output_slots)
            for argument in step.arguments:
                touched.update(source for source in argument.sources if isinstance(source, int))
            for block in step.blocks:
                touched |= block.used
            step.frees = sorted((touched & own) - alive)
            alive |= touched

    def _new_slot(self) -> int:
        self.slot_count += 1
        return self.slot_count - 1

    def _operation(
        self, operation: Operation, plan: BlockPlan, scope: dict[str, Source], types: dict[str, ValueType]
    ) -> None:
        """Plan one operation and enter its outputs into the scope."""
        if operation.type == "const":
            (output,) = operation.outputs
            scope[output.name] = self._constant(operation.attributes["val"])
            types[output.name] = output.type
            return
        step = self._step(operation, scope, types)
        if step is not None and operation.type.startswith("constexpr_"):
            results = Constant(lambda: step.compute(()))
            for index, output in enumerate(operation.outputs):
                scope[output.name] = Constant(functools.partial(_output, results, index))
                types[output.name] = output.type
            return
        slots = step.output_slots if step is not None else [self._new_slot() for _ in operation.outputs]
        if step is not None:
            plan.steps.append(step)
            for argument in step.arguments:
                plan.used.update(source for source in argument.sources if isinstance(source, int))
            for block in step.blocks:
                plan.used |= block.used
        for output, slot in zip(operation.outputs, slots, strict=True):
            scope[output.name] = slot
            types[output.name] = output.type

    def _constant(self, value: Value) -> Constant:
        """A constant of the program, in the form in which values are held."""
        declared = value.type
        if not isinstance(declared, TensorType):
            return Constant(value.read)

        def make() -> Any:
            content = value.read()
            return content if isinstance(content, str) else hold(content, declared.dtype, rounds=False)

        return Constant(make)

    def _step(self, operation: Operation, scope: Mapping[str, Source], types: Mapping[str, ValueType]) -> Step | None:
        """Returns the step of an operation, or None after noting a gap if the operation cannot be executed."""
        inputs: dict[str, Sequence[Binding]] = dict(operation.inputs)
        inputs.update({name: [value] for name, value in operation.attributes.items()})
        kernel = find_kernel(operation.type, self._opset)
        sources = {
            name: [self._constant(binding) if isinstance(binding, Value) else scope[binding] for binding in bindings]
            for name, bindings in inputs.items()
        }
        input_types = {
            name: [binding.type if isinstance(binding, Value) else types[binding] for binding in bindings]
            for name, bindings in inputs.items()
        }
        declared = [output.type for output in operation.outputs]
        # Nested blocks are planned even under an operation that is lacking: all gaps are to be reported.
        blocks = [self._block(block, block.inputs, scope, types) for block in operation.blocks]
        problem = self._problem(kernel, input_types, declared)
        if problem or kernel is None:
            self.gaps.append(OpGap(op_type=operation.type, node=operation.name, reason=problem))
            return None
        arguments = [_Argument(name, found, kernel.parameters[name]) for name, found in sources.items()]
        call = Call(
            op_type=operation.type,
            name=operation.name,
            opset=self._opset,
            inputs=input_types,
            outputs=declared,
            constant_inputs=frozenset(argument.name for argument in arguments if argument.is_constant),
            rounds_to_half=self._rounds,
            context=self._context,
        )
        step = Step(call, kernel, arguments, [self._new_slot() for _ in declared])
        step.blocks = blocks
        if blocks:
            self.nested[id(call)] = blocks
        return step

    def _problem(
        self, kernel: Kernel | None, inputs: Mapping[str, Sequence[ValueType]], outputs: Sequence[ValueType]
    ) -> str:
        """Returns why an operation cannot be executed, or an empty string if it can."""
        if kernel is None:
            return f"the runtime has no kernel for it under {self._function.opset}"
        unknown = sorted(inputs.keys() - kernel.parameters.keys())
        if unknown:
            return f"input not known to the runtime: {', '.join(unknown)}"
        missing = [name for name, parameter in kernel.parameters.items() if parameter.required and not inputs.get(name)]
        if missing:
            return f"input missing: {', '.join(missing)}"
        declared = [*outputs, *(kind for kinds in inputs.values() for kind in kinds)]
        for kind in declared:
            tensor = kind.element if isinstance(kind, ListType) else kind
            if isinstance(tensor, TensorType) and tensor.dtype not in HELD_TYPES:
                return f"values of type {tensor.dtype.name.lower()} cannot be computed with"
        return ""

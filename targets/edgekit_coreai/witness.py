"""Checks packages built for Core ML with Apple's runtime: each is translated to Core AI and executed there.

The results are a second, independent check beside the reference runtime's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgekit.files.atomic import temporary_folder
from edgekit.target import Runner
from edgekit.witness import Parting, Witness
from edgekit_coreai.conversion import SUFFIX
from edgekit_coreai.process import shared
from edgekit_coreai.runner import load
from edgekit_mlprogram.sequence import SequenceRunner
from edgekit_mlruntime.executor import Step
from edgekit_mlruntime.package import read_package
from edgekit_mlruntime.program import DataType, Function, Operation, TensorType
from edgekit_mlruntime.runner import Runner as ReferenceRunner

NEAR_DB = {DataType.FLOAT32: 60.0, DataType.FLOAT16: 40.0}
"""Least SQNR, in decibels, at which an operation's values count as equal, by the values' element type."""


class CoreAIWitness(Witness):
    """Executes ML Programs with Apple's Core AI runtime."""

    name: ClassVar[str] = "coreai"
    contract_version = 2
    targets: ClassVar[frozenset[str]] = frozenset({"coreml"})

    def load(self, main: Path) -> Runner:
        """Returns a runner that executes the translated package with Apple's runtime."""
        runner = load(main)
        return SequenceRunner(runner) if runner.has_states else runner

    def parting(self, main: Path, feeds: Mapping[str, np.ndarray]) -> Parting | None:
        """Returns the first operation whose values differ from the reference runtime's, or None if none does."""
        program = read_package(main)
        function = program.functions[program.default_function]
        operations = [operation for operation in function.block.operations if _shows(operation)]
        ours = _reference_values(main, feeds)
        theirs = _values(main, function, operations, feeds)
        for operation in operations:
            for output in operation.outputs:
                found = _difference(ours[output.name], theirs[output.name])
                if found is not None:
                    return Parting(operation.name, operation.type, None if np.isnan(found) else found)
        return None


def _shows(operation: Operation) -> bool:
    """Whether an operation computes numeric tensors at run time."""
    is_constant = operation.type == "const" or operation.type.startswith("constexpr_")
    kinds = [output.type for output in operation.outputs]
    return not is_constant and all(isinstance(kind, TensorType) and kind.dtype is not DataType.STRING for kind in kinds)


def _reference_values(main: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values of all operations as the reference runtime computes them, by native name."""
    program = read_package(main)
    made = {
        operation.name: [output.name for output in operation.outputs]
        for operation in program.functions[program.default_function].block.operations
    }
    values: dict[str, np.ndarray] = {}

    def observe(step: Step, _frame: Sequence[Any], results: Sequence[Any]) -> None:
        for name, value in zip(made.get(step.call.name, ()), results, strict=False):
            values[name] = np.array(value)

    ReferenceRunner(program, subject=main).run(feeds, observer=observe)
    return values


def _values(
    main: Path, function: Function, operations: Sequence[Operation], feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The values of the given operations as Apple's runtime computes them, by native name."""
    names = [output.name for operation in operations for output in operation.outputs]
    process = shared()
    native = ReferenceRunner(read_package(main), subject=main).native_feeds(feeds)
    with temporary_folder() as folder:
        out = folder / f"model{SUFFIX}"
        process.ask(main, "expose", main.resolve(), names, out)
        number, described = process.ask(main, "open", out)
        known = {name for name, _, _ in described["inputs"]}
        kinds = {item.name: item.type for item in function.inputs if isinstance(item.type, TensorType)}
        fed = {name: array.astype(kinds[name].dtype.numpy) for name, array in native.items() if name in known}
        results: dict[str, np.ndarray]
        results, _ = process.ask(main, "run", number, fed, {})
        process.ask(main, "close", number)
    return results


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float | None:
    """Returns the SQNR in decibels if the values differ too much, or None if they are near enough.

    For values that are not floats or whose shapes differ, a difference is reported as NaN.
    """
    if ours.shape != theirs.shape:
        return float("nan")
    if theirs.dtype.kind != "f":
        return None if np.array_equal(ours, theirs) else float("nan")
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return None
    noise, signal = np.square(np.where(same, 0, a - b)).sum(), np.square(a[np.isfinite(a)]).sum()
    sqnr = 10 * np.log10(signal / noise) if noise > 0 and signal > 0 else float("-inf")
    near = NEAR_DB[DataType.FLOAT16 if theirs.dtype == np.float16 else DataType.FLOAT32]
    return None if sqnr >= near else float(sqnr)

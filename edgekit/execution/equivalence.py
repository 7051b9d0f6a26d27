"""Tells whether a changed model still computes what it computed before, by executing both on the same inputs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.data.battery import KINDS, battery_inputs
from edgekit.data.inputs import index_limits
from edgekit.dimensions import trials
from edgekit.errors import InputError
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.rounding import perturbed_inputs, perturbed_weights
from edgekit.graph.cost import cost
from edgekit.graph.shape_request import at_sizes
from edgekit.model import Arrays, Dim, Model, ValueSpec

TRIAL_SIZES = (8, 32, 64, 224, 512, 16_000, 1)
"""Sizes to try for dimensions that are dynamic, until one runs; the first axis of every input gets 1."""

TRIAL_ELEMENTS = 1 << 24
"""Elements that an input may have in a trial: a second of sound is worth it, a square picture of that side is not."""

HEAVY_MACS = 1 << 30
"""Models that multiply more often than this are held against the first of the kinds alone."""
HEAVY_KINDS = 4
QUICK_KINDS = 2

SENSITIVE = {"Log": (0,), "Sqrt": (0,), "Div": (1,), "Mod": (0, 1), "Pow": (0, 1), "Reciprocal": (0,)}
"""Operators that make much of a small difference, and the inputs where they do."""

PERTURBATIONS = 3
"""How often inputs and weights are moved to neighbouring numbers, to see what rounding does."""

ROUNDING_FACTOR = 8.0
"""Another order of arithmetic may change a value by so many times what those moves change."""

_EACH = 32
"""Units in the last place of the largest number that any number may differ by, where each is measured by itself."""

_WATCHED_BYTES = 64 << 20
"""Values that feed sensitive operators are compared up to this many bytes."""


class Equivalence:
    """A model's outputs on a battery of inputs, which later versions of it are held against.

    The battery is :data:`edgekit.data.battery.KINDS`. Beside the outputs, every value is compared that feeds an
    operator of :data:`SENSITIVE` in the model as it was and that the changed one still makes. Where something differs,
    inputs and weights of the model as it was are moved to neighbouring numbers: what that changes, another order of
    arithmetic may change as well.

    Args:
        model: The model as it should stay. Its open dimensions get their default and their greatest sizes in turns,
            other dynamic ones the first of the `TRIAL_SIZES` that runs.

    Raises:
        NotRunnableError: ONNX Runtime cannot execute the model, so nothing can be compared.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._limits = index_limits(model)
        self._watched = _watched(model)
        self._reference = Reference(_returning(model, self._watched))
        self._expected: dict[str, Arrays | None] = {}
        self._perturbed: dict[str, list[Arrays]] = {}
        self._kinds = KINDS[:HEAVY_KINDS] if cost(model).macs > HEAVY_MACS else KINDS
        failure: NotRunnableError | None = None
        sizes = trials(model.open_dims)
        ways = (_static_specs(at_sizes(model.inputs, chosen)) for chosen in (sizes[0], sizes[-1]))
        for specs in zip(*ways, strict=True):
            self._specs = specs
            try:
                for kind in KINDS[: len(specs)]:
                    self._expected[kind] = self._reference.run(self._feeds(kind))
            except InputError as error:
                raise NotRunnableError(str(error), None) from error
            except NotRunnableError as error:
                failure = failure or error
                continue
            return
        raise failure or NotRunnableError("an input has no known rank", None)

    def difference(self, changed: Model, *, quick: bool = False) -> str | None:
        """What ``changed`` computes differently, in a few words; None where it computes the same.

        Kinds of inputs that the model as it was does not run on tell nothing.

        Args:
            changed: The model in another form.
            quick: Try the first of the kinds alone.
        """
        made = {value.name for node in changed.graph for value in node.outputs}
        watched = [name for name in self._watched if name in made]
        outputs = [value.name for value in self._model.graph.outputs if value.name is not None]
        try:
            reference = Reference(_returning(changed, watched))
            for kind in self._kinds[: QUICK_KINDS if quick else None]:
                expected = self._outputs(kind)
                if expected is None:
                    continue
                found = reference.run(self._feeds(kind))
                for name in (*watched, *outputs):
                    what = f"value {name}" if name in watched else f"output {name}"
                    difference = compare(what, expected[name], found.get(name), each=name in watched)
                    if difference is not None and not self._is_rounding(kind, name, found.get(name)):
                        return f"{difference}, on {kind} inputs"
        except NotRunnableError as error:
            return str(error)
        return None

    def _feeds(self, kind: str) -> Arrays:
        return battery_inputs(self._specs[KINDS.index(kind) % len(self._specs)], kind, self._limits)

    def _outputs(self, kind: str) -> Arrays | None:
        """What the model as it was computes; None where it does not run on such inputs."""
        if kind not in self._expected:
            try:
                self._expected[kind] = self._reference.run(self._feeds(kind))
            except NotRunnableError:
                self._expected[kind] = None
        return self._expected[kind]

    def _is_rounding(self, kind: str, name: str, found: Any) -> bool:
        """Whether the value differs no more than rounding allows, in the model as it was."""
        expected = self._outputs(kind)
        if kind not in self._perturbed:
            self._perturbed[kind] = []
            for seed in range(PERTURBATIONS):
                try:
                    reference = Reference(_returning(perturbed_weights(self._model, seed), self._watched))
                    self._perturbed[kind].append(reference.run(perturbed_inputs(self._feeds(kind), seed)))
                except NotRunnableError:
                    continue
        assert expected is not None
        return is_rounding(expected[name], found, [outputs[name] for outputs in self._perturbed[kind]])


def is_rounding(expected: Any, found: Any, perturbed: Sequence[Any]) -> bool:
    """Whether an output differs no more than :data:`ROUNDING_FACTOR` times as much as perturbed ones do.

    Args:
        expected: The output of the model as it was.
        found: That of the changed one.
        perturbed: Those of the model as it was, with inputs and weights moved to neighbouring numbers.
    """
    if not isinstance(expected, np.ndarray) or not isinstance(found, np.ndarray) or expected.dtype != found.dtype:
        return False
    if expected.shape != found.shape:  # how many boxes are left, say
        return len(expected.shape) == len(found.shape) and any(other.shape != expected.shape for other in perturbed)
    distances = [_distances(expected, other) for other in perturbed if other.shape == expected.shape]
    if not distances:
        return False
    flipped, error = _distances(expected, found)
    return all(
        of_found <= ROUNDING_FACTOR * max(of_perturbed)
        for of_found, of_perturbed in zip((flipped, error), zip(*distances, strict=True), strict=True)
    )


def _distances(expected: np.ndarray, other: np.ndarray) -> tuple[int, float]:
    """How many places are other numbers altogether, or no longer finite, and by how much the others differ."""
    if expected.dtype.kind not in "fc":
        return int(np.count_nonzero(expected != other)), 0.0
    finite = np.isfinite(expected) & np.isfinite(other)
    flipped = np.count_nonzero(~finite & ~((expected == other) | (np.isnan(expected) & np.isnan(other))))
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    return int(flipped), float(np.max(np.abs(expected[finite].astype(wide) - other[finite]), initial=0.0))


def compare(name: str, expected: Any, found: Any, *, each: bool = False) -> str | None:
    """What differs between two outputs, in a few words; None where nothing does.

    Floating-point values may differ by the square root of their type's epsilon, relative to the largest value: half of
    the digits, which is far more than reordered arithmetic takes and far less than a wrong rewrite does.

    Args:
        name: What to call it.
        expected: An array, or a list of arrays where the output is a sequence.
        found: The same of the changed model; None where it has no such output.
        each: Measure every number's difference by the number itself, beyond a few units in the last place of the
            largest one.
    """
    if found is None:
        return f"{name} is gone"
    if isinstance(expected, Sequence) and not isinstance(expected, str):  # ONNX sequences are lists
        if not isinstance(found, Sequence) or len(found) != len(expected):
            return f"{name} has another length"
        parts = (compare(f"{name}[{i}]", *pair) for i, pair in enumerate(zip(expected, found, strict=True)))
        return next((part for part in parts if part), None)
    expected, found = np.asarray(expected), np.asarray(found)
    if (expected.shape, expected.dtype) != (found.shape, found.dtype):
        return f"{name} is {found.dtype}{list(found.shape)}, was {expected.dtype}{list(expected.shape)}"
    if not np.issubdtype(expected.dtype, np.inexact):
        return None if np.array_equal(expected, found) else f"{name} has other values"
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return f"{name} has infinities or NaN at other places"
    if not finite.any():
        return None
    epsilon = float(np.finfo(expected.dtype).eps)
    allowed = epsilon**0.5
    with np.errstate(invalid="ignore"):  # what is not finite in `found` alone gives NaN, which is no small error
        errors = np.abs(expected[finite].astype(np.complex128) - found[finite])
    error, largest = float(np.max(errors)), float(np.max(np.abs(expected[finite])))
    if error <= _EACH * epsilon * largest or (not each and error <= allowed * largest):
        return None
    if each and np.all(errors <= allowed * np.abs(expected[finite])):
        return None
    return f"{name} differs by {error:.3g}, its largest value is {largest:.3g}"


def _watched(model: Model) -> list[str]:
    """The values that feed a sensitive operator and come from a node, as many as may be compared."""
    found: dict[str, int] = {}
    returned = {value.name for value in model.graph.outputs}
    for node in model.graph:
        for place in SENSITIVE.get(node.op_type, ()) if not node.domain else ():
            value = node.inputs[place] if place < len(node.inputs) else None
            if value is None or value.name is None or value.producer() is None or value.name in returned:
                continue
            sizes = [dim if isinstance(dim, int) else TRIAL_SIZES[2] for dim in value.shape or (TRIAL_SIZES[-2],)]
            found[value.name] = 8 * math.prod(sizes)
    watched, total = [], 0
    for name, size in sorted(found.items(), key=lambda item: item[1]):
        total += size
        if total <= _WATCHED_BYTES:
            watched.append(name)
    return watched


def _returning(model: Model, names: Collection[str]) -> Model:
    """The model with further values as outputs."""
    if not names:
        return model
    graph_model = model.graph_model.clone()
    returned = {value.name for value in graph_model.graph.outputs}
    made = {value.name: value for node in graph_model.graph for value in node.outputs}
    graph_model.graph.outputs.extend(made[name] for name in names if name not in returned)
    return model.with_graph(graph_model)


def _static_specs(specs: Sequence[ValueSpec]) -> Iterator[list[ValueSpec]]:
    """The inputs with numbers for all dimensions, in every way that is worth a try."""
    if any(spec.shape is None for spec in specs):
        return
    if all(spec.is_static for spec in specs):
        yield list(specs)
        return
    for size in TRIAL_SIZES:
        sizes: dict[str, int] = {}
        for spec in specs:
            for axis, dim in enumerate(spec.shape or ()):
                if isinstance(dim, str):
                    sizes[dim] = 1 if axis == 0 or sizes.get(dim) == 1 else size
        shapes = [_sized(spec.shape or (), size, sizes) for spec in specs]
        if all(math.prod(shape) <= TRIAL_ELEMENTS for shape in shapes):
            yield [replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True)]


def _sized(shape: Sequence[Dim], size: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_size(dim, axis, size, sizes) for axis, dim in enumerate(shape))


def _size(dim: Dim, axis: int, size: int, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim is None:
        return 1 if axis == 0 else size
    try:
        value = ir.SymbolicDim(dim).evaluate(sizes)
    except ValueError:  # the name is no expression
        return sizes[dim]
    return value if isinstance(value, int) else sizes[dim]

"""Tells whether a changed model still computes what it computed before, by executing both on the same inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from edgekit.data.battery import KINDS, battery_inputs
from edgekit.data.limits import Limits, index_limits, with_sampled_integers
from edgekit.errors import InputError
from edgekit.execution.exact_products import with_blocks_in_floats
from edgekit.execution.inner_values import InnerValues, MeasuredShapes, returning
from edgekit.execution.local_proof import UnprovenError, local_difference
from edgekit.execution.moved_outputs import MovedOutputs
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.tolerance import SENSITIVE, compare
from edgekit.execution.value_numbers import is_same_by_structure
from edgekit.features.dimensions import defaults, last, trials
from edgekit.graph.cost import cost
from edgekit.graph.nodes import input_at
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.graph.sizes.shapes import ContradictionError, fold_shapes, infer_shapes
from edgekit.model import Arrays, Dim, Model, ValueSpec

TRIAL_SIZES = (8, 32, 64, 224, 512, 1, 16_000)
"""Sizes to try for dimensions that are dynamic, until one runs; the first axis of every input gets 1, and where that
does not run and first axes have several names (a graph's nodes and its edges) or nothing else is dynamic (a sequence
that comes first and is split), what the others get."""

TRIAL_ELEMENTS = 1 << 24
"""Elements that an input may have in a trial: a second of sound is worth it, a square picture of that side is not."""
TRIAL_ELEMENTS_INSIDE = 1 << 26
"""Elements that a value of the graph may have in a trial, as far as shape inference tells: attention over a second of
sound has a number for every two of its samples."""

BATTERY_MACS = 1 << 31
"""The number of multiplications that all trials of a model may take together; `LEAST_KINDS` kinds are tried anyway."""
LEAST_KINDS = 3

_WATCHED_ELEMENTS = 8 << 20
"""Values that feed sensitive operators are compared up to this many numbers, the smallest first."""


class Equivalence:
    """A model's outputs on a battery of inputs, which later versions of it are held against.

    The battery is :data:`edgekit.data.battery.KINDS`. Beside the outputs, every value is compared that feeds an
    operator of :data:`SENSITIVE` in the model as it was and that the changed one still makes. Where something differs,
    inputs and weights of the model as it was are moved to neighbouring numbers: what that changes, another order of
    arithmetic may change as well.

    Args:
        model: The model as it should stay. Its open dimensions get their default and their greatest sizes in turns,
            other dynamic ones those of a sample, or the first of the `TRIAL_SIZES` that runs. Where it does not run on
            drawn integers, they are those of a sample.

    Raises:
        NotRunnableError: ONNX Runtime cannot execute the model, so nothing can be compared.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._limits: Limits = index_limits(model)
        self._watched = _watched(model)
        self._reference = Reference(with_blocks_in_floats(returning(model, self._watched)))
        self._expected: dict[str, Arrays | None] = {}
        self._moved: dict[tuple[str, bool], MovedOutputs] = {}
        self._kinds = KINDS[: max(LEAST_KINDS, BATTERY_MACS // (1 + cost(model).macs))]
        failure: NotRunnableError | None = None
        limits = [self._limits, *([with_sampled_integers(self._limits, model)] if model.sample_integers else [])]
        for specs, drawn_within in ((specs, each) for specs in trial_inputs(model) for each in limits):
            self._specs, self._limits = specs, drawn_within
            try:
                feeds = {kind: self._feeds(kind) for kind in KINDS[: len(specs)]}
            except InputError as error:
                raise NotRunnableError(str(error), None) from error
            try:
                self._expected |= {kind: self._reference.run(given) for kind, given in feeds.items()}
            except NotRunnableError as error:
                failure = failure or error
                continue
            return
        raise failure or NotRunnableError("an input has no known rank", None)

    @property
    def outputs(self) -> Arrays:
        """What the model as it should stay gives by name on the first kind of inputs; further values may be there."""
        outputs = self._outputs(KINDS[0])
        assert outputs is not None  # else it would not have come about
        return outputs

    def difference(self, changed: Model, *, steps: bool = False, earlier: Model | None = None) -> str | None:
        """What ``changed`` computes differently, in a few words; None where it computes the same.

        The nodes that changed are proven where they are (:mod:`edgekit.execution.local_proof`), then the whole model.

        Args:
            changed: A later form of the model.
            steps: Whether a few integers of 8 or 16 bits may be off by one, as those of a quantization are by another
                order of arithmetic. The model as a whole is not compared then: a network makes more of a step than of
                rounding.
            earlier: A form of the model that is known to compute the same: what changed since is proven where it is.
        """
        try:
            difference = self._local_difference(earlier or self._model, changed, steps=steps)
        except UnprovenError:
            return self.difference_of_whole(changed)
        return difference if steps or difference else self.difference_of_whole(changed, is_proven=True)

    def shapes(self, names: Sequence[str]) -> list[dict[str, tuple[int, ...]]]:
        """The shapes that values of the main graph have at each of :func:`trials`, by name.

        None at all where the model cannot be executed at one of the sizes.

        Args:
            names: The values.
        """
        choices = trials(self._model.open_dims)
        found = [shapes for _, shapes in self.shapes_where_it_runs(names, choices)]
        return found if len(found) == len(choices) else []

    def shapes_where_it_runs(
        self, names: Sequence[str], choices: Iterable[Mapping[str, int]]
    ) -> Iterator[tuple[Mapping[str, int], dict[str, tuple[int, ...]]]]:
        """Those sizes at which the model can be executed, each with the shapes of values of the main graph by name.

        Args:
            names: The values.
            choices: Sizes of the open dimensions.
        """
        try:
            measured = MeasuredShapes(self._model, names)
        except NotRunnableError:
            return
        for sizes in choices:
            specs = next(_static_specs(self._model, sizes), None)
            if specs is None:  # an input has no rank
                continue
            try:
                yield sizes, measured(battery_inputs(specs, KINDS[0], self._limits))
            except (InputError, NotRunnableError):
                continue

    def difference_since(self, earlier: Model, changed: Model) -> str | None:
        """What ``changed`` computes differently from an earlier form that is known to compute the same.

        Executes the nodes that changed alone; where that cannot be done, the whole models.

        Args:
            earlier: A form of the model.
            changed: A later one.
        """
        try:
            return self._local_difference(earlier, changed, steps=False)
        except UnprovenError:
            return self.difference_of_whole(changed)

    def _local_difference(self, earlier: Model, changed: Model, *, steps: bool) -> str | None:
        return local_difference(earlier, changed, InnerValues(earlier, self._feeds(KINDS[0])), steps=steps)

    def difference_of_whole(self, changed: Model, *, is_proven: bool = False) -> str | None:
        """What ``changed`` computes differently as a whole, on the battery.

        Kinds of inputs that the model as it was does not run on tell nothing. Nothing is executed where the structure
        alone shows that the two are the same.

        Args:
            changed: A later form of the model.
            is_proven: Whether the nodes that changed are proven by themselves. Inputs that are whole numbers are then
                moved to neighbouring ones as well: of a constant signal a transform by another order of arithmetic
                leaves rounding where there was exactly nothing, and a root makes much of it.
        """
        if is_same_by_structure(self._model, changed):
            return None
        in_both = _feeding_sensitive(changed)
        watched = [name for name in self._watched if name in in_both]
        inside = _made_otherwise(self._model, changed) if is_proven else []
        outputs = [value.name for value in self._model.graph.outputs if value.name is not None]
        try:
            reference = Reference(with_blocks_in_floats(returning(changed, watched)))
            for kind in self._kinds:
                expected = self._outputs(kind)
                if expected is None:
                    continue
                found = reference.run(self._feeds(kind))
                for name in (*watched, *outputs):
                    what = f"value {name}" if name in watched else f"output {name}"
                    difference = compare(what, expected[name], found.get(name), each=name in watched)
                    if difference is not None and not self._is_rounding(kind, name, found.get(name), is_proven, inside):
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

    def _is_rounding(self, kind: str, name: str, found: Any, is_proven: bool, inside: Sequence[str]) -> bool:
        """Whether the value differs no more than rounding allows, in the model as it was.

        Which of nearly equal numbers is the greatest may hang on the rounding of one node, which the nodes that replace
        it round otherwise, while no movement of an input reaches it.
        """
        expected = self._outputs(kind)
        assert expected is not None
        shown, feeds = returning(self._model, self._watched), self._feeds(kind)
        if (kind, is_proven) not in self._moved:
            self._moved[kind, is_proven] = MovedOutputs(shown, feeds, whole_too=is_proven)
        if self._moved[kind, is_proven].explain(name, expected[name], found):
            return True
        if not inside:
            return False
        return MovedOutputs(shown, feeds, whole_too=True, inside=inside).explain(name, expected[name], found)


def trial_inputs(model: Model) -> Iterator[tuple[list[ValueSpec], list[ValueSpec]]]:
    """The model's inputs with numbers for all dimensions, in every way that is worth a try until one runs.

    Returns:
        Pairs: open dimensions have their default sizes in the first, their last in the second; at last they have those
        of a sample in both, whose integers may fit no other sizes.
    """
    smaller, larger = (_static_specs(model, sizes(model.open_dims)) for sizes in (defaults, last))
    yield from zip(smaller, larger, strict=False)  # larger sizes may leave fewer ways
    in_sample = _specs_in_sample(model, model.inputs) if model.open_dims and model.sample_integers else None
    if in_sample is not None:
        yield in_sample, in_sample


def _made_otherwise(model: Model, changed: Model) -> list[str]:
    """The values of the main graph that another operator makes in the changed model."""
    kinds = {output.name: node.op_type for node in changed.graph for output in node.outputs}
    return [
        output.name
        for node in model.graph
        for output in node.outputs
        if output.name and kinds.get(output.name, node.op_type) != node.op_type
    ]


def _watched(model: Model) -> list[str]:
    """The values that feed a sensitive operator and come from a node, as many as may be compared."""
    watched, total = [], 0
    sizes = {name: _elements(value) for name, value in _feeding_sensitive(model).items()}
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        total += size
        if total <= _WATCHED_ELEMENTS:
            watched.append(name)
    return watched


def _feeding_sensitive(model: Model) -> dict[str, ir.Value]:
    """The values by name that a node makes and a sensitive operator reads, without the outputs."""
    found = {}
    for node in model.graph:
        for place in SENSITIVE.get(node.op_type, ()) if not node.domain else ():
            value = input_at(node, place)
            if value is not None and value.name and value.producer() is not None and not value.is_graph_output():
                found[value.name] = value
    return found


def _elements(value: ir.Value) -> int:
    """How many numbers a value has; a guess where its shape is not known."""
    return math.prod(dim if isinstance(dim, int) else TRIAL_SIZES[1] for dim in value.shape or TRIAL_SIZES[:3])


def _static_specs(model: Model, chosen: Mapping[str, int]) -> Iterator[list[ValueSpec]]:
    """The inputs with numbers for all dimensions, in every way that is worth a try; as in a sample first.

    Args:
        model: Its inputs are meant.
        chosen: The sizes of its open dimensions.
    """
    specs = at_sizes(model.inputs, chosen)
    if all(spec.is_static for spec in specs):
        yield list(specs)
        return
    in_sample = _specs_in_sample(model, specs)
    if in_sample is not None:
        yield in_sample
    if any(spec.shape is None for spec in specs):
        return
    firsts = {dim for spec in specs for dim in (spec.shape or ())[:1] if isinstance(dim, str)}
    is_alone = all(isinstance(dim, int) for spec in specs for dim in (spec.shape or ())[1:])
    for one_batch, size in itertools.product((True, False) if len(firsts) > 1 or is_alone else (True,), TRIAL_SIZES):
        sizes: dict[str, int] = {}
        for spec in specs:
            for axis, dim in enumerate(spec.shape or ()):
                if isinstance(dim, str):
                    sizes[dim] = 1 if one_batch and (axis == 0 or sizes.get(dim) == 1) else size
        shapes = [_sized(spec.shape or (), size, sizes) for spec in specs]
        tried = [replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True)]
        if all(math.prod(shape) <= TRIAL_ELEMENTS for shape in shapes) and (
            size == TRIAL_SIZES[0] or _most_elements_inside(model, tried) <= TRIAL_ELEMENTS_INSIDE
        ):
            yield tried


def _specs_in_sample(model: Model, specs: Sequence[ValueSpec]) -> list[ValueSpec] | None:
    """The inputs with the sizes of a sample for their dimensions; None where it has not all of them."""
    found = []
    for spec in specs:
        shape = model.sample_shapes.get(spec.name)
        if spec.is_static:
            found.append(spec)
        elif shape is not None and spec.takes_shape(shape):
            found.append(replace(spec, shape=shape))
        else:
            return None
    return found


def _most_elements_inside(model: Model, specs: Sequence[ValueSpec]) -> int:
    """How many elements the largest value has that a node makes of such inputs, as far as shape inference tells."""
    graph_model = model.graph_model.clone()
    values = {value.name: value for value in graph_model.graph.inputs}
    for spec in specs:
        values[spec.name].shape = ir.Shape(spec.shape or ())
    try:
        inferred = fold_shapes(infer_shapes(model.with_graph(graph_model), strict=False))
    except ContradictionError:
        return 0
    made = [value.shape for node in inferred.graph.all_nodes() for value in node.outputs]
    return max((math.prod(shape.numpy()) for shape in made if shape is not None and shape.is_static()), default=0)


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

"""Whether a changed model still computes what the original computes: both are executed on the same inputs."""

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
"""Sizes to try for dynamic dimensions, until the model runs. The first axis of every input gets 1. If no size runs, and
first axes have several names (a graph's nodes and its edges) or no other axis is dynamic (a sequence that comes first
and is split), first axes get these sizes, too."""

TRIAL_ELEMENTS = 1 << 24
"""Most elements of an input in a trial: enough for a second of sound, not for a square picture with sides that long."""
TRIAL_ELEMENTS_INSIDE = 1 << 26
"""Most elements of a value of the graph in a trial, as far as shape inference knows: attention over a second of sound
has a number for every pair of its samples."""

BATTERY_MACS = 1 << 31
"""Multiplications that all trials of a model may take together; at least `LEAST_KINDS` kinds are tried."""
LEAST_KINDS = 3

_WATCHED_ELEMENTS = 8 << 20
"""Numbers that the compared values which feed sensitive operators may have together; the smallest values come first."""


class Equivalence:
    """A model's outputs on a battery of inputs, which later versions of the model are compared with.

    The battery is :data:`edgekit.data.battery.KINDS`. Apart from the outputs, values are compared that feed an operator
    of :data:`SENSITIVE` in the original and that the changed model still computes. Where something differs, inputs and
    weights of the original are moved to neighboring numbers: another order of arithmetic may change what that changes.

    Args:
        model: The original. Its open dimensions get their default and their greatest sizes alternately, other dynamic
            dimensions the sizes of a sample, or the first of the `TRIAL_SIZES` that runs. If the model does not run on
            integers that are drawn, it gets those of a sample.

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
        """The original's outputs by name on the first kind of inputs, and the values that feed sensitive operators."""
        outputs = self._outputs(KINDS[0])
        assert outputs is not None  # otherwise the constructor raises an error
        return outputs

    def difference(self, changed: Model, *, steps: bool = False, earlier: Model | None = None) -> str | None:
        """In a few words, what ``changed`` computes differently; None if it computes the same.

        First the changed nodes are proven alone (:mod:`edgekit.execution.local_proof`), then the whole model.

        Args:
            changed: A later form of the model.
            steps: Whether some integers of 8 or 16 bits may be off by one, as another order of arithmetic leaves the
                results of quantization. If so, the whole model is not compared: a network magnifies a step far more
                than rounding.
            earlier: A form of the model that is known to compute the same: only changes since then are proven alone.
        """
        try:
            difference = self._local_difference(earlier or self._model, changed, steps=steps)
        except UnprovenError:
            return self.difference_of_whole(changed)
        return difference if steps or difference else self.difference_of_whole(changed, is_proven=True)

    def shapes(self, names: Sequence[str]) -> list[dict[str, tuple[int, ...]]]:
        """The shapes that values of the main graph have at each of :func:`trials`, by name.

        The list is empty if the model cannot be executed at one of the sizes.

        Args:
            names: The values.
        """
        choices = trials(self._model.open_dims)
        found = [shapes for _, shapes in self.shapes_where_it_runs(names, choices)]
        return found if len(found) == len(choices) else []

    def shapes_where_it_runs(
        self, names: Sequence[str], choices: Iterable[Mapping[str, int]]
    ) -> Iterator[tuple[Mapping[str, int], dict[str, tuple[int, ...]]]]:
        """The sizes at which the model can be executed, each with the shapes of values of the main graph by name.

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
        """In a few words, what ``changed`` computes differently from an earlier form; None if it computes the same.

        Executes only the nodes that changed; if they cannot be executed alone, the whole models.

        Args:
            earlier: A form of the model that is known to compute the same as the original.
            changed: A later form.
        """
        try:
            return self._local_difference(earlier, changed, steps=False)
        except UnprovenError:
            return self.difference_of_whole(changed)

    def _local_difference(self, earlier: Model, changed: Model, *, steps: bool) -> str | None:
        return local_difference(earlier, changed, InnerValues(earlier, self._feeds(KINDS[0])), steps=steps)

    def difference_of_whole(self, changed: Model, *, is_proven: bool = False) -> str | None:
        """In a few words, what ``changed`` computes differently as a whole on the battery; None if nothing.

        Kinds of inputs that the original does not run on are skipped. Nothing is executed if the structure alone shows
        that the two are the same.

        Args:
            changed: A later form of the model.
            is_proven: Whether the nodes that changed are proven alone. If so, inputs that are whole numbers are moved
                to neighboring numbers as well: another order of arithmetic in the transform of a constant signal leaves
                rounding errors in place of exact zeros, which a root magnifies.
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
        """The original's outputs on a kind of inputs, or None if it does not run on them."""
        if kind not in self._expected:
            try:
                self._expected[kind] = self._reference.run(self._feeds(kind))
            except NotRunnableError:
                self._expected[kind] = None
        return self._expected[kind]

    def _is_rounding(self, kind: str, name: str, found: Any, is_proven: bool, inside: Sequence[str]) -> bool:
        """Whether a value differs no more than rounding in the original allows.

        Which of several nearly equal numbers is the greatest may depend on the rounding of one node. The nodes that
        replace it may round differently where moved inputs change nothing, so the values ``inside`` are moved as well.
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
    """The model's inputs with numbers for all dimensions, in every way to try until the model runs.

    Returns:
        Pairs: open dimensions have their default sizes in the first, their last sizes in the second. In the last pair
        both have the sizes of a sample, because the sample's integers may fit no other sizes.
    """
    smaller, larger = (_static_specs(model, sizes(model.open_dims)) for sizes in (defaults, last))
    yield from zip(smaller, larger, strict=False)  # larger sizes may leave fewer ways
    in_sample = _specs_in_sample(model, model.inputs) if model.open_dims and model.sample_integers else None
    if in_sample is not None:
        yield in_sample, in_sample


def _made_otherwise(model: Model, changed: Model) -> list[str]:
    """The values of the main graph that another operator computes in the changed model."""
    kinds = {output.name: node.op_type for node in changed.graph for output in node.outputs}
    return [
        output.name
        for node in model.graph
        for output in node.outputs
        if output.name and kinds.get(output.name, node.op_type) != node.op_type
    ]


def _watched(model: Model) -> list[str]:
    """The values that feed a sensitive operator and come from a node, up to `_WATCHED_ELEMENTS` numbers together."""
    watched, total = [], 0
    sizes = {name: _elements(value) for name, value in _feeding_sensitive(model).items()}
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        total += size
        if total <= _WATCHED_ELEMENTS:
            watched.append(name)
    return watched


def _feeding_sensitive(model: Model) -> dict[str, ir.Value]:
    """The values, by name, that a node computes and a sensitive operator reads, without the outputs."""
    found = {}
    for node in model.graph:
        for place in SENSITIVE.get(node.op_type, ()) if not node.domain else ():
            value = input_at(node, place)
            if value is not None and value.name and value.producer() is not None and not value.is_graph_output():
                found[value.name] = value
    return found


def _elements(value: ir.Value) -> int:
    """How many numbers a value has; an estimate if its shape is not known."""
    return math.prod(dim if isinstance(dim, int) else TRIAL_SIZES[1] for dim in value.shape or TRIAL_SIZES[:3])


def _static_specs(model: Model, chosen: Mapping[str, int]) -> Iterator[list[ValueSpec]]:
    """The model's inputs with numbers for all dimensions, in every way to try, the sizes of a sample first.

    Args:
        model: The model.
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
    """The inputs with the sizes of a sample for their dimensions, or None if the sample does not have all of them."""
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
    """Elements of the largest value that a node computes from inputs of these shapes, as far as inference knows."""
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

"""Dimensions that samples tell apart: exporters call every free dimension ``N``, or give none of them a name."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgekit.features.dimensions import SizeRange, written
from edgekit.graph.sizes.shape_request import ShapeRequest, independent_dims, terms
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, ValueSpec

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of a sample's arrays by their names."""


@dataclass(frozen=True)
class RenamedDimension:
    """A dimension that gets a separate name, because it has none or shares it with one of other sizes."""

    input: str
    axis: int
    dimension: str | None
    """The dimension's name in the file; None if it has none."""
    name: str
    """The dimension's new name."""
    why: str = ""
    """How the samples show that the dimension has other sizes, in words."""

    def __str__(self) -> str:
        place = f"dimension {self.axis} of input {self.input!r} is called {self.name!r}"
        in_file = "it has no name in the file" if self.dimension is None else f"in the file {self.dimension!r}"
        return f"{place}, {in_file}{self.why and f': {self.why}'}"


def names_by_samples(
    inputs: Sequence[ValueSpec],
    samples: Sequence[Shapes],
    request: ShapeRequest | None = None,
    *,
    unnamed: bool = False,
) -> list[RenamedDimension]:
    """Returns the dimensions that need separate names, because their sizes in the samples differ.

    Dimensions of one name that are equal in every sample keep one name. If two of them are equal in some samples and
    differ in others, all dimensions of that name keep it, unless one input has both: exporters that trace with a square
    picture give both sides the same name.

    Args:
        inputs: The model's inputs.
        samples: The shapes of each sample's arrays.
        request: The requested sizes. A name with requested sizes is kept, unless sizes are requested for the new one,
            too.
        unnamed: Whether dimensions without a name get one, too, if samples have several sizes for them, and so do
            expressions of a name that is no dimension's, such as ``8*h``. Dimensions of different inputs that have the
            same size in every sample share a name.
    """
    asked = request or ShapeRequest()
    places: dict[str, list[tuple[str, int]]] = {}
    in_terms: set[str] = set()
    for spec in inputs:
        for axis, dim in enumerate(spec.shape or ()):
            if isinstance(dim, str) and terms(dim) == {dim}:
                places.setdefault(dim, []).append((spec.name, axis))
            elif isinstance(dim, str):
                in_terms |= terms(dim)
    taken = {*places, *in_terms}
    found: list[RenamedDimension] = []
    for dim, shared in places.items():
        groups = _groups(shared, samples) if len(shared) > 1 and dim not in in_terms else []
        names = _free_names(dim, len(groups) - 1, taken)
        stays = dim in asked.dims and not asked.dims.keys() & {*names}
        if len(groups) < 2 or stays or any(name in asked.shapes for name, _ in shared):
            continue
        taken |= {*names}
        (first, *_), first_sizes = groups[0]
        for name, (members, sizes) in zip(names, groups[1:], strict=True):
            apart = all(_size_at(first, sample) != _size_at(members[0], sample) for sample in samples)
            why = (
                f"in {'every sample' if apart else 'some samples'} its size ({written(sizes.sizes)}) is another than "
                f"that of dimension {first[1]} of input {first[0]!r} ({written(first_sizes.sizes)})"
            )
            found += [RenamedDimension(place, axis, dim, name, why) for place, axis in members]
    return found + (_unnamed(inputs, samples, asked, taken) if unnamed else [])


def _unnamed(
    inputs: Sequence[ValueSpec], samples: Sequence[Shapes], asked: ShapeRequest, taken: set[str]
) -> list[RenamedDimension]:
    """Returns new names for dimensions without a name, or with only an expression, that vary between samples."""
    called: dict[tuple[tuple[int, ...], int], str] = {}
    found = []
    nameless = {None} | {dim for dim in independent_dims(inputs) if terms(dim) != {dim}}
    for spec in inputs:
        shapes = [shape[spec.name] for shape in samples if spec.name in shape]
        wanted = spec.shape or ()
        if spec.name in asked.shapes or any(len(shape) != len(wanted) for shape in shapes):
            continue
        here: Counter[tuple[int, ...]] = Counter()
        for axis, dim in enumerate(wanted):
            sizes = tuple(shape[axis] for shape in shapes)
            if dim not in nameless or dim in asked.dims or len(set(sizes)) < 2:
                continue
            key = sizes, here[sizes]
            here[sizes] += 1
            if key not in called:
                name = f"{spec.name}_{axis}"
                called[key] = name if name not in taken else _free_names(name, 1, taken)[0]
                taken.add(called[key])
            why = f"samples have the sizes {written(SizeRange(min(sizes), max(sizes)).sizes)}"
            found.append(RenamedDimension(spec.name, axis, dim, called[key], why))
    return found


def _groups(
    places: Sequence[tuple[str, int]], samples: Sequence[Shapes]
) -> list[tuple[list[tuple[str, int]], SizeRange]]:
    """Returns groups of places with equal sizes in every sample, each with its range of sizes; none if unclear.

    Groups are clear if every sample has all of the places, and for any two groups, either their sizes differ in every
    sample, or both have places in one input: broadcasting cannot explain a difference within one input.
    """
    groups: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    for name, axis in places:
        shapes = [shape[name] for shape in samples if name in shape]
        if len(shapes) != len(samples) or any(axis >= len(shape) for shape in shapes):
            return []
        groups.setdefault(tuple(shape[axis] for shape in shapes), []).append((name, axis))
    for one, other in itertools.combinations(groups, 2):
        in_one_input = {name for name, _ in groups[one]} & {name for name, _ in groups[other]}
        if not in_one_input and not all(map(int.__ne__, one, other)):
            return []
    return [(members, SizeRange(min(sizes), max(sizes))) for sizes, members in groups.items() if sizes]


def _size_at(place: tuple[str, int], sample: Shapes) -> int:
    name, axis = place
    return sample[name][axis]


def _free_names(dim: str, count: int, taken: Collection[str]) -> list[str]:
    """Names that no dimension has: the name with a number, from 2 on."""
    free = (name for number in itertools.count(2) if (name := f"{dim}_{number}") not in taken)
    return list(itertools.islice(free, max(count, 0)))


def with_own_names(model: Model, names: Sequence[RenamedDimension]) -> Model:
    """Returns the model with separate names for dimensions of its inputs, and its other shapes inferred anew.

    It is unknown which of the dimensions the file means by the shared name elsewhere.

    Raises:
        edgekit.graph.sizes.shapes.ContradictionError: An operator cannot accept different dimensions there.
    """
    graph_model = model.graph_model.clone()
    own = {(one.input, one.axis): one.name for one in names}
    shared = {name for one in names if one.dimension is not None for name in terms(one.dimension)}
    for value in graph_model.graph.inputs:
        if value.shape is not None:
            renamed = [own.get((value.name or "", axis), dim) for axis, dim in enumerate(value.shape)]
            value.shape = ir.Shape(renamed)
    for node in graph_model.graph.all_nodes():
        for value in node.outputs:
            if value.shape is not None:
                value.shape = ir.Shape([None if _names(dim) & shared else dim for dim in value.shape])
    return infer_shapes(model.with_graph(graph_model))


def check_sizes(model: Model, shapes: Shapes) -> None:
    """Checks that operators accept the shapes that follow from inputs of these shapes, also in branches not taken.

    Shapes inside that the file states are ignored, because they may be sizes that an exporter traced with.

    Raises:
        edgekit.graph.sizes.shapes.ContradictionError: An operator does not accept its shapes.
    """
    graph_model = model.graph_model.clone()
    for value in graph_model.graph.inputs:
        shape = shapes.get(value.name or "")
        value.shape = value.shape if shape is None else ir.Shape(shape)
    for node in graph_model.graph.all_nodes():
        for value in node.outputs:
            value.shape = None
    infer_shapes(model.with_graph(graph_model))


def _names(dim: int | ir.SymbolicDim) -> frozenset[str]:
    return frozenset() if isinstance(dim, int) or dim.value is None else terms(dim.value)

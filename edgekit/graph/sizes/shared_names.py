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
class OwnName:
    """A dimension that shares its name with one of other sizes, or has none, and gets a name of its own."""

    input: str
    axis: int
    dimension: str | None
    """What the file calls it; None where it has no name."""
    name: str
    """What it is called instead."""
    why: str = ""
    """In what samples tell the two apart."""

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
) -> list[OwnName]:
    """The dimensions that need a name of their own, because in every sample their size is another one.

    Those of one name that have the same size in every sample keep one name. Where two are equal in some samples and
    differ in others, all of that name stay as they are, unless they are of one input: exporters that trace with a
    square picture call both sides by one name.

    Args:
        inputs: The model's inputs.
        samples: The shapes of each sample's arrays.
        request: The sizes that were asked for. A name that it has sizes for stays as it is, unless it has sizes for the
            new one too.
        unnamed: Whether dimensions without a name need one as well, where samples have several sizes for them, and
            those that the file has as an expression of a name that is no dimension's, such as ``8*h``. Those of
            different inputs that have the same size in every sample share it.
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
    found: list[OwnName] = []
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
            found += [OwnName(place, axis, dim, name, why) for place, axis in members]
    return found + (_unnamed(inputs, samples, asked, taken) if unnamed else [])


def _unnamed(
    inputs: Sequence[ValueSpec], samples: Sequence[Shapes], asked: ShapeRequest, taken: set[str]
) -> list[OwnName]:
    """The dimensions without a name, or with an expression alone, for which samples have several sizes."""
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
            found.append(OwnName(spec.name, axis, dim, called[key], why))
    return found


def _groups(
    places: Sequence[tuple[str, int]], samples: Sequence[Shapes]
) -> list[tuple[list[tuple[str, int]], SizeRange]]:
    """The places whose sizes are equal in every sample, each group with its range of sizes; none where it is not clear.

    It is clear where every sample has all of the places, and sizes of different groups are equal in none, or both have
    places of one input: no broadcasting explains that these differ.
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


def with_own_names(model: Model, names: Sequence[OwnName]) -> Model:
    """The model whose inputs' dimensions have names of their own, and whose other shapes are worked out anew.

    Which of the dimensions the file means by the shared name elsewhere is not known.

    Raises:
        edgekit.graph.sizes.shapes.ContradictionError: Its operators cannot take dimensions that differ there.
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
    """Checks that operators can take what inputs of these shapes lead to, in branches too that no sample takes.

    What the file says of the shapes inside is not asked: sizes that an exporter traced with are no rule.

    Raises:
        edgekit.graph.sizes.shapes.ContradictionError: One cannot.
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

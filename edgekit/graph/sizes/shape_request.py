"""The input shapes that a user requests, checked against the model's inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.features.dimensions import OpenDims, Sizes, parse_size, parse_sizes, written
from edgekit.model import Dim, ValueSpec
from edgekit.suggestions import near_names

Value = TypeVar("Value")

_ONE_NAME = re.compile(r"[\w.]+")
"""A dimension without operators."""

AS_IS = None
"""In a requested shape: leave this dimension unchanged."""


@dataclass(frozen=True)
class ShapeRequest:
    """Requested sizes by the name of a dynamic dimension, and whole shapes by the name of an input."""

    dims: Mapping[str, int | Sizes] = field(default_factory=dict)
    """Sizes by dimension name: one size fixes the dimension; several keep it open for these sizes."""
    shapes: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    """Shapes by input name; `AS_IS` at a position leaves that dimension unchanged."""

    @classmethod
    def parse(cls, dims: Iterable[str] = (), shapes: Iterable[str] = ()) -> ShapeRequest:
        """Reads what the flags ``--dim NAME=SIZES`` and ``--shape INPUT=SIZE,SIZE,…`` say.

        Raises:
            InputError: A text has another form, or a name occurs twice.
        """
        sizes: dict[str, int | Sizes] = {}
        for text in dims:
            flag = f"--dim {text}"
            name, equals, size = text.rpartition("=")
            if not name or not equals:
                raise InputError(
                    "has no size", subject=flag, expected="NAME=SIZES", hint="write it as --dim N=1 or --dim N=1..8"
                )
            _set_once(sizes, name, parse_sizes(size, flag), flag)
        requested: dict[str, tuple[int | None, ...]] = {}
        for text in shapes:
            flag = f"--shape {text}"
            name, equals, shape = text.rpartition("=")
            if not name or not equals:
                raise InputError(
                    "has no shape", subject=flag, expected="INPUT=SIZE,SIZE,…", hint="write it as --shape x=1,3,224,224"
                )
            if ".." in shape:
                raise InputError(
                    "takes no range of sizes",
                    subject=flag,
                    expected="INPUT=SIZE,SIZE,…",
                    hint="? in place of a size keeps the dimension open; --dim NAME=1..64 is for one that has a name",
                )
            sizes_of_shape = shape.replace("x", ",").split(",") if shape.strip() else []
            requested_shape = tuple(AS_IS if size.strip() == "?" else parse_size(size, flag) for size in sizes_of_shape)
            _set_once(requested, name, requested_shape, flag)
        return cls(sizes, requested)

    @classmethod
    def declared(
        cls, dims: Mapping[str, int | str | Sizes], shapes: Mapping[str, Sequence[int | None]], place: str = "dimension"
    ) -> ShapeRequest:
        """Returns the request in a project file, a manifest or a program: sizes, or texts as ``--dim`` accepts them.

        Args:
            dims: Sizes by the names of dimensions.
            shapes: Shapes by the names of inputs.
            place: What an error puts before a dimension's name.

        Raises:
            InputError: A text has another form.
        """
        return cls(
            {
                name: parse_sizes(sizes, f"{place} {name!r}") if isinstance(sizes, str) else sizes
                for name, sizes in dims.items()
            },
            shapes,
        )

    def __bool__(self) -> bool:
        return bool(self.dims or self.shapes)

    @property
    def open_dims(self) -> OpenDims:
        """The dimensions that stay open."""
        return {name: sizes for name, sizes in self.dims.items() if not isinstance(sizes, int)}

    def without_known(self, known: Mapping[str, int]) -> ShapeRequest:
        """Returns the request without dimensions whose sizes follow from the model's weights.

        Args:
            known: The sizes that follow from the weights, by the dimension's name in the file.

        Raises:
            InputError: Another size is asked for.
        """
        for name, size in self.dims.items():
            if name in known and size != known[name]:
                raise InputError(
                    "the weights take another size",
                    subject=f"--dim {name}={written(size)}",
                    expected=known[name],
                    hint="leave it out: no other size runs",
                )
        return replace(self, dims={name: size for name, size in self.dims.items() if name not in known})

    def as_record(self) -> dict[str, dict[str, Any]]:
        """Returns the request as plain data that :meth:`declared` accepts."""
        return {
            "dims": {name: sizes if isinstance(sizes, int) else written(sizes) for name, sizes in self.dims.items()},
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
        }

    def sizes(self, inputs: Sequence[ValueSpec]) -> FixedSizes:
        """Returns the size of every dimension that the request names, or fixes through an input's whole shape.

        In ONNX, one name means one size, so a shape given for one input applies to dimensions of other inputs, too.
        Some exporters give two sizes the same name: if whole shapes are given for all inputs with that name, the shapes
        win.

        Raises:
            InputError: A name is unknown, a rank is wrong, or sizes contradict each other.
        """
        self._check_names(inputs)
        sizes = {name: size for name, size in self.dims.items() if isinstance(size, int)}
        origin = {name: f"--dim {name}={written(size)}" for name, size in self.dims.items()}
        ambiguous: set[str] = set()
        for spec in inputs:
            for dim, size in zip(spec.shape or (), self.shapes.get(spec.name, ()), strict=False):
                if not isinstance(dim, str) or size is AS_IS:
                    continue
                flag = f"--shape {spec.name}={_written(self.shapes[spec.name])}"
                if dim in self.open_dims:
                    raise InputError(
                        f"makes the dimension {dim!r} {size}, while {origin[dim]} leaves it open",
                        subject=flag,
                        hint="give ? in its place, or --dim one size",
                    )
                if sizes.setdefault(dim, size) != size and self._tells_apart(dim, inputs):
                    ambiguous.add(dim)
                elif sizes[dim] != size:
                    raise InputError(
                        f"makes the dimension {dim!r} {size}, while {origin[dim]} makes it {sizes[dim]}",
                        subject=flag,
                        hint="give every dimension one size",
                    )
                origin.setdefault(dim, flag)
        known = {name: size for name, size in sizes.items() if name not in ambiguous}
        return FixedSizes(known, frozenset(_dimension_names(inputs)), frozenset(ambiguous))

    def _tells_apart(self, dim: str, inputs: Sequence[ValueSpec]) -> bool:
        """Whether whole shapes fix a dimension of this name in every input that has it, and no ``--dim`` does."""
        if dim in self.dims:
            return False
        return all(
            size is not AS_IS
            for spec in inputs
            for place, name in enumerate(spec.shape or ())
            if name == dim
            for size in [self.shapes[spec.name][place] if spec.name in self.shapes else AS_IS]
        )

    def shape(self, spec: ValueSpec, sizes: FixedSizes) -> tuple[Dim, ...] | None:
        """Returns the shape that the request gives the input."""
        bound = None if spec.shape is None else tuple(sizes.put_in(dim) for dim in spec.shape)
        requested = self.shapes.get(spec.name)
        if requested is None:
            return bound
        known = bound if bound is not None else (None,) * len(requested)
        return tuple(dim if size is AS_IS else size for dim, size in zip(known, requested, strict=True))

    def _check_names(self, inputs: Sequence[ValueSpec]) -> None:
        known_dims = _dimension_names(inputs)
        for name, size in self.dims.items():
            if name not in known_dims:
                raise InputError(
                    f"no input has a dynamic dimension {name!r}",
                    subject=f"--dim {name}={written(size)}",
                    expected=near_names(name, known_dims) if known_dims else None,
                    found="; ".join(str(spec) for spec in inputs),
                    hint=None
                    if known_dims
                    else "no dimension has a name; give whole shapes with --shape, in which ? keeps a dimension open",
                )
        by_name = {spec.name: spec for spec in inputs}
        for name, shape in self.shapes.items():
            flag = f"--shape {name}={_written(shape)}"
            if name not in by_name:
                raise InputError(f"there is no input {name!r}", subject=flag, expected=near_names(name, by_name))
            spec = by_name[name]
            if spec.shape is not None and len(shape) != len(spec.shape):
                raise InputError(
                    "the rank is wrong",
                    subject=flag,
                    expected=f"{len(spec.shape)} dimensions ({spec})",
                    found=f"{len(shape)} dimensions",
                )


@dataclass(frozen=True)
class FixedSizes:
    """The sizes that dimensions get by their names."""

    by_name: Mapping[str, int]
    names: frozenset[str]
    """All names of the inputs' dimensions; a text with other names in it is not treated as an expression."""
    ambiguous: frozenset[str] = frozenset()
    """Names that mean several sizes, which depend on the input."""

    def put_in(self, dim: Dim) -> Dim:
        """Returns the dimension, which may be an expression of names (``past + sequence``), with sizes inserted."""
        if not isinstance(dim, str):
            return dim
        if dim in self.by_name:
            return self.by_name[dim]
        names_in_it = terms(dim)
        if names_in_it == {dim} or not names_in_it <= self.names:
            return dim
        value = ir.SymbolicDim(dim).evaluate(self.by_name)
        return value if isinstance(value, int) else value.value

    def follows(self, dim: Dim) -> bool:
        """Whether the dimension is an expression that the sizes turn into a number."""
        return isinstance(dim, str) and dim not in self.by_name and isinstance(self.put_in(dim), int)


def at_sizes(specs: Sequence[ValueSpec], sizes: Mapping[str, int]) -> tuple[ValueSpec, ...]:
    """Returns the inputs with sizes inserted for the dimensions of the given names."""
    fixed = FixedSizes(sizes, frozenset(_dimension_names(specs)))
    return tuple(
        spec if spec.shape is None else replace(spec, shape=tuple(map(fixed.put_in, spec.shape))) for spec in specs
    )


def terms(dim: str) -> frozenset[str]:
    """Returns the names in a dimension: those of its expression, or the dimension itself if it is a plain name."""
    if _ONE_NAME.fullmatch(dim):  # expressions are parsed by sympy, which takes half a second to import
        return frozenset([dim])
    try:
        return ir.SymbolicDim(dim).free_symbols() or frozenset([dim])
    except ValueError:  # not an expression
        return frozenset([dim])


def independent_dims(specs: Sequence[ValueSpec]) -> frozenset[str]:
    """Returns the independent dimensions: names, and expressions whose names occur in no other dimension.

    ``torch.export`` writes ``8*h`` for a size that has to be a multiple of 8; ``past + sequence`` follows from two
    names.
    """
    dims = frozenset(_dimension_names(specs))
    return frozenset(dim for dim in dims if not any(terms(dim) & terms(other) for other in dims if other != dim)) | {
        dim for dim in dims if terms(dim) == {dim}
    }


def _set_once(known: dict[str, Value], name: str, value: Value, flag: str) -> None:
    if name in known:
        raise InputError(f"{name!r} is given twice", subject=flag)
    known[name] = value


def _written(shape: Sequence[int | None]) -> str:
    return ",".join("?" if size is AS_IS else str(size) for size in shape)


def _dimension_names(inputs: Iterable[ValueSpec]) -> list[str]:
    names = [dim for spec in inputs for dim in spec.shape or () if isinstance(dim, str)]
    return list(dict.fromkeys(names))

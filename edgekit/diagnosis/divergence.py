"""Finds where a device's results begin to differ: compares values inside a bundle's model with ONNX Runtime's.

The reference executes a graph on the CPU, node by node. What a difference means depends on the graph:

- the shipped graph itself, if the bundle is an ONNX file: the device causes the difference;
- the original model: the device or the build causes the difference.

Values are compared by name, in the order of the reference's graph. A floating-point value diverges below the floor of
the bundle's kind (see :mod:`edgekit.comparison.acceptance.accuracy`), any other if more of its elements differ than
the kind allows. Integers of 8 bits count as different if they are more than one step apart, because a float that lies
between two steps may be rounded to either.

Some values are not determined to the floor: ONNX Runtime itself computes different ones once it optimizes the graph.
For such a value, the floor is the agreement of ONNX Runtime's two executions, less
:data:`edgekit.comparison.acceptance.accuracy.SELF_MARGIN_DB`.

A value below its floor is harmless if everything that is computed from it is right again: for instance, a quantizer may
scale the channels between two layers, and the next layer undoes the scaling. Such a value *recovers*, and is not the
cause of wrong outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.bundle import Bundle
from edgekit.comparison.acceptance.accuracy import LEAST_DB, SELF_MARGIN_DB
from edgekit.comparison.floors import MAX_DISAGREEMENT, Kind
from edgekit.comparison.layers import AT_ONCE_BYTES, MOST_BYTES, portions, with_outputs, within
from edgekit.comparison.numbers.metrics import OutputComparison, json_number
from edgekit.device import Device, Session
from edgekit.diagnosis.rebuilding import shown_by_rebuilding
from edgekit.errors import InputError, RequirementError
from edgekit.execution.reference import Reference
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Arrays, Model, node_name, op_name

LAYER_FLOOR_DB = {Kind.FLOAT32: 50.0, Kind.FLOAT16: 25.0, Kind.QUANTIZED: 10.0}
"""The SQNR in dB that a layer has to reach: there is more noise inside a quantized model than in its outputs."""
_COMPARABLE = "biuf"
"""NumPy's kinds of element types that are compared."""


@dataclass(frozen=True)
class Layer:
    """One value that a node computes, on the device and in the reference."""

    node: str
    op_type: str
    value: str
    sqnr_db: float | None
    """The SQNR; None for values other than floats."""
    mismatch: float
    """The share of elements that differ; for floats, of those where only one side is infinite or NaN."""
    floor_db: float
    """The SQNR required of a floating-point value: the floor of the bundle's kind, or less if not determined to it."""
    is_near: bool
    """Whether the value is as close to the reference's as required."""
    recovers: bool
    """Whether the value is not close to the reference's, but everything computed from it is."""

    @property
    def diverges(self) -> bool:
        """Whether the value is wrong in a way that may affect the outputs."""
        return not (self.is_near or self.recovers)

    def __str__(self) -> str:
        how = f"{self.mismatch:.1%} of the elements differ" if self.sqnr_db is None else f"SQNR {self.sqnr_db:.1f} dB"
        return f"{self.value!r} of node {self.node!r} ({self.op_type}), {how}"

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        decibels = None if self.sqnr_db is None else json_number(self.sqnr_db)
        return {**vars(self), "sqnr_db": decibels, "diverges": self.diverges}


@dataclass(frozen=True)
class Divergence:
    """How far a device's values are from the reference's, layer by layer."""

    executed_by: str
    reference: str
    """The runtime that executed the reference, and the graph."""
    floor_db: float
    """A floating-point value below this SQNR diverges."""
    max_mismatch: float
    """Any other value with a larger share of differing elements diverges."""
    layers: tuple[Layer, ...]
    """The compared layers, in the order of the reference's graph."""
    not_shown: int
    """The number of values not compared, because the built model does not contain them or they are too large."""

    @property
    def first(self) -> Layer | None:
        """The first layer that diverges; None where none does."""
        return next((layer for layer in self.layers if layer.diverges), None)

    @property
    def summary(self) -> str:
        """The first layer that diverges, in words."""
        return f"none of {len(self.layers)}" if self.first is None else f"{self.first}, of {len(self.layers)} compared"

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "executed_by": self.executed_by,
            "reference": self.reference,
            "floor_db": self.floor_db,
            "max_mismatch": self.max_mismatch,
            "first": None if self.first is None else self.first.as_record(),
            "layers": [layer.as_record() for layer in self.layers],
            "not_shown": self.not_shown,
        }


class DivergedError(RequirementError):
    """A bundle that does not compute what it should, with the layers that were compared.

    Args:
        error: What is wrong with the outputs.
        divergence: What is wrong inside.
    """

    def __init__(self, error: RequirementError, divergence: Divergence) -> None:
        super().__init__(
            error.message,
            subject=error.subject,
            expected=error.expected,
            found="; ".join([*filter(None, [error.found]), f"first diverging layer: {divergence.summary}"]),
            hint=error.hint,
        )
        self.divergence = divergence

    def as_record(self) -> dict[str, Any]:
        """The error as plain data, with every layer."""
        return {**super().as_record(), "layers": self.divergence.as_record()}


def shipped_graph(bundle: Bundle) -> Model:
    """Returns the graph of a bundle that ships an ONNX file.

    Raises:
        InputError: The bundle ships another format.
    """
    if bundle.main.suffix != ".onnx":
        raise InputError(
            "the bundle holds no ONNX graph to compare the device with",
            subject="--layers",
            expected="the original model, whose layers are known",
            found=bundle.main.name,
            hint="give --model MODEL, the model that the bundle was made from",
        )
    return Model(ir.load(bundle.main), bundle.main)


def compare_layers(
    session: Session,
    bundle: Bundle,
    reference: Model,
    feeds: Mapping[str, np.ndarray],
    device: Device | None = None,
) -> Divergence:
    """Compares every value that the device shows with the reference's.

    If the session cannot show values, the reference is built again with them as outputs.

    Args:
        session: The session with the bundle on the device.
        bundle: The bundle on the device.
        reference: The shipped graph, or the original with its shapes fixed like the bundle's.
        feeds: One sample.
        device: The device of the session; without it, nothing is built again.

    Raises:
        RequirementError: The device cannot show what it computes inside, or fails.
        edgekit.execution.reference.NotRunnableError: ONNX Runtime does not execute the reference.
    """
    kind = Kind(bundle.manifest["model"]["kind"])
    floor, most_unequal = LAYER_FLOOR_DB[kind], MAX_DISAGREEMENT if kind is Kind.QUANTIZED else 0.0
    graph = infer_shapes(reference, strict=False)
    sizes = {value.name or "": _bytes(value) for _, value in _computed(graph)}
    compared = within(sizes, MOST_BYTES)
    found: dict[str, _Difference] = {}
    executed_by = ""
    for names in portions(compared, AT_ONCE_BYTES):
        shown = session.intermediates(feeds, names)
        if shown is None:
            shown = shown_by_rebuilding(_rebuilding(device, session, bundle, reference), bundle, graph, feeds, names)
        expected, executed_by = _reference_values(graph, feeds, [name for name in names if name in shown])
        differences = _differences(expected, shown)
        found |= _with_own_floors(differences, graph, feeds, expected, floor)
    near = {name: difference.is_near(most_unequal) for name, difference in found.items()}
    spreading = _spreading(graph, near)
    layers = [
        Layer(
            node_name(node),
            op_name(node),
            name,
            found[name].sqnr_db,
            found[name].mismatch,
            found[name].floor_db,
            near[name],
            recovers=not near[name] and name not in spreading,
        )
        for node, name in _computed_names(graph)
        if name in found
    ]
    if not layers:
        raise RequirementError(
            "the built model shares no value with the reference",
            subject="--layers",
            found=f"{len(sizes)} values in the reference, none of them by its name in {bundle.main.name}",
        )
    return Divergence(session.executed_by, executed_by, floor, most_unequal, tuple(layers), len(sizes) - len(layers))


def _rebuilding(device: Device | None, session: Session, bundle: Bundle, reference: Model) -> Device:
    """Returns the device, if rebuilding the reference gives the bundle's values."""
    quantized_since = bundle.manifest["model"]["kind"] == Kind.QUANTIZED and reference.source != bundle.main
    if device is None or quantized_since:
        raise RequirementError(
            "this device cannot show what the model computes inside",
            subject="--layers",
            found=session.executed_by + (", and the original is not what was quantized" if quantized_since else ""),
            hint="package the model with --quantize none to compare its layers"
            if quantized_since and device is not None
            else "compare the layers where the bundle runs on this machine, with --device local",
        )
    return device


@dataclass(frozen=True)
class _Difference:
    sqnr_db: float | None
    mismatch: float
    floor_db: float = 0.0

    def is_near(self, max_mismatch: float) -> bool:
        return self.mismatch <= max_mismatch if self.sqnr_db is None else self.sqnr_db >= self.floor_db


def _computed(model: Model) -> Iterator[tuple[ir.Node, ir.Value]]:
    """Yields comparable values that nodes of the main graph compute, each with its node."""
    for node in model.graph:
        for value in node.outputs:
            if value.name and node.op_type != "Constant" and isinstance(value.type, ir.TensorType | None):
                yield node, value


def _computed_names(model: Model) -> Iterator[tuple[ir.Node, str]]:
    return ((node, value.name or "") for node, value in _computed(model))


def _spreading(model: Model, near: Mapping[str, bool]) -> set[str]:
    """Returns wrong or unknown values that are outputs, or that another such value or a subgraph is computed from."""
    spreading = set()
    for node in reversed(list(model.graph)):
        for value in node.outputs:
            if value.name is None or near.get(value.name, False):
                continue
            readers = [reader for reader, _ in value.uses()]
            made = [result for reader in readers for result in reader.outputs]
            in_a_subgraph = any(reader.graph is not model.graph for reader in readers)
            if value.is_graph_output() or in_a_subgraph or any(result.name in spreading for result in made):
                spreading.add(value.name)
    return spreading


def _bytes(value: ir.Value) -> int:
    """Returns the bytes of a value; values of unknown size count as empty."""
    if value.shape is None or value.dtype is None or not value.shape.is_static():
        return 0
    return int(math.prod(value.shape.numpy()) * value.dtype.itemsize)


def _reference_values(model: Model, feeds: Mapping[str, np.ndarray], names: list[str]) -> tuple[Arrays, str]:
    """The values, and what executed the model."""
    if not names:
        return {}, ""
    reference = Reference(with_outputs(model, names))
    return reference.run(feeds), f"{reference.executed_by}, {model.name}"


def _differences(expected: Arrays, shown: Arrays) -> dict[str, _Difference]:
    """Returns how far each comparable value is from the reference's."""
    compared = ((name, _difference(name, array, shown[name])) for name, array in expected.items())
    return {name: difference for name, difference in compared if difference is not None}


def _with_own_floors(
    differences: Mapping[str, _Difference],
    model: Model,
    feeds: Mapping[str, np.ndarray],
    expected: Arrays,
    floor: float,
) -> dict[str, _Difference]:
    """Returns the differences with each value's floor; the model is run a second way if some miss the common floor."""
    missed = [name for name, found in differences.items() if found.sqnr_db is not None and not found.sqnr_db >= floor]
    agreed: dict[str, float] = {}
    if missed and floor > LEAST_DB:
        optimized = Reference(with_outputs(model, missed), fast=True).run(feeds)
        own = _differences({name: expected[name] for name in missed}, optimized)
        agreed = {name: found.sqnr_db for name, found in own.items() if found.sqnr_db is not None}
    least = min(floor, LEAST_DB)
    return {
        name: replace(found, floor_db=max(least, min(floor, agreed.get(name, math.inf) - SELF_MARGIN_DB)))
        for name, found in differences.items()
    }


def _difference(name: str, expected: np.ndarray, found: np.ndarray) -> _Difference | None:
    """Returns how far a value is from the reference's, or None if the two are not comparable.

    A runtime may hold a value in another width, or keep an axis where ONNX has none.
    """
    same_kind = {expected.dtype.kind, found.dtype.kind} <= set(_COMPARABLE)
    if not same_kind or expected.size != found.size or (expected.dtype.kind == "f") != (found.dtype.kind == "f"):
        return None
    found = found.reshape(expected.shape)
    if expected.dtype.kind == "f":
        comparison = OutputComparison(name)
        comparison.add(expected.astype(np.float64), found.astype(np.float64))
        result = comparison.result()
        return _Difference(result.sqnr_db, result.mismatch)
    apart = np.abs(expected.astype(np.float64) - found.astype(np.float64))
    step = 1 if expected.dtype.itemsize == 1 and expected.dtype.kind != "b" else 0
    return _Difference(None, float(np.count_nonzero(apart > step) / max(apart.size, 1)))

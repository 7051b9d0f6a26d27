"""Cuts a part out of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.traversal import reached
from edgekit.model import Model, node_name, read_by
from edgekit.suggestions import near_names


def extract_part(model: Model, *, outputs: Sequence[str], inputs: Sequence[str] = ()) -> Model:
    """Returns the part of the model that computes ``outputs`` from ``inputs``; the given model is not changed.

    Args:
        model: The whole model.
        outputs: Names of values; the name of a node means its outputs. One text may contain several names, separated
            by commas.
        inputs: Names of the values to start from; if none is given, the model's inputs that are needed.

    Raises:
        InputError: A name is unknown, or the part needs more inputs than are given, or does not need one of them.
    """
    whole = infer_shapes(model, strict=False)
    wanted = _values(whole, outputs, "--outputs")
    if not wanted:
        raise InputError("names nothing to compute", subject="--outputs", hint="`edgekit inspect` shows the names")
    given = _values(whole, inputs, "--inputs")
    for value in given:
        if value.dtype is None:
            raise InputError(f"the type of {value.name!r} is not known, so it cannot be an input", subject="--inputs")
    needed = _needed_inputs(wanted, set(given))
    missing = [value for value in needed if value not in given]
    if given and missing:
        raise InputError(
            f"the outputs also need {_listed(missing)}",
            subject="--inputs",
            hint="add it, or cut where nothing else comes in",
        )
    unused = [value for value in given if value not in needed]
    if unused:
        raise InputError(f"the outputs do not need {_listed(unused)}", subject="--inputs", hint="leave it out")
    starts = given or [value for value in whole.graph.inputs if value in needed]
    for value in wanted:
        if value in starts or value.is_initializer():
            raise InputError(
                f"{value.name!r} is not computed", subject="--outputs", hint="name a value that a node makes"
            )
    part = ir.convenience.extract(whole.graph, starts, wanted)
    initializers = sorted(part.initializers.values(), key=lambda value: value.name or "")  # onnx_ir keeps them in a set
    part.initializers.clear()
    for value in initializers:
        part.register_initializer(value)
    return model.with_graph(ir.Model(part, ir_version=whole.graph_model.ir_version))


def _values(model: Model, texts: Iterable[str], option: str) -> list[ir.Value]:
    """Returns the values that the names refer to, each once, in the order of the names."""
    by_name = ir.convenience.create_value_mapping(model.graph, include_subgraphs=False)
    nodes = {node_name(node): node for node in model.graph}
    values: list[ir.Value] = []
    for name in _names(texts, (*by_name, *nodes)):
        if name in by_name:
            values.append(by_name[name])
        elif name in nodes:
            values.extend(value for value in nodes[name].outputs if value.name)
        else:
            raise InputError(
                f"there is no value or node {name!r}",
                subject=option,
                expected=near_names(name, [*_computed_first(by_name, option), *nodes]),
                hint="`edgekit inspect` shows inputs and outputs; a viewer such as Netron shows what lies between",
            )
    return list(dict.fromkeys(values))


def _computed_first(values: Mapping[str, ir.Value], option: str) -> list[str]:
    """Returns names of values except weights and constants; for outputs, values computed last come first."""
    names = [
        name
        for name, value in values.items()
        if not value.is_initializer() and getattr(value.producer(), "op_type", None) != "Constant"
    ]
    return names[::-1] if option == "--outputs" else names


def _names(texts: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    for text in texts:
        if text in known:  # a name may have a comma in it
            yield text
        else:
            yield from (name.strip() for name in text.split(",") if name.strip())


def _needed_inputs(wanted: Iterable[ir.Value], starts: set[ir.Value]) -> list[ir.Value]:
    """The values without a producer, or among ``starts``, that the wanted ones are computed from."""

    def ends(value: ir.Value) -> bool:
        return value in starts or (value.producer() is None and not value.is_initializer())

    def made_of(value: ir.Value) -> Iterable[ir.Value]:
        producer = value.producer()
        return () if value in starts or producer is None else read_by(producer)

    return [value for value in reached(wanted, made_of) if ends(value)]


def _listed(values: Iterable[ir.Value]) -> str:
    return ", ".join(repr(value.name) for value in values)

"""Recognizes HardSwish that an exporter wrote as several nodes, which runtimes would compute one by one."""

from __future__ import annotations

import math

import onnx_ir as ir

from edgekit.errors import InputError
from edgekit_quantize.graph.nodes import home, is_standard, only_consumer, remove_unread, scalar
from edgekit_quantize.prepare.affine import affine_of
from edgekit_quantize.prepare.opset import HARDSWISH_OPSET, modern


def fuse_hardswish(model: ir.Model) -> int:
    """Replace ``x * clip(x + 3, 0, 6) / 6`` and ``x * HardSigmoid(x)`` (slope 1/6) by HardSwish; returns how many.

    Howard et al., Searching for MobileNetV3 (ICCV 2019), section 5.2.
    """
    if model.opset_imports.get("", 0) < HARDSWISH_OPSET:
        return 0
    graph = model.graph
    count = 0
    for node in list(graph.all_nodes()):
        if node.graph is None or not is_standard(node, "Mul"):
            continue
        for data, gate in (node.inputs, node.inputs[::-1]):
            end = _end(node, data, gate) if data is not None and gate is not None else None
            if end is not None and data is not None and gate is not None:
                _replace(node, end, data)
                count += 1
                break
    return count


def with_hardswish(model: ir.Model) -> ir.Model | None:
    """A copy of the model, upgraded if its operator set is too old, with HardSwish nodes instead of their parts.

    Returns:
        None if the model has no such parts, or cannot be upgraded.
    """
    try:
        copy = modern(model.clone())
    except InputError:
        return None
    return copy if fuse_hardswish(copy) else None


def _end(product: ir.Node, data: ir.Value, gate: ir.Value) -> ir.Node | None:
    """The last node of the written-out HardSwish that ``product`` is part of; None if it is part of none."""
    gate_node = gate.producer()
    if gate_node is None:
        return None
    if is_standard(gate_node, "HardSigmoid") and gate_node.inputs[0] is data:
        alpha, beta = (gate_node.attributes.get(key) for key in ("alpha", "beta"))
        plain = alpha is not None and math.isclose(alpha.as_float(), 1 / 6, rel_tol=1e-5)
        return product if plain and (beta is None or beta.as_float() == 0.5) else None
    if not is_standard(gate_node, "Clip") or len(gate_node.inputs) < 3:
        return None
    if scalar(gate_node.inputs[1]) != 0.0 or scalar(gate_node.inputs[2]) != 6.0:
        return None
    inner = gate_node.inputs[0]
    shift = affine_of(inner.producer()) if inner is not None and inner.producer() is not None else None  # type: ignore[arg-type]
    if shift is None or shift.data is not data or shift.factor.size != 1 or shift.shift.size != 1:
        return None
    if shift.factor.item() != 1.0 or shift.shift.item() != 3.0:
        return None
    division = only_consumer(product.outputs[0])
    last = affine_of(division) if division is not None else None
    if last is None or last.factor.size != 1 or last.shift.any():
        return None
    return division if math.isclose(last.factor.item(), 1 / 6, rel_tol=1e-5) else None


def _replace(product: ir.Node, end: ir.Node, data: ir.Value) -> None:
    old = end.outputs[0]
    output = ir.Value(name=old.name, shape=old.shape, type=old.type)
    old.name = f"{old.name}_parts"
    home(end).insert_after(end, ir.node("HardSwish", [data], outputs=[output], name=f"{end.name}_hardswish"))
    old.replace_all_uses_with(output, replace_graph_outputs=True)
    gate = [value.producer() for value in product.inputs if value is not None and value is not data]
    shifts = [node.inputs[0].producer() for node in gate if node is not None and node.inputs[0] is not None]
    for node in (end, product, *gate, *shifts):
        if node is not None:
            remove_unread([node])

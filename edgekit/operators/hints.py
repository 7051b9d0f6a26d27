"""Advice for nodes that a device does not accept, as far as the ONNX standard provides it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from shlex import quote

import onnx
import onnx_ir as ir

from edgekit.execution.processor_layouts import OPTIMIZE_LESS, is_laid_out

_ON_THIS_SYSTEM = "install "
"""The beginning of a hint about this system rather than the device."""


def locale_hint(locale: str) -> str:
    """Advice for a node that changes texts by a locale which this system does not have."""
    language, _, encoding = locale.partition(".")
    return (
        f"{_ON_THIS_SYSTEM}the locale here (on Debian: `apt-get install locales` and "
        f"`localedef -i {language} -f {encoding or 'UTF-8'} {locale}`), or export the model with the locale C"
    )


def fix_sizes_hint(dimensions: Collection[str] = ()) -> str:
    """Returns advice for a node that is accepted once a dimension is fixed.

    Args:
        dimensions: The names of the model's open dimensions; empty if they are unknown.
    """
    named = " or ".join(f"--dim {quote(name)}=SIZE" for name in dimensions)
    return f"fix the dimension with {named or '--dim NAME=SIZE or --shape'}"


def refusal_hint(hints: Collection[str], dimensions: Collection[str]) -> str:
    """Returns advice for a model some of whose nodes are refused.

    Args:
        hints: The hints for the nodes.
        dimensions: The names of the model's open dimensions.
    """
    fix_sizes = fix_sizes_hint(dimensions)
    of_this_system = {hint for hint in hints if hint.startswith(_ON_THIS_SYSTEM)}
    if of_this_system and of_this_system == {*hints}:
        return "; ".join(sorted(of_this_system))
    if {*hints} == {OPTIMIZE_LESS}:
        return OPTIMIZE_LESS
    if fix_sizes not in hints:
        return CUT_OUT
    return fix_sizes if {*hints} == {fix_sizes} else f"{fix_sizes}; for the other nodes, {CUT_OUT}"


def definition_hint(node: ir.Node, opset: int, takes: Callable[[str], bool]) -> str:
    """Returns advice to replace the node by its definition in the standard, if the device accepts all of its operators.

    Args:
        node: The node.
        opset: The version of the standard operators that the model imports.
        takes: Whether the device accepts an operator of the standard, by its name.

    Returns:
        The advice, or an empty string if the standard has no definition, or one with an operator not accepted.
    """
    if node.domain:
        return ""
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError:
        return ""
    parts = [part.op_type for part in schema.function_body.node if part.op_type != "Constant"]
    if not parts or not all(map(takes, parts)):
        return ""
    return f"replace it by its definition in the standard, which needs only {_listed(list(dict.fromkeys(parts)))}"


def since_version(node: ir.Node, opset: int) -> int | None:
    """The schema version that a node has in a model's operator set; None where ONNX does not know the operator."""
    try:
        return onnx.defs.get_schema(node.op_type, opset, node.domain).since_version
    except onnx.defs.SchemaError:
        return None


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_REPLACEMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Clip": ("write it as Min and Max", ("Min", "Max")),
    "DynamicQuantizeLinear": ("quantize the float model with fixed scales: `edgekit quantize`", ("QuantizeLinear",)),
    "Einsum": ("write it as MatMul between Transpose and Reshape", ("MatMul", "Transpose", "Reshape")),
    "Erf": ("export Gelu with approximate='tanh'", ("Tanh", "Mul", "Add")),
    "Gather": ("write it as Slice where its indices are constant and follow each other", ("Slice",)),
    "GRU": ("write the steps out as MatMul, Sigmoid, Tanh and Mul", ("MatMul", "Sigmoid", "Tanh", "Mul")),
    "If": ("export the branch that is used alone", ()),
    "LSTM": ("write the steps out as MatMul, Sigmoid, Tanh and Mul", ("MatMul", "Sigmoid", "Tanh", "Mul")),
    "Loop": ("export it unrolled", ()),
    "MatMulInteger": ("quantize the float model with fixed scales: `edgekit quantize`", ("QuantizeLinear", "MatMul")),
    "NonMaxSuppression": ("leave it to the app", ()),
    "RNN": ("write the steps out as MatMul, Tanh and Add", ("MatMul", "Tanh", "Add")),
    "Scan": ("export it unrolled", ()),
}
"""For each operator, another way to compute the same, and the operators that this needs."""

CUT_OUT = "cut the model before them with `edgekit extract`, or export it with other operators"
CUT_OFF = "if it stands at the model's beginning or end, `edgekit extract` cuts it off"


def replacement_hint(node: ir.Node, opset: int, takes: Callable[[str], bool] | None = None) -> str:
    """Returns advice on what could replace a node that a device does not accept.

    Args:
        node: The node.
        opset: The version of the standard operators that the model imports.
        takes: Whether the device accepts an operator of the standard, by its name; None if that is unknown.
    """
    if is_laid_out(node):
        return OPTIMIZE_LESS
    text, needs = _REPLACEMENTS.get(node.op_type, ("", ())) if node.domain == "" else ("", ())
    if text and (takes is None or all(map(takes, needs))):
        return text
    return ("" if takes is None else definition_hint(node, opset, takes)) or CUT_OFF

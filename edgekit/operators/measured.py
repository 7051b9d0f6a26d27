"""Tables of measured cases: how many nodes like a given one a device's compiler accepted, as others measured it.

A table is a JSON file::

    {
      "source": …, "version": …, "date": when the table was copied from the source,
      "measured": what compiled the cases,
      "operators": {operator, preceded by its domain unless that is the standard one: TREE}
    }

A TREE is ``[compiled, cases]``, or ``{"by": feature, "of": {value: TREE}}`` if cases differ by a feature: ``type:N``
and ``rank:N`` of input N, ``version`` of the operator (a node's, or the greatest below), ``constants`` (for each input
that ``inputs`` lists: ``C`` for a constant, ``-`` for a computed one, ``.`` for none), or the name of an attribute that
is a text or an integer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import onnx_ir as ir

from edgekit.graph.nodes import input_at
from edgekit.model import op_name
from edgekit.operators.hints import since_version

TAKEN = 0.8
"""The least share of compiled cases from which a node counts as accepted."""
LEFT = 0.2
"""The greatest share of compiled cases up to which a node counts as not accepted."""

VERSION = "version"


class Cases(NamedTuple):
    """Measured cases that are like a node."""

    compiled: int
    total: int

    @property
    def is_taken(self) -> bool | None:
        """Whether the compiler takes such a node; None where cases differ."""
        share = self.compiled / self.total
        return True if share >= TAKEN else False if share <= LEFT else None


@dataclass(frozen=True)
class MeasuredTable:
    """Measurements of a device's compiler."""

    source: str
    version: str
    date: str
    measured: str
    operators: Mapping[str, Any]

    @classmethod
    @cache
    def read(cls, file: Path) -> MeasuredTable:
        """Reads the table from a file in the form that this module describes."""
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    def cases_like(self, node: ir.Node, opset: int) -> Cases | None:
        """The cases that share most with a node; None where its operator was not measured.

        Args:
            node: A node; types and shapes of its inputs are known as far as they can be inferred.
            opset: The version of its domain's operators.
        """
        tree = self.operators.get(op_name(node))
        if tree is None:
            return None
        while isinstance(tree, dict):
            value = feature(node, tree["by"], opset, tree.get("inputs", ()))
            if tree["by"] == VERSION and value is not None:
                value = max((version for version in tree["of"] if int(version) <= int(value)), key=int, default=None)
            if value not in tree["of"]:
                break
            tree = tree["of"][value]
        return _all_of(tree)

    def text_on(self, cases: Cases) -> str:
        """Returns the text about the cases for a verdict."""
        share = f"{cases.compiled} of {cases.total}"
        return f"compiled in {share} cases like it, measured with {self.measured} ({self.version})"


def feature(node: ir.Node, name: str, opset: int, inputs: tuple[int, ...] = ()) -> str | None:
    """The value of a feature by which tables tell cases apart; None where it is not known."""
    if name == VERSION:
        version = since_version(node, opset)
        return None if version is None else str(version)
    if name == "constants":
        return "".join(_kind_of(node, place) for place in inputs)
    kind, colon, place = name.partition(":")
    if colon:
        value = node.inputs[int(place)] if int(place) < len(node.inputs) else None
        if value is None:
            return None
        known = value.dtype if kind == "type" else value.shape
        return None if known is None else known.name if isinstance(known, ir.DataType) else str(known.rank())
    given = node.attributes.get(name)
    if given is None:
        return default_of(node.op_type, node.domain, opset, name)
    if given.type not in (ir.AttributeType.STRING, ir.AttributeType.INT):
        return None
    return given.as_string() if given.type == ir.AttributeType.STRING else str(given.as_int())


def default_of(op_type: str, domain: str, opset: int, attribute: str) -> str | None:
    """The default of an operator's attribute that is a text or an integer; None where there is none."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    known = schema.attributes.get(attribute)
    if known is None or known.default_value.type not in (onnx.AttributeProto.STRING, onnx.AttributeProto.INT):
        return None
    value = onnx.helper.get_attribute_value(known.default_value)
    return value.decode() if isinstance(value, bytes) else str(value)


def _kind_of(node: ir.Node, place: int) -> str:
    value = input_at(node, place)
    if value is None:
        return "."
    return "-" if ir.convenience.get_const_tensor(value) is None else "C"


def _all_of(tree: Any) -> Cases:
    """Returns the sums of all cases in a tree."""
    if not isinstance(tree, dict):
        return Cases(*tree)
    parts = [_all_of(part) for part in tree["of"].values()]
    return Cases(sum(part.compiled for part in parts), sum(part.total for part in parts))

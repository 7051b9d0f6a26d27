"""The attributes that a node leaves out: what lowerings take for them, compared with the operators' schemas."""

from __future__ import annotations

import inspect
from typing import Any

import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from edgekit_mil.ops.catalogue import all_lowerings

OF_ONNX_RUNTIME = {(each.domain, each.name, each.since_version): each.attributes for each in get_all_operator_schema()}
ENTRIES = {
    f"{each.domain or 'ai.onnx'}.{each.op_type}-{version}": (each, version)
    for each in all_lowerings()
    for version in each.versions
}
OTHER_NAMES = {"bilinear": "linear"}
"""Names of one mode in different versions."""


def value_of(attribute: onnx.AttributeProto) -> Any:
    """An attribute's value, with text as text; None if there is none."""
    value = onnx.helper.get_attribute_value(attribute) if attribute.type else None
    if isinstance(value, list):
        return [each.decode() if isinstance(each, bytes) else each for each in value]
    return value.decode() if isinstance(value, bytes) else value


def defaults(domain: str, op_type: str, version: int) -> dict[str, Any]:
    """The default of each attribute that has one, by ONNX's schema; by ONNX Runtime's for operators of its own."""
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        own = OF_ONNX_RUNTIME[domain, op_type, version]
        told = {name: value_of(onnx.AttributeProto.FromString(each._default_value)) for name, each in own.items()}
    else:
        told = {name: value_of(each.default_value) for name, each in schema.attributes.items()}
    return {name: OTHER_NAMES.get(str(value), value) for name, value in told.items() if value is not None}


@pytest.mark.parametrize("name", ENTRIES)
def test_attributes_that_are_left_out_have_the_default_of_the_schema(name: str) -> None:
    entry, version = ENTRIES[name]
    parameters = inspect.signature(entry.function).parameters
    for attribute, default in defaults(entry.domain, entry.op_type, version).items():
        given = None if attribute not in parameters else parameters[attribute].default
        if given is not None:  # None: the function tells by the version
            expected = pytest.approx(default, rel=1e-6) if isinstance(default, float) else default
            assert (list(given) if isinstance(given, tuple) else given) == expected, attribute


def test_a_default_is_compared() -> None:
    assert defaults("", "LeakyRelu", 16) == {"alpha": pytest.approx(0.01)}
    assert defaults("com.microsoft", "GroupQueryAttention", 1)["smooth_softmax"] == -1
    assert len(ENTRIES) > 300

"""A file's message, checked and mended before a graph is made of it: for commands and for plugins' own functions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import onnx

from edgekit.errors import InputError
from edgekit.graph.reading.compared_texts import look_compared_texts_up
from edgekit.graph.reading.fed_initializers import feed_initializers
from edgekit.graph.reading.mending import drop_shadowed_functions, mend, name_standard_domain, write_out_defaults
from edgekit.graph.reading.onnx_file import check_opset
from edgekit.graph.reading.operands import check_operands
from edgekit.graph.reading.qonnx_operators import write_out_qonnx_operators
from edgekit.graph.reading.simplified_norms import write_out_simplified_norms
from edgekit.graph.reading.sparse_tensors import write_dense
from edgekit.graph.reading.tensorflow_operators import write_out_tensorflow_operators
from edgekit.graph.reading.values import check_values, pass_on_outer_values
from edgekit.graph.reading.vetting import (
    check_depth,
    check_equations,
    check_expansion,
    check_references,
    check_texts,
)

_CHECKS = (
    check_depth,
    check_expansion,
    check_equations,
    check_operands,
    check_references,
    check_values,
    check_opset,
)


@dataclass(frozen=True)
class Mended:
    """What was changed in a message."""

    warnings: list[str]
    """Repairs of what breaks ONNX's rules, in words."""
    fed: list[str]
    """The names of initializers that became inputs."""
    is_changed: bool
    """Whether anything was changed."""


def checked_and_mended(proto: onnx.ModelProto, path: Path, fed: Collection[str] = ()) -> Mended:
    """Checks a message by the rules that ONNX's checker lacks or words badly, and mends it in place.

    Args:
        proto: The model.
        path: Its file, or what to call it in errors.
        fed: The names of initializers that are fed.

    Raises:
        InputError: The message breaks a rule in a way that leaves open what is meant, or computes nothing.
    """
    renamed = name_standard_domain(proto)
    shadowed = drop_shadowed_functions(proto)
    for check in _CHECKS:
        check(proto, path)
    densified = write_dense(proto, path)
    if not proto.graph.node:
        raise InputError(
            "has no nodes: there is nothing to compute",
            subject=path,
            hint="export the model again; an exporter folds what does not depend on the inputs into constants",
        )
    if not proto.graph.output:
        raise InputError(
            "has no outputs: nothing that it computes is returned",
            subject=path,
            hint="export the model again, with the values to return as outputs",
        )
    inputs = feed_initializers(proto, fed)
    mended = [
        *shadowed,
        *pass_on_outer_values(proto),
        *mend(proto),
        *write_out_tensorflow_operators(proto),
        *write_out_qonnx_operators(proto),
        *look_compared_texts_up(proto),
    ]
    check_texts(proto, path)
    written = write_out_simplified_norms(proto) | write_out_defaults(proto)
    return Mended(mended, inputs, renamed or densified or written or bool(mended or inputs))

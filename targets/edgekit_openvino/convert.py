"""ONNX to OpenVINO IR, with the frontend's failures told apart and made EdgeKit's errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgekit.errors import InputError, OpGap, UnsupportedOpsError
from edgekit.model import node_name, op_name

NO_RULE = re.compile(r"No conversion rule found for operations: (?P<ops>.+)")
VERSION_SUFFIX = re.compile(r"-\d+$")


def read_onnx(source: Path) -> Any:
    """The ``openvino.Model`` of an ONNX file.

    Raises:
        edgekit.errors.UnsupportedOpsError: OpenVINO cannot convert some operators; all of them are listed.
        edgekit.errors.InputError: The file is not a model that OpenVINO can read.
    """
    import openvino

    try:
        return openvino.Core().read_model(source)
    except RuntimeError as error:
        gaps = _gaps(str(error), source)
        if gaps:
            raise UnsupportedOpsError(gaps, subject=source.name) from error
        raise InputError(f"OpenVINO cannot convert the model: {last_line(error)}", subject=source) from error


def write_ir(source: Path, target: Path, *, half_weights: bool) -> None:
    """Write the ONNX file at ``source`` as IR: ``target`` and a ``.bin`` file of the same name.

    Raises:
        edgekit.errors.UnsupportedOpsError: OpenVINO cannot convert some operators; all of them are listed.
        edgekit.errors.InputError: The file is not a model that OpenVINO can read.
    """
    save_ir(read_onnx(source), target, half_weights=half_weights)


def save_ir(model: Any, target: Path, *, half_weights: bool) -> None:
    """Write an ``openvino.Model`` to ``target`` (``.xml``) and a ``.bin`` file of the same name."""
    import openvino

    openvino.save_model(model, target, compress_to_fp16=half_weights)


def last_line(error: Exception) -> str:
    """What OpenVINO says went wrong, without the places in its source that passed it on."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in reversed(lines) if line), type(error).__name__)


def _gaps(text: str, source: Path) -> list[OpGap]:
    """The nodes of the operators that the frontend says it has no rule for."""
    match = NO_RULE.search(text)
    if match is None:
        return []
    missing = {VERSION_SUFFIX.sub("", name.strip()) for name in match["ops"].split(",")}
    return [
        OpGap(op_name(node), node_name(node), "OpenVINO's ONNX frontend has no conversion for it")
        for node in ir.load(source).graph.all_nodes()
        if op_name(node) in missing
    ]

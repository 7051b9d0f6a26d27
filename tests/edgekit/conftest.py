from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from edgekit.cli import main


@dataclass(frozen=True)
class Finished:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


RunEdgeKit = Callable[..., Finished]
WriteOnnx = Callable[..., Path]


@pytest.fixture
def edgekit(capsys: pytest.CaptureFixture[str]) -> RunEdgeKit:
    """Runs one command line in this process."""

    def run(*arguments: object) -> Finished:
        code = main([str(argument) for argument in arguments])
        return Finished(code, *capsys.readouterr())

    return run


def parse_onnx(graph: str, *, opset: int = 17, ir_version: int = 8, **initializers: np.ndarray) -> onnx.ModelProto:
    """A model from ONNX's textual syntax, with initializers from arrays."""
    model = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> {graph}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in initializers.items())
    return model


@pytest.fixture(scope="session")
def onnx_model() -> Callable[..., onnx.ModelProto]:
    """Makes a model from ONNX's textual syntax, with initializers from arrays."""
    return parse_onnx


@pytest.fixture
def onnx_file(tmp_path: Path) -> WriteOnnx:
    """Likewise, and writes it to a file."""

    def write(graph: str, *, name: str = "model.onnx", **rest: Any) -> Path:
        path = tmp_path / name
        onnx.save(parse_onnx(graph, **rest), path)
        return path

    return write

"""The version of the file format that a model is marked with."""

import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.reading.ir_version import with_least_mark


def marked(opsets: str, version: int = 10, element: str = "float") -> ir.Model:
    header = f"<ir_version: {version}, opset_import: [{opsets}]>"
    graph = f"g ({element}[2] x) => ({element}[2] y) {{ y = Identity(x) }}"
    return ir.from_proto(onnx.parser.parse_model(f"{header} {graph}"))


@pytest.mark.parametrize(
    ("opsets", "least"),
    [  # as docs/Versioning.md of the ONNX standard has them
        ('"": 9', 4),
        ('"": 13', 7),
        ('"": 17', 8),
        ('"": 20', 9),
        ('"": 21', 10),
        ('"": 17, "ai.onnx.ml": 3, "com.microsoft": 1', 8),
        ('"": 12, "ai.onnx.ml": 4', 9),
    ],
)
def test_the_oldest_version_that_has_the_operator_sets(opsets: str, least: int) -> None:
    model = marked(opsets)
    assert with_least_mark(model).ir_version == least
    assert model.ir_version == 10


@pytest.mark.parametrize(
    ("opsets", "version", "element"),
    [('"": 17', 7, "float"), ('"": 17', 10, "uint4"), ('"": 9999', 10, "float")],
)
def test_a_mark_that_stays(opsets: str, version: int, element: str) -> None:
    """It is lower, the model has types that came with it, or operators that the package onnx does not know."""
    assert with_least_mark(marked(opsets, version, element)).ir_version == version

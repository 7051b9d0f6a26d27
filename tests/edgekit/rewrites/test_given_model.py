from __future__ import annotations

import onnx
import pytest

from edgekit.errors import InputError
from edgekit.rewrites.given_model import given_model


def test_a_model_with_a_type_that_onnx_does_not_have_cannot_be_read(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    )
    model.graph.output[0].type.tensor_type.elem_type = 99
    (tmp_path / "odd.onnx").write_bytes(model.SerializeToString())
    for given in (model, tmp_path / "odd.onnx"):
        with pytest.raises(InputError, match=r"cannot be read as a model.*\n.*\nfound: ValueError: 99"):
            given_model(given)

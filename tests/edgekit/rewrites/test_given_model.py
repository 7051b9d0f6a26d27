from __future__ import annotations

import numpy as np
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


def test_a_missing_file_of_tensors_is_told_by_name(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[512] x) => (float[512] y) { y = Add (x, w) }'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(512, np.float32), "w"))
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    (tmp_path / "model.data").unlink()
    with pytest.raises(InputError, match=r"model\.onnx: .*\n(.*\n)*.*model\.data"):
        given_model(tmp_path / "model.onnx")


@pytest.mark.parametrize("size", [-1, "?", "None"])
def test_a_size_that_says_only_that_it_is_not_known_has_no_name(size):
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[N, N] x) => (float[N, N] y) { y = Relu (x) }'
    )
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.Clear()
        if isinstance(size, int):
            dim.dim_value = size
        else:
            dim.dim_param = size
    (spec,) = given_model(model).inputs
    assert spec.shape == (None, None)


def test_a_function_with_the_name_of_an_operator_is_dropped():
    """As ONNX Runtime executes the operator."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
        ' <domain: "", opset_import: ["" : 18]> Relu (a) => (b) { b = Neg (a) }'
    )
    assert not given_model(model).graph_model.functions
    assert len(model.functions) == 1


def test_a_node_at_which_the_process_would_end_is_refused():
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Max (x, "") }'
    )
    with pytest.raises(InputError, match="input 2 is left out of data_0"):
        given_model(model)

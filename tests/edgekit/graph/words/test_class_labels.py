from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.errors import InputError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.words.class_labels import Classes
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.stages.load import Load

COLOURS = ["red", "green", "blue"]


def classifier(*, texts: bool, zip_map: bool = True) -> onnx.ModelProto:
    """A logistic regression as skl2onnx writes it: a label, and a sequence of maps from class to probability."""
    rng = np.random.default_rng(1)
    labels = {"classlabels_strings": COLOURS} if texts else {"classlabels_ints": [3, 5, 8]}
    names = {"classlabels_strings": COLOURS} if texts else {"classlabels_int64s": [3, 5, 8]}
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.1] * 4, scale=[2.0] * 4),
        helper.make_node(
            "LinearClassifier",
            ["s"],
            ["own_label", "scores"],
            domain="ai.onnx.ml",
            coefficients=rng.standard_normal(12).tolist(),
            intercepts=[0.1, 0.2, 0.3],
            multi_class=1,
            post_transform="SOFTMAX",
            **labels,
        ),
        helper.make_node("Identity", ["own_label"], ["label"]),
        helper.make_node("ZipMap", ["scores"], ["probability"], domain="ai.onnx.ml", **names),
    ]
    key = TensorProto.STRING if texts else TensorProto.INT64
    of_maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    outputs = [
        helper.make_tensor_value_info("label", key, [None]),
        helper.make_value_info("probability", of_maps)
        if zip_map
        else helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, 3]),
    ]
    graph = helper.make_graph(
        nodes if zip_map else nodes[:-1],
        "colours",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])],
        outputs,
    )
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def written(proto: onnx.ModelProto, path):
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize("texts", [True, False])
def test_maps_become_a_tensor_of_the_probabilities_that_onnx_runtime_puts_into_them(tmp_path, texts):
    path = written(classifier(texts=texts), tmp_path / "m.onnx")
    result = Load()(path)
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    label, maps = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
    session = onnxruntime.InferenceSession(result.model.proto().SerializeToString())
    found = dict(zip((output.name for output in session.get_outputs()), session.run(None, {"x": x}), strict=True))
    names = COLOURS if texts else ["3", "5", "8"]
    assert result.model.class_names == tuple(names)
    assert result.record["classes"]["probability"] == names
    keys = COLOURS if texts else [3, 5, 8]
    np.testing.assert_allclose(found["probability"], [[row[key] for key in keys] for row in maps], rtol=1e-6)
    assert [names[number] for number in found["label"]] == list(label) if texts else list(found["label"]) == list(label)
    assert any("'probability' was a sequence of maps (ZipMap) and is a tensor" in text for text in result.warnings)


def test_text_labels_become_numbers_without_maps_too(tmp_path):
    result = Load()(written(classifier(texts=True, zip_map=False), tmp_path / "m.onnx"))
    assert [(spec.name, spec.dtype) for spec in result.model.outputs] == [("label", "int64"), ("scores", "float32")]
    assert result.model.class_names == tuple(COLOURS)
    (told,) = (text for text in result.warnings if "'label'" in text)
    assert told == "output 'label' was a text and is a number: the index of the class among 'red', 'green', 'blue'"


def test_an_empty_text_among_the_classes_is_seen_in_the_warning():
    (told,) = Classes(labels={"sound": ("", "r", "ng")}).warnings()
    assert told.endswith("the index of the class among '', 'r', 'ng'")


def test_a_label_encoder_of_the_first_version_tells_places(tmp_path):
    node = helper.make_node("LabelEncoder", ["x"], ["label"], domain="ai.onnx.ml", classes_strings=["no", "yes"])
    graph = helper.make_graph(
        [node],
        "labels",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [None])],
        [helper.make_tensor_value_info("label", TensorProto.STRING, [None])],
    )
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    path = written(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    model = Load()(path).model
    x = np.array([1, 0, 2, -1, 1])
    (texts,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
    (numbers,) = onnxruntime.InferenceSession(model.proto().SerializeToString()).run(None, {"x": x})
    assert model.class_names == ("no", "yes", "_Unused")
    assert [model.class_names[number] for number in numbers] == list(texts)


def test_an_input_of_maps_is_refused(tmp_path):
    of_maps = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    graph = helper.make_graph(
        [node],
        "maps",
        [helper.make_value_info("x", of_maps)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 15)])
    with pytest.raises(InputError, match="has maps, which are not tensors"):
        Load()(written(proto, tmp_path / "m.onnx"))


@pytest.mark.parametrize("target", ["intel-cpu", "ios18", "onnxruntime"])
def test_every_target_packages_a_classifier_with_maps_and_tells_its_classes(tmp_path, target):
    path = written(classifier(texts=True), tmp_path / "m.onnx")
    request = PackageRequest(path, target, tmp_path / "bundle", shapes=ShapeRequest(shapes={"x": (2, 4)}))
    package(request, Progress())
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert manifest["labels"] == COLOURS
    assert {output["name"] for output in manifest["outputs"]} == {"label", "probability"}

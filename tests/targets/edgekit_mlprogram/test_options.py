"""What is switched on by default: a picture as the input, and the class as a text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Model
from edgekit.preprocessing.image import ImagePreprocessing
from edgekit.target import BuildOptions
from edgekit_mlprogram.options import by_default, fitting, notes_of

PICTURE = ImagePreprocessing(1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), layout="NCHW")


def model(outputs: str = "float[1, 4] y", dtype: str = "float") -> Model:
    names = [one.split()[-1] for one in outputs.split(", float")]
    body = " ".join(f"{name} = Identity(x)" for name in names)
    text = f'<ir_version: 9, opset_import: ["": 17]> g ({dtype}[1, 3, 16, 16] x) => ({outputs}) {{ {body} }}'
    return Model(ir.from_proto(onnx.parser.parse_model(text)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("scale", [1 / 255, 1 / 127.5, 1.0])
def test_pixels_are_recognised_in_each_precision(dtype: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    declared = replace(PICTURE, scale=scale)
    pixels = np.concatenate([np.zeros(1), np.full(1, 255), rng.integers(0, 256, 766)]).reshape(1, 3, 16, 16)
    mean, std = (np.reshape(numbers, (1, 3, 1, 1)) for numbers in (declared.mean, declared.std))
    example = {"x": ((pixels * scale - mean) / std).astype(dtype)}
    options = BuildOptions(preprocessing=declared, examples=(example,))
    assert by_default(options, model()).options == {"image": "yes"}
    other = {"x": rng.standard_normal((1, 3, 16, 16)).astype(dtype)}
    assert by_default(replace(options, examples=(other,)), model()).options == {}


def test_the_output_that_the_user_names_is_the_classifier_s() -> None:
    two, labels = model("float[1, 4] aux, float[1, 4] logits"), BuildOptions(labels=tuple("abcd"))
    assert by_default(labels, model()).options == {"classifier": "yes"}
    assert notes_of(labels, model()) == []
    assert by_default(labels, two).options == {}
    assert notes_of(labels, two) == [
        "outputs 'aux' and 'logits' fit the 4 labels, so no classifier was made: "
        "classes = NAME under [outputs] in edgekit.toml chooses one"
    ]
    chosen = two.with_outputs(DeclaredOutputs(classes="logits"))
    assert by_default(labels, chosen).options == {"classifier": "yes"}
    assert notes_of(labels, chosen) == []


def test_the_probabilities_beside_their_logits_are_the_classifier_s() -> None:
    text = """<ir_version: 9, opset_import: ["": 17]> g (float[1, 4] x) => (float[1, 4] logits, float[1, 4] shares) {
        logits = Neg(x) shares = Softmax(logits)
    }"""
    both, labels = Model(ir.from_proto(onnx.parser.parse_model(text))), BuildOptions(labels=tuple("abcd"))
    assert fitting(both, labels.labels) == ["shares"]
    assert by_default(labels, both).options == {"classifier": "yes"}
    assert notes_of(labels, both) == []

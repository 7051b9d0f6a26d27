from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.comparison.decisions.classes import ambiguity, classes_of, require_class_output
from edgekit.comparison.decisions.label_accuracy import LabelCount, class_output
from edgekit.errors import InputError
from edgekit.features.class_scores import ClassChoice
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Model

TWO = (
    "float[1, 2] places, float[1, 4] aux, float[1, 4] logits",
    "places = Flatten <axis = 0> (p) aux = Neg(x) logits = Sigmoid(x)",
)
ANSWER = {"places": np.zeros((1, 2), np.float32), **dict.fromkeys(("aux", "logits"), np.ones((1, 4), np.float32))}


def model(names: str = "", declared: str | None = None, outputs: tuple[str, str] = TWO) -> Model:
    text = f'<ir_version: 9, opset_import: ["": 17]> g (float[1, 4] x, float[2] p) => ({outputs[0]}) {{ {outputs[1]} }}'
    made = Model(ir.from_proto(onnx.parser.parse_model(text)), class_names=tuple(names))
    return made.with_outputs(None if declared is None else DeclaredOutputs(classes=declared))


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (None, "places"),
        (ClassChoice(classes=4), "aux"),
        (ClassChoice("logits", 4), "logits"),
        (ClassChoice(classes=7), "places"),
    ],
)
def test_the_output_that_has_a_number_for_each_class(choice: ClassChoice | None, name: str) -> None:
    assert class_output(ANSWER, choice) == name


def test_a_sample_for_which_a_list_is_empty_has_no_class() -> None:
    """The scores of what a detector finds."""
    count = LabelCount("scores")
    for scores in ([0.2, 0.8], [], [0.3, 0.4, 0.1]):
        count.add(1, {"scores": np.array(scores, np.float32)}, "a picture")
    assert count.accuracy == 2 / 3
    assert count.answers == {(1, 1): 2, (1, None): 1}


def test_what_tells_the_class_and_how() -> None:
    named = classes_of(model("abcd", "logits"), [ANSWER])
    assert named is not None
    assert named.as_record() == {"output": "logits", "scores": "independent"}
    assert classes_of(model("abcdefg"), [ANSWER]) is None
    number = model(outputs=("int64[1] n", "f = ArgMax <axis = 1, keepdims = 0> (x) n = Identity(f)"))
    told = classes_of(number, [{"n": np.array([3])}])
    assert told is not None
    assert told.as_record() == {"output": "n", "scores": None}


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (
            "f = ArgMax <axis = 1, keepdims = 0> (x) label = Identity(f)",
            {"output": "scores", "scores": "probabilities"},
        ),
        ("label = ArgMin <axis = 1, keepdims = 0> (x)", {"output": "label", "scores": None}),
    ],
)
def test_scores_beside_a_label_that_is_their_greatest(label: str, expected: dict[str, str | None]) -> None:
    made = model("abcd", outputs=("int64[1] label, float[1, 4] scores", f"{label} scores = Softmax(x)"))
    told = classes_of(made, [{"label": np.array([3]), "scores": np.full((1, 4), 0.25, np.float32)}])
    assert told is not None
    assert told.as_record() == expected


def trees(transform: str, classes: list[int]) -> onnx.ModelProto:
    """A tree that tells three classes apart by one number: below -1, below 1, above."""
    tree = {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": list(range(5)),
        "nodes_featureids": [0] * 5,
        "nodes_modes": ["BRANCH_LT", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
        "nodes_values": [-1.0, 0.0, 1.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 3, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0],
        "class_treeids": [0] * 9,
        "class_nodeids": [1, 1, 1, 3, 3, 3, 4, 4, 4],
        "class_ids": [0, 1, 2] * 3,
        "class_weights": [0.7, 0.2, 0.1, 0.1, 0.6, 0.3, 0.0, 0.2, 0.8],
    }
    node = onnx.helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "p"],
        domain="ai.onnx.ml",
        post_transform=transform,
        classlabels_int64s=classes,
        **tree,
    )
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1])],
        [
            onnx.helper.make_tensor_value_info("label", onnx.TensorProto.INT64, [1]),
            onnx.helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, [1, 3]),
        ],
    )
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize(
    ("transform", "classes", "names", "expected"),
    [
        ("NONE", [0, 1, 2], "", {"output": "p", "scores": "probabilities"}),
        ("SOFTMAX", [0, 1, 2], "", {"output": "p", "scores": "probabilities"}),
        ("NONE", [3, 5, 8], "abc", {"output": "p", "scores": "probabilities"}),
        ("NONE", [3, 5, 8], "", {"output": "label", "scores": None, "numbers": [3, 5, 8]}),  # apps would show 0, 1, 2
        ("SOFTMAX_ZERO", [0, 1, 2], "", {"output": "label", "scores": None}),  # moves a score of 0 behind others
    ],
)
def test_probabilities_beside_the_label_of_a_tree(
    transform: str, classes: list[int], names: str, expected: dict[str, Any]
) -> None:
    """As scikit-learn's, XGBoost's and LightGBM's exporters write classifiers."""
    proto = trees(transform, classes)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    answers = [
        dict(zip(("label", "p"), session.run(["label", "p"], {"x": np.array([[x]], np.float32)}), strict=True))
        for x in (-2.0, 0.0, 2.0)
    ]
    assert [int(answer["label"][0]) for answer in answers] == classes
    assert [int(answer["p"].argmax()) for answer in answers] == [0, 1, 2]
    numbers = {} if classes == [0, 1, 2] else {"label": tuple(classes)}
    told = classes_of(Model(ir.from_proto(proto), class_names=tuple(names), class_numbers=numbers), answers)
    assert told is not None
    assert told.as_record() == expected


def test_two_outputs_that_fit_are_told() -> None:
    assert ambiguity(model("abcd"), labelled=False) == (
        "2 outputs may tell the class: 'aux', 'logits'; it is read from the first, 'aux'; "
        'classes = "logits" under [outputs] in edgekit.toml chooses another'
    )
    assert (ambiguity(model(), labelled=True) or "").startswith("3 outputs may tell the class: 'places', ")
    assert ambiguity(model("ab"), labelled=False) is None
    assert ambiguity(model(), labelled=False) is None
    assert ambiguity(model("abcd", "logits"), labelled=True) is None


def test_a_state_does_not_tell_the_class_where_another_output_may() -> None:
    """A recurrent model as an app carries it on: its state is an input behind the first, and an output."""
    text = (
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 4] x, float[1, 1, 4] h) =>'
        " (float[1, 1, 4] hn, float[1, 3] logits, float[1, 4] aux) { hn = Neg(h) logits = ReduceSum(h) aux = Neg(x) }"
    )
    made = Model(ir.from_proto(onnx.parser.parse_model(text)))
    answer = {"hn": np.zeros((1, 1, 4), np.float32), "logits": np.zeros((1, 3), np.float32)}
    assert made.class_choice.states == {"hn"}
    assert class_output(answer, made.class_choice) == "logits"
    assert class_output(answer) == "hn"
    assert class_output({"hn": answer["hn"]}, made.class_choice) == "hn"
    told = ambiguity(made, labelled=True) or ""
    assert told.startswith("2 outputs may tell the class: 'logits', 'aux'; it is read from the first, 'logits'")


SERVED = "float[1, 4] logits, float[1, 4] probabilities"
"""As a signature of TensorFlow gives both."""


@pytest.mark.parametrize(
    "nodes",
    [
        "logits = Neg(x) probabilities = Softmax(logits)",
        "h = Neg(x) logits = Identity(h) s = Softmax <axis = 1> (h) probabilities = Identity(s)",
    ],
)
def test_of_logits_and_their_softmax_the_probabilities_tell_the_class(nodes: str) -> None:
    made = model("abcd", outputs=(SERVED, nodes))
    answer = {name: np.array([[0.1, 0.2, 0.3, 0.4]], np.float32) for name in ("logits", "probabilities")}
    assert ambiguity(made, labelled=True) is None
    assert class_output(answer, made.class_choice) == "probabilities"
    told = classes_of(made, [answer])
    assert told is not None
    assert told.as_record() == {"output": "probabilities", "scores": "probabilities"}
    assert class_output(answer, model("abcd", "logits", (SERVED, nodes)).class_choice) == "logits"


@pytest.mark.parametrize(
    "nodes",
    [
        "logits = Neg(x) h = Abs(x) probabilities = Softmax(h)",
        "logits = Neg(x) probabilities = Softmax <axis = 0> (logits)",  # ones alone
    ],
)
def test_a_softmax_of_something_else_leaves_the_choice_open(nodes: str) -> None:
    made = model("abcd", outputs=(SERVED, nodes))
    assert made.class_choice.superseded == set()
    assert "2 outputs may tell the class" in (ambiguity(made, labelled=True) or "")


def test_an_embedding_tells_no_class_unless_the_user_says_so() -> None:
    alone = model(outputs=("float[1, 4] v", "v = Sigmoid(x)"))
    answers = [{"v": np.ones((1, 4), np.float32)}]
    assert classes_of(alone, answers, {"v"}) is None
    assert classes_of(alone, answers) is not None
    said = classes_of(model(declared="v", outputs=("float[1, 4] v", "v = Sigmoid(x)")), answers, {"v"})
    assert said is not None
    assert said.output == "v"


def test_an_output_that_the_labels_do_not_fit_is_refused() -> None:
    require_class_output(model("abcd", "logits"))
    with pytest.raises(InputError) as raised:
        require_class_output(model("abcd", "places"))
    text = str(raised.value)
    assert text.startswith("[outputs] classes: the output does not tell a class")
    assert "expected: 4 numbers, one for each label\nfound: places: float32 1×2" in text
    with pytest.raises(InputError, match=r"\[outputs\] classes: the model has no such output"):
        model("abcd", "logit")

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.features.class_scores import (
    Scores,
    is_greatest_of,
    probabilities_of,
    scores_by_graph,
    scores_of,
    superseded_by_softmax,
)


def output(body: str) -> ir.Value:
    text = f'<ir_version: 9, opset_import: ["": 17]> g (float[1, 3] x) => (y) <int64[1] last = {{-1}}> {{ {body} }}'
    return ir.from_proto(onnx.parser.parse_model(text)).graph.outputs[0]


@pytest.mark.parametrize(
    ("body", "scores"),
    [
        ("y = Softmax(x)", Scores.PROBABILITIES),
        ("s = Softmax(x) f = Flatten(s) y = Identity(f)", Scores.PROBABILITIES),
        ("e = Exp(x) s = ReduceSum(e, last) y = Div(e, s)", Scores.PROBABILITIES),
        ("e = Exp(x) s = ReduceSum(e, last) l = Log(s) y = Sub(x, l)", Scores.LOGITS),
        ("y = LogSoftmax(x)", Scores.LOGITS),
        ("y = Sigmoid(x)", Scores.INDEPENDENT),
        ("s = Sigmoid(x) y = Squeeze(s)", Scores.INDEPENDENT),
        ("s = Softmax(x) y = Mul(s, x)", None),
        ("y = Div(x, x)", None),
        ("y = Neg(x)", None),
    ],
)
def test_the_graph_tells_what_scores_are(body: str, scores: Scores | None) -> None:
    assert scores_by_graph(output(body)) is scores


@pytest.mark.parametrize(
    ("values", "scores"),
    [
        ([[0.2, 0.8], [0.5, 0.5]], Scores.PROBABILITIES),
        ([[0.2, 0.8], [0.9, 0.5]], Scores.INDEPENDENT),
        ([[0.2, 0.8], [-3.0, 4.0]], Scores.LOGITS),
        ([[0.2, np.nan]], Scores.LOGITS),
    ],
)
def test_values_tell_it_where_the_graph_does_not(values: list[list[float]], scores: Scores) -> None:
    answers = [np.array([row], np.float32) for row in values]
    assert scores_of(None, answers) is scores
    assert scores_of(output("y = Sigmoid(x)"), answers) is Scores.INDEPENDENT


def test_probabilities() -> None:
    scores = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(probabilities_of(scores, Scores.LOGITS), [0.090031, 0.244728, 0.665241], atol=1e-6)
    np.testing.assert_array_equal(probabilities_of(scores / 4, Scores.INDEPENDENT), scores / 4)


def test_a_softmax_that_is_written_out_is_made_of_logits() -> None:
    text = """<ir_version: 9, opset_import: ["": 17]>
        g (float[1, 3] x) => (float[1, 3] logits, float[1, 3] shares, int64[1, 1] label) <int64[1] last = {-1}> {
            logits = Neg (x)  m = ReduceMax <axes = [-1]> (logits)  z = Sub (logits, m)  e = Exp (z)
            s = ReduceSum (e, last)  shares = Div (e, s)  label = ArgMax <axis = 1> (logits)
        }"""
    logits, shares, label = ir.from_proto(onnx.parser.parse_model(text)).graph.outputs
    assert superseded_by_softmax([logits, shares]) == {"logits"}
    assert is_greatest_of(label, shares)

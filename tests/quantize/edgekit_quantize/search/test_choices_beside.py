"""What candidates lose of the outputs beside the first, on answers that are counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.comparison.decisions import Decision
from edgekit.comparison.told_decisions import decisions_of
from edgekit.data.samples import Sample
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.search.choices_beside import choices_beside, is_first_made_into
from edgekit_quantize.search.scoring import Scorer

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
FACES = f"""{HEADER}
g (float[1, 8] x) => (float[1, 4] box, float[1, 2] face) {{
  r = Gemm(x, w1, b1)
  h = Relu(r)
  box = Gemm(h, w2, b2)
  f = Gemm(h, w3, b3)
  face = Softmax(f)
}}"""
SECOND = {"root": Decision(axis=-1, told=True, are_scores=True)}


class Vectors:
    """Samples drawn anew, and alike, on every walk."""

    has_labels = False

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(5)
        for number in range(len(self)):
            yield Sample(str(number), {"x": rng.normal(size=(1, 8)).astype(np.float32)})


@pytest.fixture
def faces(parse: Callable[..., ir.Model], rng: np.random.Generator) -> Model:
    """A box, and behind it whether it holds a face: of 8 numbers, by as many hidden ones."""
    shapes = {"w1": (8, 8), "b1": (8,), "w2": (8, 4), "b2": (4,), "w3": (8, 2), "b3": (2,)}
    return Model(parse(FACES, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}))


@pytest.mark.parametrize(("changed", "value"), [(0, 1.0), (2, 1.0), (10, 0.9)])
def test_a_second_head_limits_what_the_first_one_keeps(changed: int, value: float) -> None:
    """Of a hundred roots; two that change may be luck: 2 - 1.645 √2 is less than one, and 10 - 1.645 √10 is 4.8."""
    eye = np.eye(5, dtype=np.float32)
    rows = [Reference({"x": np.int64(n)}, {"bass": eye[n % 5][None], "root": eye[n * 3 % 5][None]}) for n in range(100)]

    def candidate(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = int(feeds["x"])
        roots = eye[(number * 3 + (number < changed)) % 5][None]
        return {"bass": rows[number].outputs["bass"], "root": roots}

    score = Scorer.by_references(References.of(rows), classes=True, beside=SECOND)(candidate)
    assert (score.metric, score.value, score.head) == ("agreement", value, "root" if value < 1 else None)


def test_a_second_head_of_one_number_does_not_count() -> None:
    eye = np.eye(5, dtype=np.float32)
    rows = [Reference({"x": np.int64(n)}, {"bass": eye[n % 5][None], "root": eye[:1, :1]}) for n in range(20)]

    scorer = Scorer.by_references(References.of(rows), classes=True, beside=SECOND)

    assert not scorer.beside


def test_a_box_in_front_of_a_softmax_is_no_choice_of_one_side(faces: Model) -> None:
    """Both end with a product and a bias; which of a box's four numbers is the largest says nothing."""
    request = QuantizationRequest(faces, scheme="int8", samples=Vectors(), max_drop=1.0)
    record = PostTrainingQuantizer().quantize(request).record
    assert {trial["metric"] for trial in record["curve"]} == {"explained"}


def test_logits_in_front_of_their_own_probabilities_are_a_choice(parse: Callable[..., ir.Model]) -> None:
    nodes = "l = Gemm(x, w) p = Softmax(l)"
    text = f"{HEADER} g (float[1, 8] x) => (float[1, 3] l, float[1, 3] p) {{ {nodes} }}"
    graph = parse(text, w=np.ones((8, 3), np.float32)).graph
    assert is_first_made_into(graph, choices_beside(graph, decisions_of(Model(parse(text, w=np.ones((8, 3), "f"))))))


def test_a_box_is_not_made_into_what_stands_beside_it(faces: Model) -> None:
    beside = choices_beside(faces.graph, decisions_of(faces))
    assert [*beside] == ["face"]
    assert not is_first_made_into(faces.graph, beside)


def test_weights_of_an_attention_are_no_choice(parse: Callable[..., ir.Model]) -> None:
    nodes = "t = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, t) a = Softmax(s) y = MatMul(a, x)"
    text = f"{HEADER} g (float[1, 6, 4] x) => (float[1, 6, 4] y, float[1, 6, 6] a) {{ {nodes} }}"
    model = Model(parse(text))
    told = decisions_of(model)["a"]
    assert told is not None
    assert told.told
    assert choices_beside(model.graph, decisions_of(model)) == {}

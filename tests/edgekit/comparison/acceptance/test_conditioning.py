from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.conditioning import KnownConditioning, conditioning
from edgekit.comparison.acceptance.self_agreement import with_self_agreement
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import Sample
from edgekit.execution.reference import Reference
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

RNG = np.random.default_rng(0)
STEPS = 12
WEIGHTS = {
    "m": RNG.standard_normal((64, 64)).astype(np.float32),
    "b": RNG.standard_normal(64).astype(np.float32) / 3,
    "four": np.array(3.99, np.float32),
    "one": np.array(1, np.float32),
    "half": np.array(0.5, np.float32),
}

CHAOS = " ".join(
    f"n{step} = Sub (one, s{step}) p{step} = Mul (s{step}, n{step}) s{step + 1} = Mul (four, p{step})"
    for step in range(STEPS)
)
"""The logistic map, which doubles a difference at every step."""

GRAPH = f"""g (float[1, 64] x) => (float[1, 64] y) {{
    h = MatMul (x, m)
    a = Add (h, b)
    s0 = Sigmoid (a)
    {CHAOS}
    y = Sub (s{STEPS}, half)
}}"""

FAULTS = {
    "matrix transposed": ("h = MatMul (x, m)", "t = Transpose (m) h = MatMul (x, t)"),
    "bias lost": ("a = Add (h, b)", "a = Identity (h)"),
    "bias taken off": ("a = Add (h, b)", "a = Sub (h, b)"),
    "bias doubled": ("a = Add (h, b)", "c = Add (b, b) a = Add (h, c)"),
    "tanh in place of sigmoid": ("s0 = Sigmoid (a)", "t0 = Tanh (a) s0 = Abs (t0)"),
    "hard sigmoid": ("s0 = Sigmoid (a)", "s0 = HardSigmoid (a)"),
    "relu before sigmoid": ("s0 = Sigmoid (a)", "r = Relu (a) s0 = Sigmoid (r)"),
    "softmax in place of sigmoid": ("s0 = Sigmoid (a)", "s0 = Softmax (a)"),
    "input halved": ("h = MatMul (x, m)", "i = Mul (x, half) h = MatMul (i, m)"),
    "input without its sign": ("h = MatMul (x, m)", "i = Abs (x) h = MatMul (i, m)"),
    "a step lost": ("n5 = Sub (one, s5) p5 = Mul (s5, n5) s6 = Mul (four, p5)", "s6 = Identity (s5)"),
    "the last step lost": ("n11 = Sub (one, s11) p11 = Mul (s11, n11) s12 = Mul (four, p11)", "s12 = Identity (s11)"),
    "operands of a step swapped": ("n3 = Sub (one, s3)", "n3 = Sub (s3, one)"),
    "a factor lost": ("s7 = Mul (four, p6)", "s7 = Identity (p6)"),
    "a square": ("p4 = Mul (s4, n4)", "p4 = Mul (s4, s4)"),
    "a sum": ("p2 = Mul (s2, n2)", "p2 = Add (s2, n2)"),
    "rounded inside": ("s6 = Mul (four, p5)", "r5 = Mul (four, p5) t5 = Cast <to = 10> (r5) s6 = Cast <to = 1> (t5)"),
    "half added": (f"y = Sub (s{STEPS}, half)", f"y = Add (s{STEPS}, half)"),
    "half lost": (f"y = Sub (s{STEPS}, half)", f"y = Identity (s{STEPS})"),
    "negative": (f"y = Sub (s{STEPS}, half)", f"y = Sub (half, s{STEPS})"),
    "values shifted": ("s0 = Sigmoid (a)", "q = Concat <axis = 1> (a, a) w = Slice (q, i1, i65, i1) s0 = Sigmoid (w)"),
}


class Drawn:
    """Eight normal inputs."""

    has_labels = False

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[Sample]:
        for seed in range(len(self)):
            x = np.random.default_rng(seed).standard_normal((1, 64)).astype(np.float32) / 8
            yield Sample(str(seed), {"x": x})


def model(onnx_model: OnnxModel, graph: str) -> Model:
    extra = {"i1": np.array([1]), "i65": np.array([65])} if "i65" in graph else {}
    return Model(ir.from_proto(onnx_model(graph, **WEIGHTS, **extra)))


def accuracy(original: Model, built: Reference, kind: Kind = Kind.FLOAT32) -> Accuracy:
    outputs, _ = compare(Drawn(), Reference(original), built, ("y",))
    floors = Floors.of(kind, labelled=False, max_drop=None)
    return with_self_agreement(Accuracy("", "", True, len(Drawn()), floors, outputs, None), original, Drawn())


def test_an_ill_conditioned_model_is_asked_for_what_rounding_leaves(onnx_model: OnnxModel) -> None:
    original = model(onnx_model, GRAPH)
    limit = conditioning(original, Drawn()).sqnr_db["y"]
    assert 20 < limit < 90
    well = model(onnx_model, "g (float[1, 64] x) => (float[1, 64] y) { h = MatMul (x, m) y = Sigmoid (h) }")
    assert conditioning(well, Drawn()).sqnr_db["y"] > limit + 20


def test_every_sample_of_every_execution_is_told(onnx_model: OnnxModel) -> None:
    told: list[tuple[str, int, int]] = []
    conditioning(model(onnx_model, GRAPH), Drawn(), step=lambda *what: told.append(what))
    assert told == [("executing the original once more, sample", done, 32) for done in range(1, 33)]


def test_every_sample_is_a_sign_of_progress(onnx_model: OnnxModel, monkeypatch: pytest.MonkeyPatch) -> None:
    signs: list[None] = []
    monkeypatch.setattr("edgekit.comparison.side_by_side.tell_step", lambda: signs.append(None))
    original = model(onnx_model, GRAPH)
    compare(Drawn(), Reference(original), Reference(original), ("y",))
    assert len(signs) == 8


def test_an_original_is_executed_once_more_for_other_samples_alone(onnx_model: OnnxModel) -> None:
    told: list[int] = []
    original, samples, known = model(onnx_model, GRAPH), Drawn(), KnownConditioning()

    first = known.of(original, samples, step=lambda what, done, total: told.append(done))
    again = known.of(original, samples, step=lambda what, done, total: told.append(done))

    assert again is first
    assert len(told) == 32
    known.of(original, Drawn(), step=lambda what, done, total: told.append(done))
    known.of(model(onnx_model, GRAPH), samples, step=lambda what, done, total: told.append(done))
    assert len(told) == 96


def test_executions_stay_open_where_samples_come_at_several_sizes(
    onnx_model: OnnxModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Model] = []
    monkeypatch.setattr(
        "edgekit.comparison.acceptance.conditioning.reference_of", lambda one, **how: reference(opened, one, **how)
    )
    known = KnownConditioning()
    for graph, sessions in ((GRAPH.replace("float[1,", "float[N,"), 5), (GRAPH, 10)):
        original, one, other = model(onnx_model, graph), Drawn(), Drawn()
        opened.clear()
        found = [known.of(original, samples) for samples in (one, other)]
        assert len(opened) == sessions
        assert found == [conditioning(original, samples) for samples in (one, other)]


def reference(opened: list[Model], one: Model, *, fast: bool = False) -> Reference:
    opened.append(one)
    return Reference(one, fast=fast)


def test_another_order_of_arithmetic_is_accepted(onnx_model: OnnxModel) -> None:
    original = model(onnx_model, GRAPH)
    reordered = GRAPH.replace("h = MatMul (x, m)", "u = Neg (x) v = Neg (m) h = MatMul (u, v)")
    for step in range(STEPS):
        reordered = reordered.replace(f"p{step} = Mul (s{step}, n{step})", f"p{step} = Mul (n{step}, s{step})").replace(
            f"s{step + 1} = Mul (four, p{step})",
            f"e{step} = Mul (four, s{step}) s{step + 1} = Mul (e{step}, n{step})",
        )
    assert accuracy(original, Reference(model(onnx_model, reordered))).shortfalls() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_conversion_is_refused(onnx_model: OnnxModel, fault: str) -> None:
    right, wrong = FAULTS[fault]
    assert right in GRAPH
    found = accuracy(model(onnx_model, GRAPH), Reference(model(onnx_model, GRAPH.replace(right, wrong))))
    assert found.shortfalls()


LONG = 60
"""Steps after which the logistic map's result depends on rounding alone, and no longer on its start."""


def nothing_to_find(step: str) -> str:
    steps = " ".join(f"n{n} = Sub (one, s{n}) {step.format(n=n, next=n + 1)}" for n in range(LONG))
    return f"""g (float[1, 64] x) => (float[1, 64] y) {{
        s0 = Sigmoid (x)
        {steps}
        d = Sub (s{LONG}, seventeen)
        p = Sigmoid (d)
        y = Reshape (p, shape)
    }}"""


NOTHING_TO_FIND = nothing_to_find("p{n} = Mul (s{n}, n{n}) s{next} = Mul (four, p{n})")
REORDERED = nothing_to_find("p{n} = Mul (four, s{n}) s{next} = Mul (p{n}, n{n})")
NUMBERS = {
    "one": np.array(1, np.float32),
    "four": np.array(3.99, np.float32),
    "seventeen": np.array(17, np.float32),
    "eighteen": np.array(18, np.float32),
    "shape": np.array([1, 64]),
    "tenth": np.array(0.1, np.float32),
    "hundreds": np.array(300, np.float32),
}


def judged(onnx_model: OnnxModel, original: str, built: str, kind: Kind = Kind.FLOAT32) -> Accuracy:
    def of(graph: str) -> Model:
        used = {name: array for name, array in NUMBERS.items() if name in graph}
        return Model(ir.from_proto(onnx_model(graph, **used)))

    return accuracy(of(original), Reference(of(built)), kind)


def test_probabilities_that_vanish_are_no_evidence_against_a_build(onnx_model: OnnxModel) -> None:
    found = judged(onnx_model, NOTHING_TO_FIND, REORDERED)
    assert (found.vanished, found.shortfalls()) == (("y",), [])
    assert found.worst_db is None
    assert not found.is_broken()


@pytest.mark.parametrize(
    ("change", "by"),
    [
        ("y = Reshape (p, shape)", "q = Add (p, tenth) y = Reshape (q, shape)"),
        ("p = Sigmoid (d)", f"p = Sigmoid (s{LONG})"),
    ],
)
def test_a_build_that_finds_what_is_not_there_is_refused(onnx_model: OnnxModel, change: str, by: str) -> None:
    found = judged(onnx_model, NOTHING_TO_FIND, REORDERED.replace(change, by))
    assert found.vanished == ()
    assert found.shortfalls()


def test_small_probabilities_that_the_original_determines_have_to_be_right(onnx_model: OnnxModel) -> None:
    small = "g (float[1, 64] x) => (float[1, 64] y) { c = Sub (x, seventeen) y = Sigmoid (c) }"
    found = judged(onnx_model, small, small.replace("seventeen", "eighteen"))
    assert found.vanished == ()
    assert found.shortfalls()


NEAR_NOTHING = "g (float[1, 64] x) => (float[1, 64] y) { t = Mul (x, tenth) c = Sub (t, LIMIT) y = OPERATOR (c) }"
"""Eighteen leaves about 1e-8 of a Sigmoid, hundreds leave nothing."""


@pytest.mark.parametrize("kind", [Kind.FLOAT32, Kind.FLOAT16])
@pytest.mark.parametrize(
    ("operator", "limit", "vanished"),
    [("Sigmoid", "eighteen", ("y",)), ("Sigmoid", "four", ()), ("Relu", "eighteen", ())],
)
def test_what_stands_for_zeros_may_be_rounding_where_the_operator_has_a_bound(
    onnx_model: OnnxModel, operator: str, limit: str, vanished: tuple[str, ...], kind: Kind
) -> None:
    zeros = NEAR_NOTHING.replace("LIMIT", "hundreds").replace("OPERATOR", operator)
    found = judged(onnx_model, zeros, NEAR_NOTHING.replace("LIMIT", limit).replace("OPERATOR", "Sigmoid"), kind)
    assert [output.sqnr_db for output in found.outputs] == [-np.inf]
    assert found.vanished == vanished
    assert bool(found.shortfalls()) == (not vanished)


def unsteady(step: str) -> str:
    """So many steps of the logistic map that two executions agree to some 14 dB."""
    steps = " ".join(f"n{n} = Sub (one, s{n}) {step.format(n=n, next=n + 1)}" for n in range(20))
    return f"""g (float[1, 64] x) => (float[64, 1] y) {{
        s0 = Sigmoid (x)
        {steps}
        d = Sub (s20, half)
        y = Reshape (d, shape)
    }}"""


UNSTEADY = unsteady("p{n} = Mul (s{n}, n{n}) s{next} = Mul (four, p{n})")
UNSTEADY_REORDERED = unsteady("p{n} = Mul (four, s{n}) s{next} = Mul (p{n}, n{n})")


def reduced(onnx_model: OnnxModel, built: str) -> Accuracy:
    numbers = {**WEIGHTS, "shape": np.array([64, 1])}

    def of(graph: str) -> Model:
        return Model(
            ir.from_proto(onnx_model(graph, **{name: numbers[name] for name in ("one", "four", "half", "shape")}))
        )

    return accuracy(of(UNSTEADY), Reference(of(built)), Kind.FLOAT16)


def test_a_reduced_build_is_asked_for_what_rounding_leaves(onnx_model: OnnxModel) -> None:
    found = reduced(onnx_model, UNSTEADY_REORDERED)
    (output,) = found.outputs
    assert output.sqnr_db is not None
    assert output.sqnr_db < 20
    assert found.self_agreement_db["y"] < 26
    assert found.shortfalls() == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("d = Sub (s20, half)", "d = Identity (s20)"),
        ("Sub (one, s3)", "Sub (s3, one)"),
        ("Mul (four, s7)", "Mul (half, s7)"),
    ],
)
def test_a_wrong_reduced_build_is_refused(onnx_model: OnnxModel, right: str, wrong: str) -> None:
    assert right in UNSTEADY_REORDERED
    assert reduced(onnx_model, UNSTEADY_REORDERED.replace(right, wrong)).shortfalls()


CUT = "g (float[1, 64] x) => (int32[1, 64] y) {{ {} y = Cast <to = 6> (l) }}"


@pytest.mark.parametrize(("many", "least", "most"), [(1e5, 0.0, 0.02), (8e5, 0.05, 0.25)])
def test_integers_that_rounding_cuts_elsewhere_are_accepted(
    onnx_model: OnnxModel, many: float, least: float, most: float
) -> None:
    def cut(steps: str) -> Model:
        return Model(ir.from_proto(onnx_model(CUT.format(steps), m=WEIGHTS["m"], many=np.array(many, np.float32))))

    original = cut("h = MatMul (x, m) l = Mul (h, many)")
    found = accuracy(original, Reference(cut("c = Mul (x, many) l = MatMul (c, m)")))
    (output,) = found.outputs
    assert least < output.mismatch < most
    assert output.max_abs_error == 1  # a float that stands on an edge
    assert found.shortfalls() == []
    rounded = accuracy(original, Reference(cut("h = MatMul (x, m) c = Mul (h, many) l = Round (c)")))
    (flaw,) = rounded.shortfalls()  # half of the numbers are the next one
    assert re.fullmatch(r"output 'y': [45]\d\.\d\d% of the elements differ \(at most \d[\d.]*%\)", flaw)


@pytest.mark.parametrize("off", [0.0, 0.03], ids=["products in float32", "weights that are wrong"])
def test_products_whose_other_factor_is_rounded_ask_for_no_more_than_they_keep(off: float) -> None:
    """With ``accuracy_level`` 4, ONNX Runtime rounds it to 8 bits: a float32 build is nearer to the file."""
    rng = np.random.default_rng(1)
    packed = rng.integers(0, 256, (8, 2, 16)).astype(np.uint8)
    numbers = np.stack([packed & 0xF, packed >> 4], axis=-1).reshape(8, 64).astype(np.float32) - 8
    blocks = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]> g (float[1, 64] x) => (float[1, 8] y)
        { y = com.microsoft.MatMulNBits <K = 64, N = 8, bits = 4, block_size = 32, accuracy_level = 4> (x, w, s) }"""
    )
    whole = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 64] x) => (float[1, 8] y) { y = MatMul (x, w) }'
    )
    constants = {"w": packed, "s": np.ones(16, np.float32)}
    blocks.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    wrong = numbers.T * (1 + off * rng.standard_normal((64, 8)).astype(np.float32))
    whole.graph.initializer.append(onnx.numpy_helper.from_array(wrong, "w"))
    measured = accuracy(Model(ir.from_proto(blocks)), Reference(Model(ir.from_proto(whole))))
    (output,) = measured.outputs
    assert output.worst_sample_db is not None
    assert output.worst_sample_db < 50
    assert bool(measured.shortfalls()) == bool(off)

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit.operators.support import Fit, count_partitions, summarize
from edgekit.target import Evidence, NodeVerdict, Profile, Support

NPU = Profile("board", "a board with an NPU", accelerator="NPU")
OnnxModel = Callable[..., onnx.ModelProto]
Make = Callable[..., Model]


@pytest.fixture
def make(onnx_model: OnnxModel) -> Make:
    return lambda graph, **rest: Model(ir.from_proto(onnx_model(graph, **rest)))


def verdict(node: str, unit: str, support: Support = Support.SUPPORTED) -> NodeVerdict:
    return NodeVerdict(node=node, op_type="Op", support=support, evidence=Evidence.COMPILED, unit=unit)


def on_npu(model: Model, *names: str) -> set[ir.Node]:
    return {node for node in model.graph.all_nodes() if node.name in names}


def test_an_operator_elsewhere_cuts_a_chain_in_two(make: Make) -> None:
    model = make("g (float[4] x) => (float[4] y) { [a] p = Exp(x) [b] q = Det(p) [c] y = Exp(q) }")
    assert count_partitions(model.graph, on_npu(model, "a", "c")) == 2
    assert count_partitions(model.graph, on_npu(model, "a", "b", "c")) == 1
    assert count_partitions(model.graph, set()) == 0


def test_what_runs_beside_a_branch_does_not_cut_it(make: Make) -> None:
    """The node list alternates between the units, the graph does not: p and r are one part, then q follows."""
    model = make(
        "g (float[4] x) => (float[4] y) { [a] p = Exp(x) [b] q = Sin(p) [c] r = Cos(p) [d] s = Tan(q)"
        " [e] y = Add(r, s) }"
    )
    assert count_partitions(model.graph, on_npu(model, "a", "c")) == 1
    assert count_partitions(model.graph, on_npu(model, "a", "c", "e")) == 2


def test_what_an_elsewhere_branch_reads_from_around_it_comes_first(make: Make) -> None:
    model = make(
        "g (bool k, float[4] x) => (float[4] z) { [a] p = Exp(x) [choice] y = If (k) <\n"
        "  then_branch = t () => (float[4] l) { [left] l = Sin(p) },\n"
        "  else_branch = e () => (float[4] r) { [right] r = Cos(p) }> [b] z = Exp(y) }"
    )
    assert count_partitions(model.graph, on_npu(model, "a", "b")) == 2
    assert count_partitions(model.graph, on_npu(model, "a", "b", "left")) == 3
    assert count_partitions(model.graph, on_npu(model, "a", "b", "left", "choice")) == 1


@pytest.mark.parametrize("seed", range(20))
def test_partitions_are_those_that_onnx_runtimes_own_counting_finds(seed: int) -> None:
    """Random graphs of two operators, one of which the accelerator takes."""
    from onnxruntime.tools.mobile_helpers import usability_checker
    from onnxruntime.tools.onnx_model_utils import get_producer_consumer_maps

    draw = random.Random(seed)
    names, nodes = ["x"], []
    for number in range(draw.randint(5, 40)):
        inputs = [draw.choice(names[-6:]) for _ in range(draw.randint(1, 3))]
        nodes.append(onnx.helper.make_node(draw.choice(["Sum", "Mean"]), inputs, [f"v{number}"], f"n{number}"))
        names.append(f"v{number}")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "random", [value("x", 1, [2])], [value(name, 1, [2]) for name in names[1:]])

    class TakesSum:
        def is_op_supported(self, node: onnx.NodeProto) -> bool:
            return node.op_type == "Sum"

    info = usability_checker._check_partitioning_for_graph(
        graph, *get_producer_consumer_maps(graph), TakesSum(), set(), False, {}
    )
    model = ir.from_proto(onnx.helper.make_model(graph))
    taken = {node for node in model.graph if node.op_type == "Sum"}
    assert count_partitions(model.graph, taken) == info.num_partitions


PRODUCTS = (
    "g (float[1, 4] x) => (float[1, 8] y) { [small] a = MatMul (x, v) [act] b = Relu (a) [large] y = MatMul (b, w) }"
)
WEIGHTS = {"v": np.zeros((4, 2), np.float32), "w": np.zeros((2, 8), np.float32)}  # 8 and 16 MACs


def test_shares_count_nodes_and_macs(make: Make) -> None:
    model = make(PRODUCTS, **WEIGHTS)
    found = summarize(model, [verdict("small", "CPU"), verdict("act", "NPU"), verdict("large", "NPU")], NPU)
    assert found.as_record() == {
        "accelerator": "NPU",
        "accelerator_share": 2 / 3,
        "accelerator_macs_share": 16 / 24,
        "partitions": 1,
        "fit": "fair",
        "unit_evidence": "compiled",
    }
    assert str(found) == "NPU: 67% of the nodes, 67% of the MACs, 1 partition; fit fair (evidence: compiled)"


def test_the_weakest_evidence_for_a_unit_is_told(make: Make) -> None:
    placed = NodeVerdict(
        node="act",
        op_type="Relu",
        support=Support.SUPPORTED,
        evidence=Evidence.REGISTRY,
        unit="NPU",
        unit_evidence=Evidence.HEURISTIC,
    )
    open_one = NodeVerdict(node="large", op_type="MatMul", support=Support.UNKNOWN, evidence=Evidence.UNKNOWN)
    found = summarize(make(PRODUCTS, **WEIGHTS), [verdict("small", "CPU"), placed, open_one], NPU)
    assert found.evidence is Evidence.HEURISTIC
    assert summarize(make(PRODUCTS, **WEIGHTS), [open_one], NPU).evidence is Evidence.UNKNOWN


@pytest.mark.parametrize(
    ("units", "fit"),
    [
        (("NPU", "NPU", "NPU"), Fit.GOOD),
        (("NPU", "CPU", "NPU"), Fit.FAIR),  # two partitions, all of the work
        (("NPU", "CPU", "CPU"), Fit.POOR),  # a third of the work
        (("NPU", "", "NPU"), Fit.UNKNOWN),  # good or fair
        (("NPU", "CPU", ""), Fit.UNKNOWN),
        (("", "", ""), Fit.UNKNOWN),
    ],
)
def test_the_fit_follows_from_the_work_and_the_partitions(make: Make, units: tuple[str, ...], fit: Fit) -> None:
    verdicts = [verdict(name, unit) for name, unit in zip(("small", "act", "large"), units, strict=True)]
    assert summarize(make(PRODUCTS, **WEIGHTS), verdicts, NPU).fit is fit


def test_what_is_unknown_is_not_counted_as_known(make: Make) -> None:
    verdicts = [verdict("small", "NPU"), verdict("act", ""), verdict("large", "NPU")]
    found = summarize(make(PRODUCTS, **WEIGHTS), verdicts, NPU)
    assert (found.share, found.macs_share, found.partitions) == (2 / 3, 1.0, None)
    nothing = summarize(make(PRODUCTS, **WEIGHTS), [], NPU)
    assert (nothing.share, nothing.macs_share, nothing.partitions) == (None, None, None)
    assert str(nothing) == "NPU: no node's unit is known; fit unknown"


def test_a_node_that_runs_nowhere_decides(make: Make) -> None:
    verdicts = [verdict("small", "NPU"), verdict("act", "", Support.UNSUPPORTED), verdict("large", "NPU")]
    found = summarize(make(PRODUCTS, **WEIGHTS), verdicts, NPU)
    assert (found.fit, found.share, found.partitions) == (Fit.UNSUPPORTED, 2 / 3, 2)


def test_macs_that_cannot_all_be_counted_decide_nothing(make: Make) -> None:
    """The large product is elsewhere, and its size is not known: of the nodes, half are on the accelerator."""
    model = make(
        "g (float[1, 4] x, float[N, M] z, float[M, 9] u) => (float[1, 2] y, float[N, 9] w)"
        " { [small] y = MatMul (x, v) [large] w = MatMul (z, u) }",
        v=np.zeros((4, 2), np.float32),
    )
    found = summarize(model, [verdict("small", "NPU"), verdict("large", "CPU")], NPU)
    assert (found.share, found.macs_share, found.fit) == (0.5, None, Fit.POOR)


def test_constants_count_nowhere(make: Make) -> None:
    model = make("g (float[4] x) => (float[4] y) { [c] k = Constant <value_float = 2.0> () [a] y = Mul (x, k) }")
    found = summarize(model, [verdict("c", "CPU"), verdict("a", "NPU")], NPU)
    assert (found.share, found.macs_share) == (1.0, None)


def test_of_a_model_without_nodes_nothing_is_known(make: Make) -> None:
    model = make("g (float[4] x) => (float[4] y) { y = Exp (x) }")
    model.graph.outputs[0] = model.graph.inputs[0]
    model.graph.remove(next(iter(model.graph)))
    found = summarize(model, [], NPU)
    assert (found.share, found.macs_share, found.partitions, found.fit) == (None, None, 0, Fit.UNKNOWN)

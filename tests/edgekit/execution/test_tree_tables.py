"""Trees whose leaves take in what follows from them, held against ONNX Runtime's execution of the graph as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.execution.tree_tables import tabulate_trees
from edgekit.model import Model
from edgekit.stages.simplify import Simplify

FEATURES, DEPTH, TREES, ROWS = 6, 3, 5, 40
COLUMNS = np.array([4, 0, 5, 2])
"""The indices of those of six columns that trees which pick columns read."""

Values = dict[str, object]


def tree(place: int, x: str, output: str, features: int, **other: object) -> onnx.NodeProto:
    """A full tree whose leaves give their own numbers, as scikit-learn numbers them; thresholds are tenths."""
    rng = np.random.default_rng(place)
    inner, count = 2**DEPTH - 1, 2 ** (DEPTH + 1) - 1
    attributes: Values = {
        "n_targets": 1,
        "nodes_treeids": [0] * count,
        "nodes_nodeids": list(range(count)),
        "nodes_featureids": [int(rng.integers(features)) if at < inner else 0 for at in range(count)],
        "nodes_values": [round(float(rng.standard_normal()), 1) if at < inner else 0.0 for at in range(count)],
        "nodes_modes": ["BRANCH_LEQ" if at < inner else "LEAF" for at in range(count)],
        "nodes_truenodeids": [2 * at + 1 if at < inner else 0 for at in range(count)],
        "nodes_falsenodeids": [2 * at + 2 if at < inner else 0 for at in range(count)],
        "nodes_missing_value_tracks_true": [int(rng.integers(2)) for _ in range(count)],
        "target_treeids": [0] * (count - inner),
        "target_nodeids": list(range(inner, count)),
        "target_ids": [0] * (count - inner),
        "target_weights": [float(at) for at in range(inner, count)],
    }
    return helper.make_node(
        "TreeEnsembleRegressor", [x], [output], name=output, domain="ai.onnx.ml", **(attributes | other)
    )


def path_length(place: int) -> list[onnx.NodeProto]:
    """The way of skl2onnx's isolation forests from a leaf's number to a length, in short."""
    keys = list(range(2**DEPTH - 1, 2 ** (DEPTH + 1) - 1))
    sizes = np.random.default_rng(100 + place).integers(1, 9, len(keys))
    made = f"{place}"
    return [
        helper.make_node("Cast", [f"leaf{made}"], [f"number{made}"], name=f"a{made}", to=TensorProto.INT64),
        helper.make_node(
            "LabelEncoder",
            [f"number{made}"],
            [f"size{made}"],
            name=f"b{made}",
            domain="ai.onnx.ml",
            keys_int64s=keys,
            values_floats=sizes.astype(float).tolist(),
        ),
        helper.make_node("Reshape", [f"size{made}", "column"], [f"flat{made}"], name=f"c{made}"),
        helper.make_node("Greater", [f"flat{made}", "two"], [f"is_large{made}"], name=f"d{made}"),
        helper.make_node("Cast", [f"is_large{made}"], [f"large{made}"], name=f"e{made}", to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"large{made}", f"flat{made}"], [f"kept{made}"], name=f"f{made}"),
        helper.make_node("Max", [f"kept{made}", "two"], [f"least{made}"], name=f"g{made}"),
        helper.make_node("Log", [f"least{made}"], [f"logarithm{made}"], name=f"h{made}"),
        helper.make_node("Add", [f"logarithm{made}", f"large{made}"], [f"length{made}"], name=f"i{made}"),
    ]


def forest(
    *, picked: bool = True, nodes: Sequence[onnx.NodeProto] = (), outputs: Sequence[str] = ("y",), **other: object
) -> onnx.ModelProto:
    """The sum of five such lengths."""
    made = [helper.make_node("Gather", ["x", "columns"], ["some"], name="some", axis=1)]
    for place in range(TREES):
        x, features = ("some", len(COLUMNS)) if picked else ("x", FEATURES)
        made += [tree(place, x, f"leaf{place}", features, **other), *path_length(place)]
    made.append(helper.make_node("Sum", [f"length{place}" for place in range(TREES)], ["y"], name="sum"))
    graph = helper.make_graph(
        [*made, *nodes],
        "forest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, FEATURES])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [
            numpy_helper.from_array(COLUMNS, "columns"),
            numpy_helper.from_array(np.array([-1, 1]), "column"),
            numpy_helper.from_array(np.array([2], np.float32), "two"),
        ],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def run(proto: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


@pytest.fixture
def tabulated() -> Callable[[onnx.ModelProto], list[str]]:
    """Changes a model, compares it with the original at thresholds and between them, and returns its operators."""

    def change(proto: onnx.ModelProto) -> list[str]:
        model = ir.from_proto(proto)
        for node in model.graph:
            if node.op_type == "Gather":
                node.inputs[0].shape = ir.Shape([ROWS, FEATURES])
        operators = [node.op_type for node in model.graph]
        assert tabulate_trees(model) == ([node.op_type for node in model.graph] != operators)
        rng = np.random.default_rng(1)
        x = rng.standard_normal((ROWS, FEATURES)).round(1).astype(np.float32)
        x[::7, 4] = np.nan
        for feeds in (x, rng.standard_normal((ROWS, FEATURES)).astype(np.float32)):
            for expected, found in zip(run(proto, feeds), run(ir.to_proto(model), feeds), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-6)
        return [node.op_type for node in model.graph]

    return change


@pytest.mark.parametrize("picked", [False, True])
def test_a_sum_of_trees_becomes_one_ensemble(tabulated: Callable[..., list[str]], *, picked: bool) -> None:
    assert tabulated(forest(picked=picked)) == ["TreeEnsembleRegressor"]


def test_lengths_that_something_else_reads_stay(tabulated: Callable[..., list[str]]) -> None:
    """The first tree's length is an output, too: trees are no sum alone, and each gives its length by itself."""
    assert tabulated(forest(outputs=("y", "length0"))) == ["Gather", *["TreeEnsembleRegressor"] * TREES, "Sum"]


def test_a_tree_of_which_two_values_are_read_stays(tabulated: Callable[..., list[str]]) -> None:
    found = tabulated(forest(outputs=("y", "large0", "length0")))
    assert found.count("TreeEnsembleRegressor") == TREES
    assert found.count("LabelEncoder") == 1


def test_values_of_two_trees_are_no_table(tabulated: Callable[..., list[str]]) -> None:
    product = helper.make_node("Mul", ["length0", "length1"], ["product"], name="product")
    found = tabulated(forest(nodes=[product], outputs=("y", "product")))
    assert (found.count("TreeEnsembleRegressor"), found.count("Mul"), found.count("Sum")) == (TREES, 1, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"post_transform": "LOGISTIC"},
        {"base_values": [1.0]},
        {"aggregate_function": "MIN"},
        {"target_weights": [np.inf] * 8},
    ],
)
def test_what_is_no_plain_sum_of_finite_weights_stays(other: Values) -> None:
    model = ir.from_proto(forest(picked=False, **other))
    assert not tabulate_trees(model)
    assert len(model.graph) == 2 + TREES * 10


def test_simplification_proves_it() -> None:
    proto = forest()
    outcome = Simplify().run(Model(ir.from_proto(proto)))
    assert [node.op_type for node in outcome.model.graph] == ["TreeEnsembleRegressor"]
    assert not outcome.record["warnings"]

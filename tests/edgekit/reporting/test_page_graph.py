import json
from typing import Any

import pytest

from edgekit.reporting.layout import ROW
from edgekit.reporting.page_graph import page_graph, weights_by_node
from edgekit.reporting.precision import node_precisions


def value(name: str, dtype: str = "float32", **rest: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": [1, 8], **rest}


@pytest.fixture
def graph() -> dict[str, Any]:
    """x -> Gemm (its weights dequantized) -> Shape; and an If that reads nothing but holds an Exp of the Gemm."""
    values = [
        value("x"),
        value("w_int8", "int8", bytes=64),
        value("scale", bytes=4),
        value("w"),
        value("bias", bytes=32),
        value("g"),
        value("shape", "int64"),
        value("block/e"),
        value("y"),
        value("c", "bool", bytes=1),
    ]
    nodes = [
        {"name": "dequantize", "op": "DequantizeLinear", "inputs": [1, 2], "outputs": [3]},
        {"name": "gemm", "op": "Gemm", "inputs": [0, 3, 4], "outputs": [5], "attributes": {"transB": "1"}},
        {"name": "shape", "op": "Shape", "inputs": [5], "outputs": [6]},
        {"name": "if", "op": "If", "inputs": [9], "outputs": [8]},
        {"name": "exp", "op": "Exp", "inputs": [5], "outputs": [7], "within": 3},
    ]
    return {"format": 1, "values": values, "nodes": nodes, "inputs": [0], "outputs": [8]}


@pytest.fixture
def manifest() -> dict[str, Any]:
    verdict = {"op_type": "Gemm", "support": "falls back", "evidence": "table", "unit": "CPU", "detail": "too large"}
    records = {
        "quantize": {"quantized": ["gemm"], "stored": []},
        "check operators": {"verdicts": [{**verdict, "nodes": ["gemm"]}]},
        "build": {"kept_float32": ["block_e"]},
        "layers": {
            "microseconds": {"gemm": 90.0, "shape": 0.05, "exp": 9.95},
            "sqnr_db": {"g": 25.0, "block/e": "inf"},
        },
    }
    stages = [{"name": name, "seconds": 1.0, "record": record} for name, record in records.items()]
    return {"stages": stages, "model": {"precision": "float16"}}


def test_weights_count_for_who_computes_with_them(graph: dict[str, Any]) -> None:
    assert [(layer.node, layer.bytes) for layer in weights_by_node(graph)] == [("gemm", 64 + 4 + 32), ("if", 1)]


def test_a_shared_weight_counts_once(graph: dict[str, Any]) -> None:
    graph["nodes"].append({"name": "again", "op": "Gemm", "inputs": [5, 3, 4], "outputs": [8]})
    assert sum(layer.bytes for layer in weights_by_node(graph)) == 64 + 4 + 32 + 1


def test_precisions(graph: dict[str, Any], manifest: dict[str, Any]) -> None:
    found = dict(zip((node["name"] for node in graph["nodes"]), node_precisions(graph, manifest), strict=True))
    assert found == {
        "dequantize": "no arithmetic",
        "gemm": "int8",
        "shape": "no arithmetic",
        "if": "float16",
        "exp": "float32",
    }


def test_what_the_page_draws(graph: dict[str, Any], manifest: dict[str, Any]) -> None:
    drawn = page_graph(graph, manifest)
    json.dumps(drawn, allow_nan=False)
    nodes = {node["name"]: node for node in drawn["nodes"]}
    assert list(nodes) == ["gemm", "shape", "if", "exp", "x", "y"], (
        "what dequantizes weights stands with who reads them"
    )
    view = drawn["views"][-1]
    assert view["name"] == "nodes"
    parts = {part["name"]: part for part in view["parts"]}
    names = list(parts)
    assert {(names[start], names[end]) for start, end, *_ in view["edges"]} == {
        ("x", "gemm"),
        ("gemm", "shape"),
        ("gemm", "exp"),
        ("if", "y"),
        ("if", "exp"),  # turned round: the branch stands behind who holds it
    }
    assert [parts[name]["y"] for name in ("x", "gemm", "shape")] == [0, ROW, 2 * ROW]
    assert (parts["gemm"]["title"], parts["gemm"]["shape"]) == ("Gemm", "1×8")
    assert [drawn["nodes"][member]["name"] for part in view["parts"] for member in part["members"]] == names
    assert nodes["gemm"]["verdict"] == {
        "support": "falls back",
        "evidence": "table",
        "unit": "CPU",
        "detail": "too large",
    }
    assert nodes["gemm"]["attributes"] == {"transB": "1"}
    assert nodes["gemm"]["inputs"] == [["x", "float32 1×8"], ["w", "float32 1×8"], ["bias", "float32 1×8, 32 B"]]
    assert nodes["gemm"]["facts"] == {
        "weights": "100 B",
        "error": "SQNR 25.0 dB against the float model",
        "time": "90 µs, 90.0% of all nodes (in the reference on the CPU, not on the device)",
    }
    assert nodes["exp"]["facts"]["inside"] == "if"
    assert nodes["exp"]["facts"]["error"] == "SQNR exact against the float model"


def test_colours(graph: dict[str, Any], manifest: dict[str, Any]) -> None:
    drawn = page_graph(graph, manifest)
    modes = {mode["name"]: mode for mode in drawn["modes"]}
    assert list(modes) == ["operator", "verdict", "precision", "error", "time"]
    parts = drawn["views"][-1]["parts"]
    for mode in modes.values():
        assert [len(of) for of in mode["of"]] == [len(view["parts"]) for view in drawn["views"]]
        for place, category in enumerate(mode["categories"]):
            assert mode["of"][-1].count(place) == category["count"] > 0
    places = {part["name"]: place for place, part in enumerate(parts)}

    def category(mode: str, node: str) -> str | None:
        place = modes[mode]["of"][-1][places[node]]
        return None if place < 0 else modes[mode]["categories"][place]["label"]

    assert [category("operator", node) for node in ("gemm", "shape", "x")] == ["products", "moves data", None]
    assert category("verdict", "gemm") == "falls back"
    assert category("verdict", "exp") is None
    assert category("error", "gemm") == "20 to 30 dB"
    assert category("error", "exp") == "40 dB and more"
    assert [category("time", node) for node in ("gemm", "exp", "shape", "x")] == [
        "10 % and more",
        "3 to 10 %",
        "under 0.1 %",
        None,
    ]


def test_what_is_not_known_is_no_way_to_colour(graph: dict[str, Any]) -> None:
    drawn = page_graph(graph, {"stages": [], "model": {"precision": "float32"}})
    assert [mode["name"] for mode in drawn["modes"]] == ["operator", "precision"]


def chain(*nodes: tuple[str, str]) -> dict[str, Any]:
    """Nodes with these names and operators, each reading the one before."""
    values = [value(f"v{number}") for number in range(len(nodes) + 1)]
    made = [
        {"name": name, "op": op, "inputs": [number], "outputs": [number + 1]} for number, (name, op) in enumerate(nodes)
    ]
    return {"format": 1, "values": values, "nodes": made, "inputs": [0], "outputs": [len(nodes)]}


def manifest_with(sqnr_db: dict[str, float], microseconds: dict[str, float]) -> dict[str, Any]:
    record = {"sqnr_db": sqnr_db, "microseconds": microseconds}
    return {"stages": [{"name": "layers", "seconds": 1.0, "record": record}], "model": {"precision": "float32"}}


def test_layers_take_what_follows_them_and_blocks_go_by_namespaces() -> None:
    layer = [("conv/Conv", "Conv"), ("act/Sigmoid", "Sigmoid"), ("act/Mul", "Mul")]
    nodes = [("/stem/Conv", "Conv"), *((f"/layer.{number}/{name}", op) for number in range(4) for name, op in layer)]
    drawn = page_graph(
        chain(*nodes, ("/head/Softmax", "Softmax")), manifest_with({"v3": 20.0}, {"/layer.1/conv/Conv": 5.0})
    )
    views = {view["name"]: view["parts"] for view in drawn["views"]}
    assert list(views) == ["blocks", "layers", "nodes"], "the coarsest first"
    assert [(part["title"], part["name"]) for part in views["layers"]] == [
        ("Input", "v0"),
        ("Conv", "/stem/Conv"),
        ("Conv +2", "/layer.0/conv/Conv"),
        ("Conv +2", "/layer.1/conv/Conv"),
        ("Conv +2", "/layer.2/conv/Conv"),
        ("Conv +3", "/layer.3/conv/Conv"),
        ("Output", "v14"),
    ]


def test_equal_blocks_in_a_chain_are_one_part() -> None:
    block = [
        ("attention/MatMul", "MatMul"),
        ("attention/Softmax", "Softmax"),
        ("mlp/Gemm", "Gemm"),
        ("mlp/Relu", "Relu"),
    ]
    names = [(f"/encoder/layer.{number}/{name}", op) for number in range(12) for name, op in block]
    drawn = page_graph(
        chain(("/embed/Gather", "Gather"), *names, ("/pool/Tanh", "Tanh")),
        manifest_with({"v2": 50.0, "v3": 12.0}, {name: 1.0 for name, _ in names}),
    )
    (repeated,) = [part for part in drawn["views"][0]["parts"] if len(part["members"]) > 1]
    assert repeated["title"] == "12 × 4 nodes"
    assert repeated["name"] == "encoder/layer.0 … encoder/layer.11"
    assert repeated["facts"] == {
        "operators": "12 MatMul, 12 Softmax, 12 Gemm, 12 Relu",
        "repeats": "12 blocks of the same 4 operators",
        "time": "100.0% of all nodes (in the reference on the CPU, not on the device)",
        "error": "SQNR 12.0 dB at worst against the float model",
    }

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

RunEdgeKit = Callable[..., Any]


@pytest.fixture
def model(onnx_file: Callable[..., Path]) -> Path:
    graph = "g (float[N, 4] x) => (float[N, 3] y) { [product] a = MatMul (x, w) [act] y = Relu (a) }"
    return onnx_file(graph, w=np.ones((4, 3), np.float32))


@pytest.fixture
def unsupported(tmp_path: Path) -> Path:
    """A model with an operator of a domain that nobody knows."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "vendor": 1]>
        g (float[1, 4] x) => (float[1, 4] y) { [act] r = Relu (x) [secret] y = vendor.Secret (r) }"""
    )
    onnx.save(proto, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_check_json(edgekit: RunEdgeKit, model: Path) -> None:
    finished = edgekit("check", model, "--target", "onnxruntime", "--dim", "N=1", "--json")
    assert (finished.code, finished.err) == (0, "")
    record = finished.json
    assert (record["target"], record["supported"]) == ("onnxruntime", True)
    assert record["counts"] == {"supported": 2, "decomposed": 0, "falls back": 0, "unsupported": 0, "unknown": 0}
    assert [(node["node"], node["op_type"], node["support"]) for node in record["nodes"]] == [
        ("product", "MatMul", "supported"),
        ("act", "Relu", "supported"),
    ]
    assert all(node["evidence"] for node in record["nodes"])


def test_check_for_people_counts_and_lists_on_request(edgekit: RunEdgeKit, model: Path) -> None:
    short = edgekit("check", model, "--target", "onnxruntime", "--dim", "N=1")
    fit = "CPU: 100% of the nodes, 100% of the MACs, 1 partition; fit good (evidence: compiled)"
    assert short.out == f"2 supported\n{fit}\n"
    long = edgekit("check", model, "--target", "onnxruntime", "--dim", "N=1", "--all")
    assert "product   MatMul     supported" in long.out


def test_an_unsupported_node_is_exit_code_1(edgekit: RunEdgeKit, unsupported: Path) -> None:
    finished = edgekit("check", unsupported, "--target", "onnxruntime")
    assert finished.code == 1
    assert "secret   vendor.Secret   unsupported" in finished.out
    assert finished.err.endswith(f"error: {unsupported}: onnxruntime does not take 1 of 2 nodes\n")


def test_nodes_that_fare_alike_share_a_row(edgekit: RunEdgeKit, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "vendor": 1]>
        g (float[1, 4] x) => (float[1, 4] a, float[1, 4] b, float[1, 4] c, float[1, 4] d)
        { [one] a = vendor.Secret (x) [two] b = vendor.Secret (x) [three] c = vendor.Secret (x)
          [odd] d = vendor.Odd (x) }"""
    )
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    out = edgekit("check", path, "--target", "onnxruntime").out
    assert out.count("vendor.Secret") == 1
    assert "one and 2 more   vendor.Secret   unsupported" in out
    assert "odd              vendor.Odd" in out
    assert "4 unsupported\n" in out
    assert edgekit("check", path, "--target", "onnxruntime", "--all").out.count("vendor.Secret   unsupported") == 3
    nodes = edgekit("check", path, "--target", "onnxruntime", "--json").json["nodes"]
    assert [node["node"] for node in nodes] == ["one", "two", "three", "odd"]


def test_an_unsupported_node_is_one_json_document(edgekit: RunEdgeKit, unsupported: Path) -> None:
    finished = edgekit("check", unsupported, "--target", "onnxruntime", "--json")
    assert finished.code == 1
    assert finished.json["supported"] is False
    assert finished.json["counts"]["unsupported"] == 1
    assert [warning.partition(",")[0] for warning in finished.json["warnings"]] == [
        "constants were not folded",
        "not simplified",
    ]


def test_what_is_unknown_shares_a_row_whatever_the_operator(edgekit: RunEdgeKit, model: Path) -> None:
    out = edgekit("check", model, "--target", "migraphx", "--dim", "N=1").out
    assert "product and 1 more   2 operators   unknown" in out
    assert out.endswith("2 unknown\nGPU: no node's unit is known; fit unknown\n")


def test_the_fit_stands_in_the_record(edgekit: RunEdgeKit, model: Path) -> None:
    record = edgekit("check", model, "--target", "android-nnapi", "--dim", "N=1", "--json").json
    figures = ("accelerator", "accelerator_share", "accelerator_macs_share", "partitions", "fit")
    assert [record[key] for key in figures] == ["NNAPI", 1.0, 1.0, 1, "good"]


def test_sarif_tells_what_is_not_plainly_supported(edgekit: RunEdgeKit, unsupported: Path, tmp_path: Path) -> None:
    place = tmp_path / "found.sarif"
    finished = edgekit("check", unsupported, "--target", "android-nnapi", "--sarif", place, "--json")
    assert finished.code == 1
    (run,) = json.loads(place.read_text(encoding="utf-8"))["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("unsupported-operator", "error")
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "secret"
    assert "vendor.Secret 'secret' on android-nnapi: unsupported" in result["message"]["text"]


def test_sarif_replaces_no_file_of_another_kind(edgekit: RunEdgeKit, unsupported: Path) -> None:
    content = unsupported.read_bytes()
    finished = edgekit("check", unsupported, "--target", "android-nnapi", "--sarif", unsupported, "-q")
    assert finished.code == 2
    assert finished.err.endswith(
        f"error: {unsupported}: exists and is not a SARIF file\n"
        "hint: choose another name with --sarif, or remove it first\n"
    )
    assert unsupported.read_bytes() == content


def test_sarif_tells_a_poor_fit(edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    path = onnx_file("g (float[1, 4] x) => (float[1, 4] y) { [e] a = Erf (x) [s] y = Exp (a) }")
    place = tmp_path / "found.sarif"
    assert edgekit("check", path, "--target", "android-nnapi", "--sarif", place).code == 0
    (run,) = json.loads(place.read_text(encoding="utf-8"))["runs"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("falls-back", "warning"),
        ("poor-fit", "warning"),
    ]


def test_sarif_tells_why_a_model_could_not_be_checked(edgekit: RunEdgeKit, tmp_path: Path) -> None:
    """Code hosts upload the file after a failed step, too."""
    broken, place = tmp_path / "broken.onnx", tmp_path / "found.sarif"
    broken.write_bytes(b"\x08\x07garbage")
    finished = edgekit("check", broken, "--target", "onnxruntime", "--sarif", place)
    assert finished.code == 2
    (run,) = json.loads(place.read_text(encoding="utf-8"))["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("not-checked", "error")
    assert "broken.onnx" in result["message"]["text"]
    assert finished.err.endswith(f"error: {result['message']['text']}\n")


def test_sarif_is_not_written_of_wrong_usage(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    place = tmp_path / "found.sarif"
    assert edgekit("check", model, "--target", "onnxruntim", "--sarif", place).code == 2
    assert not place.exists()


def test_sarif_that_cannot_be_written_is_an_input_error(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    finished = edgekit("check", model, "--target", "onnxruntime", "--dim", "N=1", "--sarif", tmp_path)
    assert finished.code == 2
    assert "is not a regular file" in finished.err


def test_an_unknown_target(edgekit: RunEdgeKit, model: Path) -> None:
    finished = edgekit("check", model, "--target", "onnxruntim")
    assert finished.code == 2
    assert finished.err == (
        "error: --target: there is no target 'onnxruntim'\n"
        "expected: 'onnxruntime'\n"
        "hint: `edgekit targets` lists what is installed\n"
    )

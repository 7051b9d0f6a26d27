from __future__ import annotations

import time

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest
from onnxscript.optimizer import fold_constants_ir

from edgekit.graph import folding
from edgekit.graph.folding import FoldingBudget


def graph(text: str, **constants: np.ndarray) -> ir.Model:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in constants.items())
    return ir.from_proto(model)


BOMBS = {
    "Tile": (
        "g (float[1] x) => (float[N] y) { b = Tile (one, times)  y = Add (x, b) }",
        {"one": np.ones(1, np.float32), "times": np.int64([2**34])},
    ),
    "Expand": (
        "g (float[1] x) => (float[N] y) { b = Expand (one, times)  y = Add (x, b) }",
        {"one": np.ones(1, np.float32), "times": np.int64([2**34])},
    ),
    "Range": (
        "g (float[1] x) => (float[N] y) { b = Range (zero, most, one)  y = Add (x, b) }",
        {"zero": np.float32(0), "most": np.float32(1e12), "one": np.float32(1)},
    ),
    "Pad": (
        "g (float[1] x) => (float[N] y) { b = Pad (one, pads)  y = Add (x, b) }",
        {"one": np.ones(1, np.float32), "pads": np.int64([0, 2**34])},
    ),
    "Concat": (
        "g (float[1] x) => (float[N] y) {"
        + "".join(f"c{n + 1} = Concat <axis = 0> (c{n}, c{n})\n" for n in range(40))
        + "y = Add (x, c40) }",
        {"c0": np.ones(1, np.float32)},
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_not_fit_stays_as_it_is(name: str) -> None:
    text, constants = BOMBS[name]
    model = graph(text, **constants)
    start = time.monotonic()
    fold_constants_ir(model, should_fold=FoldingBudget())
    assert any(node.op_type == name for node in model.graph)
    assert time.monotonic() - start < 20


def test_what_fits_is_folded() -> None:
    model = graph(
        "g (float[1] x) => (float[4] y) { b = Tile (one, times)  y = Add (x, b) }",
        one=np.ones(1, np.float32),
        times=np.int64([4]),
    )
    fold_constants_ir(model, should_fold=FoldingBudget())
    assert [node.op_type for node in model.graph] == ["Add"]


def test_the_budget_counts_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_NODES", 3)
    chain = "".join(f"c{n + 1} = Neg (c{n})\n" for n in range(9))
    model = graph(f"g (float[1] x) => (float[1] y) {{ {chain} y = Add (x, c9) }}", c0=np.ones(1, np.float32))
    fold_constants_ir(model, should_fold=FoldingBudget())
    assert len(model.graph) == 7


def test_a_large_model_may_fold_its_own_weights() -> None:
    model = graph("g (float[1] x) => (float[N] y) { b = Neg (w)  y = Add (x, b) }", w=np.ones(1 << 20, np.float32))
    small = FoldingBudget(weight_bytes=0)
    small._most = 1 << 20
    node = model.graph[0]
    assert small(node) is False
    large = FoldingBudget(weight_bytes=4 << 20)
    assert large(node) is None


def test_constants_of_texts_have_a_size() -> None:
    nodes = "g (string[2] x) => (bool[2] y) { b = Cast <to = 6> (w)  a = Cast <to = 6> (x)  y = Equal (a, b) }"
    model = graph(nodes, w=np.array(["7"], object))
    fold_constants_ir(model, should_fold=FoldingBudget())
    assert [node.op_type for node in model.graph][-2:] == ["Cast", "Equal"]

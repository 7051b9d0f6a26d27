"""Halving a model that a compiler refuses, with compilers that refuse what the test says."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit_onnxruntime.assignment import Assignment, CompilerError, SilentCompilerError
from edgekit_onnxruntime.by_parts import MOST_COMPILATIONS, MOST_IN_VAIN, in_parts

CHAIN = """<ir_version: 9, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 4] y, float[1, 4] z) {
    [one] a = Relu (x) [two] b = Add (a, x) [bad] c = Erf (b) [three] d = Mul (c, a) [four] z = Neg (d)
    [five] y = Sqrt (d)
}"""


def compiler(refuses: Callable[[Model], bool], seen: list[list[str]]) -> Callable[[Model], Assignment]:
    def assign(model: Model) -> Assignment:
        seen.append([node.name or "" for node in model.graph])
        if refuses(model):
            raise CompilerError("it does not say why")
        taken = frozenset(f"node{place}" for place, _ in enumerate(model.graph.all_nodes()))
        return Assignment(taken, frozenset(), frozenset(), {})

    return assign


@pytest.fixture
def chain() -> Model:
    return infer_shapes(Model(ir.from_proto(onnx.parser.parse_model(CHAIN))), strict=False)


def test_the_node_that_is_refused_is_found(chain: Model) -> None:
    seen: list[list[str]] = []
    found = in_parts(chain, compiler(lambda model: any(node.op_type == "Erf" for node in model.graph), seen))
    assert found.refused == {"bad": "it does not say why"}
    taken = {name for names, _ in found.compiled for name in names}
    assert taken == {"one", "two", "three", "four", "five"}
    assert seen == [["one", "two", "bad"], ["three", "four", "five"], ["one"], ["two", "bad"], ["two"], ["bad"]]
    assert found.compilations == len(seen)
    assert all(names[name] in assignment.accelerated for names, assignment in found.compiled for name in names)


def test_a_model_that_is_only_too_large_compiles_in_halves(chain: Model) -> None:
    seen: list[list[str]] = []
    found = in_parts(chain, compiler(lambda model: len(model.graph) > 3, seen))
    assert not found.refused
    assert sorted(map(len, seen)) == [3, 3]


def test_a_compiler_that_takes_nothing_is_asked_a_limited_number_of_times() -> None:
    body = " ".join(f"v{place + 1} = Relu (v{place})" for place in range(200))
    text = f'<ir_version: 9, opset_import: ["" : 17]> g (float[1] v0) => (float[1] v200) {{ {body} }}'
    model = infer_shapes(Model(ir.from_proto(onnx.parser.parse_model(text))), strict=False)
    found = in_parts(model, compiler(lambda _: True, []))
    assert found.compilations == MOST_IN_VAIN
    assert not found.compiled
    assert not found.refused
    some = in_parts(model, compiler(lambda part: len(part.graph) > 1, []))
    assert some.compilations <= MOST_COMPILATIONS


def test_a_compiler_that_takes_no_node_tells_nothing_of_nodes(chain: Model) -> None:
    found = in_parts(chain, compiler(lambda _: True, []))
    assert not found.refused


def test_a_compiler_that_gives_no_answer_for_a_part_is_not_asked_again(chain: Model) -> None:
    taken, seen = compiler(lambda _: False, []), []

    def assign(model: Model) -> Assignment:
        seen.append([node.name or "" for node in model.graph])
        if "bad" not in seen[-1]:
            return taken(model)
        raise SilentCompilerError("gave no sign of progress for 600 s")

    found = in_parts(chain, assign)
    assert seen == [["one", "two", "bad"]]
    assert not found.refused

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.building import NodeBuilder
from edgekit.model import Model, node_name
from edgekit.registry import installed_rewrites
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.application import Rewritten, rewritten
from edgekit.rewrites.proof import Proof

NAMES = [f"n{number}" for number in range(16)]
WRONG, INAPPLICABLE = "n5", ("n2", "n9", "n11")


class Softsign(Rewrite):
    """x / (1 + |x|), but wrong for the node named ``wrong``, and inapplicable to the nodes in ``inapplicable``."""

    name: ClassVar[str] = "softsign as division"
    op_types: ClassVar[Sequence[str]] = ("Softsign",)

    def __init__(self, wrong: str = "", inapplicable: Collection[str] = ()) -> None:
        self._wrong, self._inapplicable = wrong, inapplicable

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        if node_name(node) in self._inapplicable:
            raise InapplicableError("not here")
        x = node.inputs[0]
        (one,) = (value for value in node.graph.initializers.values() if value.name == "one")
        size = x if node_name(node) == self._wrong else build("Abs", x)
        return [build("Div", x, build("Add", one, size))]


@pytest.fixture
def rewrite_all(
    onnx_model: Callable[..., onnx.ModelProto],
    model_of: Callable[[onnx.ModelProto], Model],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Rewrite], tuple[Rewritten, list[tuple[int, int]]]]:
    """Rewrites 16 nodes.

    Returns the result, and for each proof how many nodes were still to be replaced in the earlier and the later form.
    """
    proofs: list[tuple[int, int]] = []
    original = Proof.difference

    def left(model: Model) -> int:
        return sum(node.op_type == "Softsign" for node in model.graph)

    def recorded(self: Proof, earlier: Model, changed: Model, rewrites: Collection[Rewrite]) -> str | None:
        proofs.append((left(earlier), left(changed)))
        return original(self, earlier, changed, rewrites)

    monkeypatch.setattr(Proof, "difference", recorded)

    def run(rewrite: Rewrite) -> tuple[Rewritten, list[tuple[int, int]]]:
        places = range(len(NAMES))
        inputs, outputs = (", ".join(f"float[2, 3] {name}{place}" for place in places) for name in "xy")
        nodes = " ".join(f"y{place} = Softsign (x{place})" for place in places)
        proto = onnx_model(f"g ({inputs}) => ({outputs}) <float one = {{1.0}}> {{ {nodes} }}")
        for node, name in zip(proto.graph.node, NAMES, strict=True):
            node.name = name

        def refusals(candidate: Model) -> set[str]:
            return {node_name(node) for node in candidate.graph if node.op_type == "Softsign"}

        return rewritten(model_of(proto), refusals, [rewrite]), proofs

    return run


def test_all_nodes_are_proven_at_once_where_that_holds(rewrite_all) -> None:
    result, proofs = rewrite_all(Softsign())
    assert ([each.node for each in result.applied], result.dropped) == (NAMES, {})
    assert proofs == [(16, 0)]


def test_halves_are_proven_where_the_whole_is_not(rewrite_all) -> None:
    result, proofs = rewrite_all(Softsign(WRONG))
    assert sorted(each.node for each in result.applied) == sorted(set(NAMES) - {WRONG})
    assert list(result.dropped) == [WRONG]
    assert "the rewrite 'softsign as division' was dropped: " in result.dropped[WRONG]
    halves = [(16, 0), (16, 8), (16, 12), (12, 8), (12, 10), (12, 11), (11, 10), (11, 9), (9, 1)]
    assert proofs == [*halves, (1, 0)]  # a second try, now that the others are replaced


def test_nodes_that_a_rewrite_does_not_fit_are_set_aside_without_a_proof(rewrite_all) -> None:
    result, proofs = rewrite_all(Softsign(inapplicable=INAPPLICABLE))
    assert sorted(each.node for each in result.applied) == sorted(set(NAMES) - set(INAPPLICABLE))
    assert result.dropped == dict.fromkeys(INAPPLICABLE, "the rewrite 'softsign as division' was dropped: not here")
    assert proofs == [(16, 3)]


def test_a_node_names_the_rewrite_that_was_compared_before_one_that_does_not_apply(onnx_model, model_of) -> None:
    class Compared(Softsign):
        __module__ = "edgekit.rewrites"  # as one of the host's own
        name = "wrong softsign"

    class Inapplicable(Softsign):
        __module__ = "edgekit.rewrites"
        name = "softsign of others"

    proto = onnx_model("g (float[2] x) => (float[2] y) <float one = {1.0}> { y = Softsign (x) }")
    model = model_of(proto)
    (node,) = (node_name(node) for node in model.graph)

    result = rewritten(model, lambda _: {node}, [Compared(wrong=node), Inapplicable(inapplicable=[node])])

    assert result.dropped[node].startswith("the rewrite 'wrong softsign' was dropped: output y differs by ")


def test_an_operator_with_a_graph_of_its_own_has_no_definition_that_could_be_called(model_of) -> None:
    """What the graph reads from outside is unknown in a function."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[4, 3] x) => (float[a, 3] y) <float[3] w = {1, 2, 3}> {
        rows = SplitToSequence (x)
        products = SequenceMap <body = each (float[1, 3] row) => (float[1, 3] z) { z = Mul (row, w) }> (rows)
        y = ConcatFromSequence <axis = 0> (products)
    }""")
    model = model_of(proto)
    (name,) = (node_name(node) for node in model.graph if node.op_type == "SequenceMap")
    result = rewritten(model, lambda _: {name}, installed_rewrites())
    assert not result.applied
    assert result.dropped[name].endswith("a definition cannot read what a graph of the node reads from outside")


def test_layers_of_which_one_is_refused_at_a_time(
    onnx_model: Callable[..., onnx.ModelProto], model_of: Callable[[onnx.ModelProto], Model]
) -> None:
    """What stands behind a refused node is not looked at; there is no limit but for what rewrites give themselves."""
    layers = " ".join(f"x{number + 1} = Softsign (x{number})" for number in range(20))
    proto = onnx_model(f"g (float[2] x0) => (float[2] x20) <float one = {{1.0}}> {{ {layers} }}")

    def first(candidate: Model) -> set[str]:
        return set([node_name(node) for node in candidate.graph if node.op_type == "Softsign"][:1])

    result = rewritten(model_of(proto), first, [Softsign()])
    assert len(result.applied) == 20
    assert not result.dropped

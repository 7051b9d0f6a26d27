from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import onnx
import onnx_ir as ir
import pytest

from edgekit.errors import InputError, InternalError
from edgekit.model import Model
from edgekit.stages import Stage, StageResult


class Careful(Stage[Model]):
    """A stage that requires an operator, promises to keep the number of nodes, and does what its test says."""

    name: ClassVar[str] = "careful"

    def __init__(self, record: Mapping[str, Any], change: Callable[[Model], Model] = lambda model: model) -> None:
        self.record = record
        self.change = change

    def requires(self, given: Model) -> None:
        if not len(given.graph):
            raise InputError("no nodes")

    def run(self, given: Model) -> StageResult:
        return StageResult(self.change(given), self.record)

    def ensures(self, given: Model, result: StageResult) -> None:
        if len(result.model.graph) != len(given.graph):
            raise self.broken("nodes are missing")


@pytest.fixture
def model(onnx_model: Callable[..., onnx.ModelProto]) -> Model:
    return Model(ir.from_proto(onnx_model("g (float[1] x) => (float[1] y) { y = Relu (x) }")))


def empty(model: Model) -> Model:
    graph_model = model.graph_model.clone()
    graph_model.graph.outputs.clear()
    graph_model.graph.remove(list(graph_model.graph))
    return model.with_graph(graph_model)


def test_a_stage_hands_on_its_model_and_record(model: Model) -> None:
    result = Careful({"warnings": ["mind the gap"]})(model)
    assert result.model is model
    assert result.warnings == ("mind the gap",)


def test_what_is_required_is_checked(model: Model) -> None:
    with pytest.raises(InputError, match="no nodes"):
        Careful({})(empty(model))


def test_what_is_promised_is_checked(model: Model) -> None:
    with pytest.raises(InternalError) as caught:
        Careful({}, empty)(model)
    assert str(caught.value) == "careful: the stage broke its contract: nodes are missing"


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"bytes"])
def test_a_record_is_plain_data(model: Model, value: object) -> None:
    with pytest.raises(InternalError, match="careful: the stage broke its contract: its record is not plain data"):
        Careful({"value": value})(model)


def test_what_was_tried_is_not_done_again(model: Model) -> None:
    seen: list[Model] = []
    stage = Careful({}, lambda given: seen.append(given) or model.with_graph(given.graph_model.clone()))
    tried = stage.tried(model)
    assert stage(model) is tried
    assert stage.tried(model) is tried
    assert seen == [model]
    other = model.with_graph(model.graph_model.clone())
    assert stage(other) is not tried
    assert seen == [model, other]


def test_what_was_tried_has_to_keep_the_promises(model: Model) -> None:
    stage = Careful({}, empty)
    stage.tried(model)
    with pytest.raises(InternalError, match="nodes are missing"):
        stage(model)

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.execution import known_answers
from edgekit.execution.known_answers import KnownAnswers
from edgekit.execution.recurrence import FedBackOriginal
from edgekit.execution.reference import Reference
from edgekit.model import Arrays, Model


@pytest.fixture
def model() -> Model:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x, int64 k) => (float[N] y) {
        c = CastLike(k, x) y = Add(x, c)
    }"""
    return Model(ir.from_proto(onnx.parser.parse_model(text)))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, np.ndarray]]:
    made: list[Mapping[str, np.ndarray]] = []
    run = Reference.run

    def counted(self: Reference, feeds: Mapping[str, np.ndarray]) -> Arrays:
        made.append(feeds)
        return run(self, feeds)

    monkeypatch.setattr(Reference, "run", counted)
    return made


def feeds(*numbers: float, k: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.array(numbers, np.float32), "k": np.array(k)}


def test_the_same_inputs_are_executed_once_for_several_references(
    model: Model, runs: list[Mapping[str, np.ndarray]]
) -> None:
    answers = KnownAnswers()
    given = [feeds(1, 2), feeds(1, 3), feeds(1, 2, k=2), feeds(1, 2, 0)]
    for _ in range(2):
        reference = answers.reference_of(model)
        for each in given:
            np.testing.assert_array_equal(reference.run(each)["y"], each["x"] + each["k"])
            reordered = dict(reversed(each.items()))
            np.testing.assert_array_equal(reference.run(reordered)["y"], each["x"] + each["k"])
    assert len(runs) == len(given)
    assert reference.executed_by == Reference(model).executed_by


def test_what_is_kept_cannot_be_changed(model: Model) -> None:
    reference = KnownAnswers().reference_of(model)
    answer = reference.run(feeds(1, 2))
    with pytest.raises(ValueError, match="read-only"):
        answer["y"][0] = 0
    answer.clear()
    assert list(reference.run(feeds(1, 2))) == ["y"]


def test_another_model_has_other_answers(model: Model, runs: list[Mapping[str, np.ndarray]]) -> None:
    answers = KnownAnswers()
    for _ in range(2):
        answers.reference_of(Model(model.graph_model)).run(feeds(1))
    assert len(runs) == 2


def test_no_more_are_kept_than_there_is_room_for(
    model: Model, runs: list[Mapping[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_answers, "MOST_BYTES", 12)
    reference = KnownAnswers().reference_of(model)
    for _ in range(2):
        for number in range(3):
            reference.run(feeds(number, 0))
    assert len(runs) == 5  # one of them is known: 8 bytes of 12


def test_states_are_fed_back() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1] x, float[1] s) => (float[1] y) { y = Add(x, s) }'
    stateful = Model(ir.from_proto(onnx.parser.parse_model(text)), states={"s": "y"})
    reference = KnownAnswers().reference_of(stateful)
    assert isinstance(reference, FedBackOriginal)
    found = [float(reference.run({"x": np.ones(1, np.float32)})["y"][0]) for _ in range(3)]
    assert found == [1, 2, 3]

"""Loops that do not end are told by counting their steps; those that end compute what they computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.errors import InputError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.loop_limit import LEAST_STEPS, MOST_STEPS, most_steps
from edgekit.execution.reference import Reference
from edgekit.model import Model
from edgekit.processes import supervision

OnnxModel = Callable[..., onnx.ModelProto]

STEP = "co = Identity (c) vo = Add (v, x)"
ENDLESS = f"""g (float[1] x) => (float[1] y) {{
    go = Constant <value = bool {{1}}> ()
    zero = Constant <value = float[1] {{0}}> ()
    y = Loop (, go, zero) <body = b (int64 i, bool c, float[1] v) => (bool co, float[1] vo) {{ {STEP} }}>
}}"""


@pytest.fixture
def model(onnx_model: OnnxModel) -> Callable[[str], Model]:
    return lambda graph: Model(ir.from_proto(onnx_model(graph)))


@pytest.fixture
def time_was_asked_for() -> Iterator[None]:
    supervision.set_limits(None, 300.0)
    yield
    supervision.set_limits(None, None)


def counted(trips: int, body: str = STEP) -> str:
    return f"""g (float[1] x) => (float[1] y) {{
        n = Constant <value = int64 {{{trips}}}> ()
        zero = Constant <value = float[1] {{0}}> ()
        y = Loop (n, , zero) <body = b (int64 i, bool c, float[1] v) => (bool co, float[1] vo) {{ {body} }}>
    }}"""


def nested(outer: int, inner: int) -> str:
    step = "do = Identity (d) wo = Add (w, x)"
    loop = f"<body = inside (int64 j, bool d, float[1] w) => (bool do, float[1] wo) {{ {step} }}>"
    return counted(outer, f"co = Identity (c) m = Constant <value = int64 {{{inner}}}> () vo = Loop (m, , v) {loop}")


@pytest.mark.parametrize("trips", [0, 1, 1000, 300_000])
def test_a_loop_that_ends_computes_what_it_computed(trips: int, model: Callable[[str], Model]) -> None:
    assert Reference(model(counted(trips))).run({"x": np.ones(1, np.float32)})["y"] == trips


@pytest.mark.parametrize("steps", [(300, 300), (2000, 1), (1, 2000), (0, 5), (5, 0)])
def test_loops_in_loops_that_end_compute_what_they_computed(
    steps: tuple[int, int], model: Callable[[str], Model]
) -> None:
    assert Reference(model(nested(*steps))).run({"x": np.ones(1, np.float32)})["y"] == steps[0] * steps[1]


@pytest.mark.parametrize(
    "graph",
    [ENDLESS, counted(2**62), nested(2**62, 1), nested(1, 2**62), nested(500_000, 500_000), nested(2000, 200_000)],
    ids=["condition", "count", "outer", "inner", "both", "product"],
)
def test_a_loop_without_end_is_an_error_that_names_it(graph: str, model: Callable[[str], Model]) -> None:
    started = time.process_time()
    with pytest.raises(InputError) as caught:
        Reference(model(graph)).run({"x": np.ones(1, np.float32)})
    text = str(caught.value)
    assert "a loop does not end" in text
    assert "(Loop)" in text
    assert "steps at most" in text
    assert "--max-seconds 300" in text
    assert time.process_time() - started < 60


def test_an_endless_loop_ends_what_compares_models(model: Callable[[str], Model]) -> None:
    with pytest.raises(InputError, match="a loop does not end"):
        Equivalence(model(ENDLESS))


def test_a_time_that_is_asked_for_takes_the_place_of_the_steps(
    time_was_asked_for: None, model: Callable[[str], Model]
) -> None:
    trips = MOST_STEPS + 10
    assert Reference(model(counted(trips))).run({"x": np.ones(1, np.float32)})["y"] == trips


def test_large_bodies_may_take_fewer_steps(model: Callable[[str], Model]) -> None:
    long = "".join(f"v{number} = Relu (v)\n" for number in range(2000))
    assert most_steps(model(counted(3))) == MOST_STEPS
    assert most_steps(model(counted(3, STEP + long))) == LEAST_STEPS


def test_names_that_the_counting_would_take_are_left_to_the_model(model: Callable[[str], Model]) -> None:
    graph = counted(5)
    own = model(graph)
    for number, node in enumerate(own.graph.all_nodes()):
        node.outputs[0].name = f"edgekit/steps{number}"
    assert Reference(own).run({"x": np.ones(1, np.float32)}).popitem()[1] == 5

from __future__ import annotations

import numpy as np
import pytest

import edgekit_coreml
from edgekit.errors import InputError


@pytest.fixture
def counter(save, mb):
    """A package that adds its input to a state and returns the sum."""
    from coremltools.converters.mil.mil import types

    def program(x, total):
        summed = mb.add(x=mb.read_state(input=total), y=mb.cast(x=x, dtype="fp16"))
        return mb.cast(x=mb.coreml_update_state(state=total, value=summed), dtype="fp32", name="out")

    return save(program, {"x": ((2,),), "total": mb.state_tensor_placeholder((2,), types.fp16)}, ios=18)


def test_a_state_outlives_the_run_and_starts_at_zero(counter):
    runner = edgekit_coreml.load(counter)
    state, other = runner.make_state(), runner.make_state()
    assert runner.run({"x": np.float32([1, 2])}, state=state)["out"].tolist() == [1, 2]
    assert runner.run({"x": np.float32([1, 2])}, state=state)["out"].tolist() == [2, 4]
    assert runner.run({"x": np.float32([5, 5])}, state=other)["out"].tolist() == [5, 5]


def test_a_state_is_rounded_as_declared_but_not_in_float32_mode(counter):
    tiny = {"x": np.float32([1 + 2**-12, 0])}
    declared, wide = edgekit_coreml.load(counter), edgekit_coreml.load(counter, precision="float32")
    assert declared.run(tiny, state=declared.make_state())["out"][0] == 1
    assert wide.run(tiny, state=wide.make_state())["out"][0] == np.float32(1 + 2**-12)


def test_a_state_can_be_read_and_written(counter):
    runner = edgekit_coreml.load(counter)
    state = runner.make_state()
    state.write_state("total", np.float16([10, 20]))
    runner.run({"x": np.float32([1, 1])}, state=state)
    content = state.read_state("total")
    assert content.dtype == np.float16
    assert content.tolist() == [11, 21]
    content[:] = 0
    assert state.read_state("total").tolist() == [11, 21]
    with pytest.raises(InputError, match="no such state"):
        state.read_state("sum")
    with pytest.raises(InputError, match="wrong shape"):
        state.write_state("total", np.float16([1]))


def test_a_stateful_model_needs_its_own_state(counter, save, mb):
    runner = edgekit_coreml.load(counter)
    with pytest.raises(InputError, match="make_state"):
        runner.run({"x": np.float32([1, 2])})
    stateless = edgekit_coreml.load(save(lambda x: mb.identity(x=x, name="out"), {"x": ((2,),)}))
    with pytest.raises(InputError, match="another model"):
        runner.run({"x": np.float32([1, 2])}, state=stateless.make_state())

from __future__ import annotations

import numpy as np
import pytest

import edgekit_coreml
from edgekit_mlruntime.failures import ExecutionError


@pytest.fixture(scope="module")
def types(ct):
    from coremltools.converters.mil.mil import types

    return types


@pytest.mark.parametrize(("chosen", "expected"), [(1.0, [11, 12]), (0.0, [-1, -2])])
def test_cond_runs_one_branch(save, mb, chosen, expected):
    def program(x, flag):
        pred = mb.squeeze(x=mb.greater(x=flag, y=np.float32([0.5])), axes=[0])
        return mb.cond(
            pred=pred, _true_fn=lambda: mb.add(x=x, y=10.0), _false_fn=lambda: mb.mul(x=x, y=-1.0), name="out"
        )

    runner = edgekit_coreml.load(save(program, {"x": ((2,),), "flag": ((1,),)}))
    assert runner.run({"x": np.float32([1, 2]), "flag": np.float32([chosen])})["out"].tolist() == expected


def test_cond_with_several_outputs_and_constants_as_outputs(save, mb):
    def program(x):
        pred = mb.squeeze(x=mb.greater(x=x, y=np.float32([0])), axes=[0])
        first, second = mb.cond(
            pred=pred,
            _true_fn=lambda: (mb.const(val=np.float32([5])), mb.identity(x=x)),
            _false_fn=lambda: (mb.mul(x=x, y=2.0), mb.const(val=np.float32([6]))),
        )
        return mb.identity(x=first, name="first"), mb.identity(x=second, name="second")

    runner = edgekit_coreml.load(save(program, {"x": ((1,),)}))
    assert {k: v.tolist() for k, v in runner.run({"x": np.float32([3])}).items()} == {"first": [5], "second": [3]}
    assert {k: v.tolist() for k, v in runner.run({"x": np.float32([-3])}).items()} == {"first": [-6], "second": [6]}


@pytest.mark.parametrize(("start", "expected"), [(1, [128, 7]), (100, [100, 0]), (50, [100, 1])])
def test_while_loop_runs_as_long_as_its_condition_holds(save, mb, types, start, expected):
    """Doubles until 100 is reached, and counts how often."""

    def program(x):
        value, count = mb.while_loop(
            _cond=lambda value, count: mb.squeeze(x=mb.less(x=value, y=np.int32([100])), axes=[0]),
            _body=lambda value, count: (mb.mul(x=value, y=np.int32([2])), mb.add(x=count, y=np.int32([1]))),
            loop_vars=(x, mb.const(val=np.int32([0]))),
        )
        return mb.identity(x=value, name="value"), mb.identity(x=count, name="count")

    runner = edgekit_coreml.load(save(program, {"x": ((1,), types.int32)}))
    results = runner.run({"x": np.int32([start])})
    assert [int(results["value"][0]), int(results["count"][0])] == expected


def test_nested_loops_read_values_of_the_blocks_around_them(save, mb):
    """Adds x three times in each of two rounds; the inner loop reads what the outer one and the function hold."""

    def scalar_less(value, bound):
        return mb.squeeze(x=mb.less(x=value, y=np.float32([bound])), axes=[0])

    def program(x):
        def body(total, outer):
            def inner_body(total, inner):
                return mb.add(x=total, y=mb.add(x=x, y=mb.mul(x=outer, y=100.0))), mb.add(x=inner, y=1.0)

            total, _ = mb.while_loop(
                _cond=lambda _, inner: scalar_less(inner, 3), _body=inner_body, loop_vars=(total, np.float32([0]))
            )
            return total, mb.add(x=outer, y=1.0)

        total, _ = mb.while_loop(
            _cond=lambda _, outer: scalar_less(outer, 2), _body=body, loop_vars=(np.float32([0]), np.float32([0]))
        )
        return mb.identity(x=total, name="total")

    runner = edgekit_coreml.load(save(program, {"x": ((1,),)}))
    for _ in range(2):
        assert runner.run({"x": np.float32([7])})["total"].tolist() == [6 * 7 + 3 * 100]


def test_lists_are_values_that_grow(save, mb):
    """Writes beyond the end make a list longer, and leave the list that was written to as it was."""

    def program(x):
        empty = mb.make_list(init_length=1, dynamic_length=True, elem_shape=(2,), dtype="fp32")
        first = mb.list_write(ls=empty, index=0, value=x)
        second = mb.list_write(ls=first, index=2, value=mb.mul(x=x, y=2.0))
        third = mb.list_scatter(ls=second, indices=np.int32([1, 0]), value=np.float32([[8, 8], [9, 9]]))
        return (
            mb.identity(x=mb.list_gather(ls=second, indices=np.int32([2, 0])), name="gathered"),
            mb.identity(x=mb.list_read(ls=third, index=1), name="scattered"),
            mb.identity(x=mb.list_read(ls=second, index=1), name="unwritten"),
            mb.identity(x=mb.expand_dims(x=mb.list_length(ls=first), axes=[0]), name="before"),
            mb.identity(x=mb.expand_dims(x=mb.list_length(ls=third), axes=[0]), name="after"),
        )

    results = edgekit_coreml.load(save(program, {"x": ((2,),)})).run({"x": np.float32([1, 2])})
    assert {name: value.tolist() for name, value in results.items()} == {
        "gathered": [[2, 4], [1, 2]],
        "scattered": [8, 8],
        "unwritten": [0, 0],
        "before": [1],
        "after": [3],
    }


def test_a_list_of_fixed_length_does_not_grow(save, mb):
    def program(x):
        fixed = mb.make_list(init_length=1, dynamic_length=False, elem_shape=(1,), dtype="fp32")
        return mb.list_read(ls=mb.list_write(ls=fixed, index=1, value=x), index=0, name="out")

    runner = edgekit_coreml.load(save(program, {"x": ((1,),)}))
    with pytest.raises(ExecutionError, match="no such element"):
        runner.run({"x": np.float32([1])})


def test_lists_go_through_loops(save, mb):
    """Collects 0, x, 2x in a list, one a round."""

    def program(x):
        def body(index, ls):
            value = mb.mul(x=x, y=mb.cast(x=index, dtype="fp32"))
            return mb.add(x=index, y=1), mb.list_write(ls=ls, index=index, value=value)

        ls = mb.make_list(init_length=3, dynamic_length=False, elem_shape=(1,), dtype="fp32")
        _, ls = mb.while_loop(_cond=lambda index, _: mb.less(x=index, y=3), _body=body, loop_vars=(0, ls))
        return mb.list_gather(ls=ls, indices=np.int32([0, 1, 2]), name="out")

    runner = edgekit_coreml.load(save(program, {"x": ((1,),)}))
    assert runner.run({"x": np.float32([5])})["out"].tolist() == [[0], [5], [10]]

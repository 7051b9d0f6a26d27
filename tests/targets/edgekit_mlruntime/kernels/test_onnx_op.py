from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest

from edgekit_mlruntime.executor import FunctionPlan
from edgekit_mlruntime.kernels.onnx_op import run_onnx_op, thread_limit
from edgekit_mlruntime.program import Block, Function
from edgekit_mlruntime.registry import Call


@pytest.fixture
def new_call():
    context: Any = FunctionPlan(
        Function("main", [], "CoreML7", Block([], [], [])), rounds_to_half=True, seed=0, subject="none"
    )

    def make(*constant_inputs: str) -> Call:
        return Call("linear", "op", 17, {}, [], frozenset(constant_inputs), rounds_to_half=True, context=context)

    return make


def multiply(call, x, weight):
    operands = {"x": x, "weight": weight}
    return run_onnx_op(call, "product", "Gemm", operands, work=1, shape=(len(x), len(weight)), transB=1)


def test_operations_with_the_same_weight_share_it(new_call, rng):
    x, weight, other = (rng.standard_normal((4, 4), dtype=np.float32) for _ in range(3))
    first, second, third = (new_call("weight") for _ in range(3))
    for call, values in ((first, weight), (second, weight), (third, other)):
        np.testing.assert_allclose(multiply(call, x, values), x @ values.T, rtol=1e-4, atol=1e-5)
    assert first.cache["product"] is second.cache["product"]
    assert first.cache["product"] is not third.cache["product"]


def test_large_constants_stay_where_they_are_read(new_call, rng):
    x = rng.standard_normal((4, 300), dtype=np.float32)
    every_second = rng.standard_normal((600, 300), dtype=np.float32)[::2]
    expected = x @ every_second.T
    call = new_call("weight")
    multiply(call, x, every_second)
    every_second[:] = 0  # the session reads a copy in order, which nobody else holds
    for _ in range(2):
        gc.collect()
        np.full((300, 300), np.nan, np.float32)  # takes memory that was freed, if any was
        np.testing.assert_allclose(multiply(call, x, every_second), expected, rtol=1e-4, atol=1e-4)


def test_operands_that_are_not_constant_are_fed(new_call, rng):
    call = new_call("x")
    for _ in range(2):
        x, weight = (rng.standard_normal((4, 4), dtype=np.float32) for _ in range(2))
        np.testing.assert_allclose(multiply(call, x, weight), x @ weight.T, rtol=1e-4, atol=1e-5)


def test_operands_may_lie_in_memory_in_any_order(new_call, rng):
    x, weight = (rng.standard_normal((6, 4), dtype=np.float32)[::2] for _ in range(2))
    columns = np.asfortranarray(x)
    np.testing.assert_allclose(multiply(new_call(), columns, weight), x @ weight.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("setting", "expected"), [("1", 1), ("5", 5), ("", None), ("0", None), ("many", None)])
def test_threads_are_limited_as_for_blas(monkeypatch, setting, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert thread_limit() == (expected or min(2, os.cpu_count() or 1))

from __future__ import annotations

import numpy as np
import pytest

from edgekit_mil.core.mil import Function, Program, ct, mb
from edgekit_mil.passes.repeated_quantization import drop_repeated_quantization
from edgekit_mil.passes.shared_constants import drop_output_copies, share_small_constants


@pytest.fixture
def build():
    """Makes a program of one input ``x`` [1, 2, 8, 8] from a function of it that returns the outputs."""

    def make(body):
        with Function({"x": mb.placeholder(shape=(1, 2, 8, 8))}, ct.target.iOS18) as function:
            outputs = body(function.inputs["x"])
            function.set_outputs(outputs if isinstance(outputs, list) else [outputs])
        program = Program()
        program.add_function("main", function)
        return program

    return make


def types_of(program):
    return [operation.op_type for operation in program.functions["main"].operations]


def test_equal_constants_become_one_with_a_short_name(build):
    def body(x):
        once = mb.avg_pool(x=x, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
        return mb.avg_pool(x=once, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")

    program = build(body)
    share_small_constants(program, final=True)
    program.validate()
    first, second = (operation for operation in program.functions["main"].operations if operation.op_type == "avg_pool")
    assert first.strides is second.strides is second.kernel_sizes
    assert first.pad_type is second.pad_type
    assert len(first.strides.name) <= 3


def test_equal_numbers_of_other_types_or_shapes_stay_apart(build):
    def body(x):
        return mb.add(x=mb.add(x=x, y=np.float32(0)), y=np.zeros((1, 1), np.float32))

    program = build(body)
    share_small_constants(program, final=True)
    assert types_of(program).count("const") == 2


def test_constants_of_a_branch_are_shared_with_what_is_around_it(build):
    def body(x):
        low = mb.less(x=mb.reduce_sum(x=x, axes=[0, 1, 2, 3], keep_dims=False), y=0.0)
        return mb.cond(pred=low, _true_fn=lambda: mb.add(x=x, y=0.0), _false_fn=lambda: mb.mul(x=x, y=0.0))

    program = build(body)
    share_small_constants(program, final=True)
    program.validate()
    (cond,) = (operation for operation in program.functions["main"].operations if operation.op_type == "cond")
    assert all(operation.op_type != "const" for block in cond.blocks for operation in block.operations)


@pytest.mark.parametrize("final", [False, True])
def test_only_what_is_final_loses_the_names_of_quantized_tensors(build, final):
    program = build(lambda x: mb.relu(x=mb.dequantize(input=quantize(x, name="kept"), scale=np.float32(0.5))))
    share_small_constants(program, final=final)
    names = [operation.outputs[0].name for operation in program.functions["main"].operations]
    assert ("kept" in names) is not final


def test_outputs_need_no_copies(build):
    program = build(lambda x: [mb.identity(x=mb.relu(x=x), name="y"), mb.identity(x=x, name="same")])
    drop_output_copies(program)
    program.validate()
    outputs = program.functions["main"].outputs
    assert [output.name for output in outputs] == ["y", "same"]
    assert [output.op.op_type for output in outputs] == ["relu", "identity"]


def quantize(x, scale=0.5, **options):
    return mb.quantize(input=x, scale=np.float32(scale), output_dtype="int8", **options)


def pooled_between_quantizations(x, first, second):
    def pair(var, scale):
        return mb.dequantize(input=quantize(var, scale), scale=np.float32(scale))

    pool = mb.max_pool(x=pair(x, first), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
    return mb.relu(x=pair(mb.reshape(x=pool, shape=[2, 16]), second))


def test_the_first_of_two_equal_quantizations_goes(build):
    program = build(lambda x: pooled_between_quantizations(x, 0.5, 0.5))
    drop_repeated_quantization(program)
    pool = next(operation for operation in program.functions["main"].operations if operation.op_type == "max_pool")
    assert pool.x is program.functions["main"].inputs["x"]


def test_different_quantizations_stay(build):
    program = build(lambda x: pooled_between_quantizations(x, 0.5, 0.25))
    drop_repeated_quantization(program)
    pool = next(operation for operation in program.functions["main"].operations if operation.op_type == "max_pool")
    assert pool.x.op.op_type == "dequantize"


def test_quantizations_around_different_zero_points_stay(build):
    def pair(x, zero_point):
        options = {"scale": np.float32(0.5), "zero_point": np.int8(zero_point)}
        return mb.dequantize(input=mb.quantize(input=x, output_dtype="int8", **options), **options)

    def pooled(x):
        pool = mb.max_pool(x=pair(x, 3), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
        return mb.relu(x=pair(pool, -5))

    program = build(pooled)
    drop_repeated_quantization(program)
    pool = next(operation for operation in program.functions["main"].operations if operation.op_type == "max_pool")
    assert pool.x.op.op_type == "dequantize"

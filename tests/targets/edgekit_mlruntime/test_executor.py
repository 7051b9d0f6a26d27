from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

import edgekit_coreml
from edgekit.errors import InputError, InternalError, UnsupportedOpsError
from edgekit_mlruntime import registry
from edgekit_mlruntime.executor import FunctionPlan
from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.program import Array, Block, DataType, Function, NamedType, Operation, TensorType, Value
from edgekit_mlruntime.registry import Call, Ints, find_kernel, kernel

VECTOR = TensorType(DataType.FLOAT32, (2,))


def operation(op_type, output, declared=VECTOR, blocks=(), **inputs):
    return Operation(
        op_type, output, {name: [value] for name, value in inputs.items()}, [NamedType(output, declared)], blocks
    )


def plan(operations, outputs, *, rounds_to_half=True, opset="CoreML7"):
    function = Function("main", [NamedType("x", VECTOR)], opset, Block([], outputs, operations))
    return FunctionPlan(function, rounds_to_half=rounds_to_half, seed=0, subject="package")


@pytest.fixture
def registered(monkeypatch):
    """A registry in which a test can register kernels of its own."""
    import edgekit_mlruntime.kernels  # noqa: F401 - fills the registry

    monkeypatch.setattr(registry, "_KERNELS", {name: list(found) for name, found in registry._KERNELS.items()})


def test_all_operations_without_a_kernel_are_reported_before_anything_runs():
    inner = Block([], ["c"], [operation("frobnicate", "c", x="x")])
    pred = Value(TensorType(DataType.BOOL, ()), lambda: np.array(True))
    operations = [
        operation("relu", "a", x="x"),
        operation("custom_layer", "b", x="a"),
        operation("cond", "d", blocks=[inner, inner], pred=pred),
        operation("read_state", "e", input="x"),
    ]
    with pytest.raises(UnsupportedOpsError) as caught:
        plan(operations, ["d"])
    assert caught.value.ops == ["custom_layer", "frobnicate", "read_state"]
    assert [gap.node for gap in caught.value.gaps] == ["b", "c", "c", "e"]
    assert "CoreML7" in caught.value.gaps[-1].reason
    assert caught.value.subject == "package"


def test_unknown_inputs_missing_inputs_and_types_that_cannot_be_held_are_gaps():
    operations = [
        operation("relu", "a", x="x", slope="x"),
        operation("add", "b", x="x"),
        operation("identity", "c", TensorType(DataType.BFLOAT16, (2,)), x="x"),
    ]
    with pytest.raises(UnsupportedOpsError) as caught:
        plan(operations, ["a"])
    assert [gap.reason for gap in caught.value.gaps] == [
        "input not known to the runtime: slope",
        "input missing: y",
        "values of type bfloat16 cannot be computed with",
    ]


def test_an_unknown_operator_set_is_refused():
    with pytest.raises(UnsupportedOpsError, match="CoreML99"):
        plan([operation("relu", "a", x="x")], ["a"], opset="CoreML99")


def test_a_result_that_is_not_as_declared_is_a_fault():
    wrong = plan([operation("relu", "a", TensorType(DataType.FLOAT32, (3,)), x="x")], ["a"])
    with pytest.raises(InternalError, match=r"a: the result of relu.*\nexpected: shape \(3,\)\nfound: shape \(2,\)"):
        wrong.run([np.zeros(2, np.float32)])


def test_free_dimensions_fit_any_size():
    free = plan([operation("relu", "a", TensorType(DataType.FLOAT32, (None,)), x="x")], ["a"])
    assert free.run([np.zeros(7, np.float32)])[0].shape == (7,)


def test_shapes_that_do_not_fit_each_other_are_no_fault_of_edgekit():
    open_vector = TensorType(DataType.FLOAT32, (None,))
    three = Value(TensorType(DataType.FLOAT32, (3,)), lambda: np.zeros(3, np.float32))
    runner = plan([operation("add", "a", open_vector, x="x", y=three)], ["a"])
    with pytest.raises(ExecutionError, match=r"a: .* do not fit each other\nfound: .*x \(2,\)"):
        runner.run([np.zeros(2, np.float32)])


def test_shapes_that_cannot_be_joined_are_told():
    two, three = (Value(TensorType(DataType.FLOAT32, (n, 1)), lambda n=n: np.zeros((n, 1), np.float32)) for n in (2, 3))
    axis = Value(TensorType(DataType.INT32, ()), lambda: np.array(1))
    apart = Value(TensorType(DataType.BOOL, ()), lambda: np.array(False))
    free = TensorType(DataType.FLOAT32, (None, None))
    joined = Operation(
        "concat", "a", {"values": [two, three, "x"], "axis": [axis], "interleave": [apart]}, [NamedType("a", free)], ()
    )
    with pytest.raises(ExecutionError, match=r"do not fit each other\nfound: values \(2, 1\), values \(3, 1\)"):
        plan([joined], ["a"]).run([np.zeros((2, 1), np.float32)])


def test_a_result_that_is_empty_at_the_sizes_of_a_run_is_told():
    begin, end = (Value(TensorType(DataType.INT32, (1,)), lambda size=size: np.array([size])) for size in (2, 3))
    one = TensorType(DataType.FLOAT32, (1,))
    runner = plan([operation("slice_by_index", "a", one, x="x", begin=begin, end=end)], ["a"])
    with pytest.raises(ExecutionError, match=r"a: .*the result is empty at these sizes"):
        runner.run([np.zeros(2, np.float32)])


def test_an_input_that_is_empty_at_the_sizes_of_a_run_is_told():
    one = TensorType(DataType.INT32, ())
    axis, keeps = (
        Value(kind, lambda each=each: np.array(each))
        for kind, each in ((one, 0), (TensorType(DataType.BOOL, ()), False))
    )
    runner = plan([operation("reduce_argmax", "a", one, x="x", axis=axis, keep_dims=keeps)], ["a"])
    with pytest.raises(ExecutionError, match=r"a: .*an input is empty at these sizes.*\nfound: .*x \(0,\)"):
        runner.run([np.zeros(0, np.float32)])


def test_a_failing_kernel_names_its_operation():
    failing = plan([operation("add", "sum_1", x="x", y="x")], ["sum_1"])
    with pytest.raises(TypeError) as caught:
        failing.run([np.array([{}, {}])])
    assert caught.value.__notes__ == ["in operation 'sum_1' (add)"]


def test_results_are_freed_after_their_last_use(registered):
    """A chain holds its input and one result at a time, not all results."""
    made: list[weakref.ref[Array]] = []
    alive = []

    @kernel("step")
    def step(call: Call, x: Array) -> Array:
        result = x + 1
        made.append(weakref.ref(result))
        alive.append(sum(reference() is not None for reference in made))
        return result

    chain = plan([operation("step", f"v{i + 1}", x=f"v{i}" if i else "x") for i in range(10)], ["v10"])
    assert chain.run([np.zeros(2, np.float32)])[0].tolist() == [10, 10]
    assert max(alive) == 2


def test_float16_results_are_rounded_after_every_operation_unless_raw_or_in_float32_mode(registered):
    half = TensorType(DataType.FLOAT16, (2,))

    @kernel("third")
    def third(call: Call, x: Array) -> Array:
        return x / np.float32(3)

    @kernel("raw_third", raw=True)
    def raw_third(call: Call, x: Array) -> Array:
        return x / np.float32(3)

    one = np.float32([1, 2])
    for name, rounds, expected in (
        ("third", True, (one / 3).astype(np.float16)),
        ("raw_third", True, one / 3),
        ("third", False, one / 3),
    ):
        (actual,) = plan([operation(name, "a", half, x="x")], ["a"], rounds_to_half=rounds).run([one])
        assert actual.dtype == np.float32
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("form", ["input", "item", "view", "fresh"])
def test_rounding_overwrites_only_what_nothing_else_sees(registered, form):
    size = 5000
    kept = np.zeros(size, np.float32) + np.float32(1 / 3)

    @kernel("echo")
    def echo(call: Call, x: Array, many: list[Array]) -> Array:
        return {"input": x, "item": many[0], "view": kept[:], "fresh": x + 0}[form]

    half = TensorType(DataType.FLOAT16, (size,))
    feed = np.full(size, 1 / 3, np.float32)
    inputs = {"x": ["x"], "many": ["x"]}
    function = Function(
        "main",
        [NamedType("x", half)],
        "CoreML7",
        Block([], ["y"], [Operation("echo", "e", inputs, [NamedType("y", half)])]),
    )
    (actual,) = FunctionPlan(function, rounds_to_half=True, seed=0, subject="package").run([feed])
    np.testing.assert_array_equal(actual, np.float32(np.float16(1 / 3)))
    for untouched in (feed, kept):
        np.testing.assert_array_equal(untouched, np.float32(1 / 3))


def test_kernels_get_what_their_annotations_ask_for(registered):
    seen = {}

    @kernel("probe")
    def probe(
        call: Call, x: Array, axes: Ints, size: int, rate: float | None, flag: bool, mode: str, many: list[Array]
    ) -> Array:
        seen.update(axes=axes, size=size, rate=rate, flag=flag, mode=mode, many=many)
        assert call.constant_inputs == {"axes", "size", "rate", "flag", "mode"}
        return x

    def constant(array, dtype):
        return Value(TensorType(dtype, np.shape(array)), lambda: array)

    inputs = {
        "x": ["x"],
        "axes": [constant(np.int32([1, -2]), DataType.INT32)],
        "size": [constant(np.array(3, np.int32), DataType.INT32)],
        "rate": [constant(np.array(0.5, np.float16), DataType.FLOAT16)],
        "flag": [constant(np.array(True), DataType.BOOL)],
        "mode": [constant("same", DataType.STRING)],
        "many": ["x"],
    }
    single = plan([Operation("probe", "p", inputs, [NamedType("y", VECTOR)])], ["y"])
    single.run([np.zeros(2, np.float32)])
    assert (seen["axes"], seen["size"], seen["rate"], seen["flag"], seen["mode"]) == ((1, -2), 3, 0.5, True, "same")
    assert [type(value) for value in seen["axes"]] == [int, int]
    assert [len(seen["many"]), type(seen["flag"])] == [1, bool]


def test_the_latest_kernel_up_to_the_operator_set_is_taken(registered):
    @kernel("aged")
    def old(call: Call, x: Array) -> Array:
        return x

    @kernel("aged", opset=17)
    def new(call: Call, x: Array) -> Array:
        return x

    found = [find_kernel("aged", ios) for ios in (15, 16, 17, 18, 26)]
    assert [entry.function for entry in found if entry] == [old, old, new, new, new]
    with pytest.raises(ValueError, match="two kernels"):
        kernel("aged", opset=17)(new)


def test_one_runner_serves_several_threads(save, mb):
    runner = edgekit_coreml.load(save(lambda x: mb.relu(x=mb.add(x=x, y=1.0), name="out"), {"x": ((50_000,),)}))
    wrong = []

    def work(value):
        for _ in range(20):
            result = runner.run({"x": np.full(50_000, value, np.float32)})["out"]
            if not np.all(result == value + 1):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_runner_says_what_executes(save, mb):
    path = save(lambda x: mb.relu(x=x, name="out"), {"x": ((2,),)})
    assert "reference runtime" in edgekit_coreml.load(path).executed_by
    assert "float32 throughout" in edgekit_coreml.load(path, precision="float32").executed_by
    with pytest.raises(InputError, match="unknown precision"):
        edgekit_coreml.load(path, precision="double")

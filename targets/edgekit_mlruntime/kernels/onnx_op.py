"""One ONNX operator as an ONNX Runtime session: the fast path of kernels that would be slow in NumPy."""

from __future__ import annotations

import functools
import math
import os
import weakref
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call

_OPSET = 19
_IR_VERSION = 9
_PARALLEL_WORK = 2e7
"""Multiply-adds from which on a second thread, which has to be woken, saves more than it costs on a busy machine."""
_COPIED = 1 << 13
"""Number of result elements up to which copying them out of the session is faster than binding output buffers."""
_OUTSIDE_BYTES = 1 << 16
"""Size in bytes from which on a constant is not copied into the session's model, which would keep a second copy."""


@dataclass(eq=False)
class _Operator:
    """One ONNX operator, ready to run."""

    session: onnxruntime.InferenceSession
    fed: Sequence[str]
    results: Sequence[str]
    constants: Mapping[str, Array]
    """Constants built into the session. They are kept alive because operators are looked up by their ``id``."""
    read: Mapping[str, Array]
    """The same constants, contiguous and float32; the session reads the large ones from here without copying them."""

    def run(self, operands: Mapping[str, Array | None], shapes: Sequence[Sequence[int]]) -> tuple[Array, ...]:
        """Returns new arrays with the results; ``shapes`` are their shapes."""
        if sum(math.prod(shape) for shape in shapes) <= _COPIED:
            fed = {name: np.asarray(operands[name]) for name in self.fed}
            return tuple(self.session.run(self.results, fed))
        results = tuple(np.empty(shape, np.float32) for shape in shapes)
        binding = self.session.io_binding()
        for name in self.fed:
            # NumPy's functions return scalars for tensors of rank 0, but a binding takes only arrays.
            binding.bind_cpu_input(name, np.asarray(operands[name]))
        for name, result in zip(self.results, results, strict=True):
            binding.bind_output(name, "cpu", 0, np.float32, result.shape, result.ctypes.data)
        self.session.run_with_iobinding(binding)
        return results


_operators: weakref.WeakValueDictionary[Hashable, _Operator] = weakref.WeakValueDictionary()
"""Operators in use. All iterations of an unrolled loop share one operator, and so one copy of its weights."""


def run_onnx_op(
    call: Call,
    key: Hashable,
    op_type: str,
    operands: Mapping[str, Array | None],
    *,
    work: float,
    shape: Sequence[int] | None = None,
    blocked: bool = False,
    **attributes: Any,
) -> Array:
    """Compute an ONNX operator that has one output.

    ``shape`` is the shape of the result, by default that of the first operand. All other arguments, and the result's
    type, are those of :func:`run_onnx_op_with_outputs`.
    """
    if shape is None:
        shape = next(value.shape for value in operands.values() if value is not None)
    (result,) = run_onnx_op_with_outputs(
        call, key, op_type, operands, shapes=[shape], work=work, blocked=blocked, **attributes
    )
    return result


def run_onnx_op_with_outputs(
    call: Call,
    key: Hashable,
    op_type: str,
    operands: Mapping[str, Array | None],
    *,
    shapes: Sequence[Sequence[int]],
    work: float,
    blocked: bool = False,
    **attributes: Any,
) -> tuple[Array, ...]:
    """Compute one ONNX operator; its session is kept in the operation's cache.

    Args:
        call: The operation.
        key: Distinguishes the sessions of one operation: the attributes that vary.
        op_type: The ONNX operator.
        operands: The operator's inputs in order, float32, under the names of the operation's inputs. The first is fed;
            the others are built into the session if they are constant in the program. None: the input is left out.
        shapes: Shapes of the results.
        work: Estimated multiply-adds of a run.
        blocked: Whether the channel-blocked memory layout is worth the reordering, as for convolutions with windows.
        attributes: Attributes of the operator.

    Returns:
        New float32 arrays.
    """
    _, *others = ((name, value) for name, value in operands.items() if value is not None)
    operator = call.cache.get(key)
    if operator is None:
        built_in = [name for name, _ in others if name in call.constant_inputs]
        threads = thread_limit() if work >= _PARALLEL_WORK else 1
        operator = _find_operator(op_type, operands, len(shapes), built_in, attributes, threads, blocked)
        call.cache[key] = operator
    results: tuple[Array, ...] = operator.run(operands, shapes)
    return results


def _find_operator(
    op_type: str,
    operands: Mapping[str, Array | None],
    output_count: int,
    built_in: Sequence[str],
    attributes: Mapping[str, Any],
    threads: int,
    blocked: bool,
) -> _Operator:
    """Returns the operator in use with the same constants and options, or a new one if there is none."""
    identity = (
        op_type,
        output_count,
        tuple((name, value is None, id(value) if name in built_in else None) for name, value in operands.items()),
        tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in attributes.items()),
        threads,
        blocked,
    )
    operator = _operators.get(identity)
    if operator is None:
        present = {name: value for name, value in operands.items() if value is not None}
        names = [name if name in present else "" for name in operands]
        results = [f"result_{index}" for index in range(output_count)]
        node = onnx.helper.make_node(op_type, names, results, **attributes)
        fed = [name for name in present if name not in built_in]
        constants = {name: present[name] for name in built_in}
        read = {name: np.ascontiguousarray(value, np.float32) for name, value in constants.items()}
        session = _build_session(node, fed, read, _session_options(threads, blocked))
        operator = _operators[identity] = _Operator(session, fed, results, constants, read)
    return operator


def _build_session(
    node: onnx.NodeProto, fed: Sequence[str], constants: Mapping[str, Array], options: onnxruntime.SessionOptions
) -> onnxruntime.InferenceSession:
    """A session of a one-node model, which reads large constants in place: the caller has to keep them alive."""
    outside = {name: value for name, value in constants.items() if value.nbytes >= _OUTSIDE_BYTES}
    graph = onnx.helper.make_graph(
        [node],
        node.op_type,
        [_float_tensor(name) for name in fed],
        [_float_tensor(name) for name in node.output],
        [
            _outside_tensor(value, name) if name in outside else onnx.numpy_helper.from_array(value, name)
            for name, value in constants.items()
        ],
    )
    opsets = [onnx.helper.make_opsetid("", _OPSET)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    if outside:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in outside.values()]
        options.add_external_initializers(list(outside), values)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _outside_tensor(value: Array, name: str) -> onnx.TensorProto:
    """The declaration of a constant whose content is passed in the session's options."""
    tensor = onnx.TensorProto(
        name=name, data_type=onnx.TensorProto.FLOAT, dims=value.shape, data_location=onnx.TensorProto.EXTERNAL
    )
    for key, text in (("location", "memory"), ("offset", "0"), ("length", str(value.nbytes))):
        tensor.external_data.add(key=key, value=text)
    return tensor


def _float_tensor(name: str) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


def _session_options(threads: int, blocked: bool) -> onnxruntime.SessionOptions:
    """Options that suit a process with hundreds of sessions."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if blocked else levels.ORT_ENABLE_EXTENDED
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Each session has its own threads; spinning while they wait would slow down the session that works.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # An arena for each session would keep the peak memory of every operation; without an arena, a session would
    # allocate memory for intermediate results from the system in each run.
    _share_arena()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    return options


@functools.cache
def _share_arena() -> None:
    """Create an arena, shared by all sessions of the process that ask for it, which grows by what is requested."""
    memory = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    same_as_requested = 1
    limits = onnxruntime.OrtArenaCfg({"max_mem": 0, "arena_extend_strategy": same_as_requested})
    onnxruntime.create_and_register_allocator(memory, limits)


def thread_limit() -> int:
    """Number of threads for one operation: ``OMP_NUM_THREADS``, as for BLAS, or by default 2 (1 on one processor)."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else min(2, os.cpu_count() or 1)

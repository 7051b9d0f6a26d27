"""Whether a device's provider starts on this machine, so that what is built for the device executes on it here.

A build of ONNX Runtime can have a provider whose driver or libraries are missing; only a session tells. It is made in a
process of its own: a crash of a driver must not take EdgeKit along. That process is this file, run as a module.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from edgekit_onnxruntime.session import CPU_PROVIDER, RECORD_ASSIGNMENT, first_line, session_options

TIMEOUT_SECONDS = 120
ANSWER = "answer: "
"""What stands before the answer; drivers print lines of their own."""


@cache
def failure_to_start(provider: str) -> str:
    """Why a session of the installed ONNX Runtime does not run on a provider that it has; empty where it does.

    It takes the seconds in which the driver starts; it is asked once in a process.
    """
    command = [sys.executable, "-m", "edgekit_onnxruntime.on_this_machine", provider]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it gave no answer in {TIMEOUT_SECONDS} s"
    answers = [line for line in ended.stdout.splitlines() if line.startswith(ANSWER)]
    if not answers:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        return f"it ended with code {ended.returncode}: {last}"
    return answers[-1].removeprefix(ANSWER).strip()


def _failure(provider: str) -> str:
    """What :func:`failure_to_start` tells, found in this process: a multiplication by the provider."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper

    shape = [4, 4]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "x"], ["y"])],
        "square",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    try:
        options = session_options(optimize="DISABLED")
        options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=[provider, CPU_PROVIDER], enable_fallback=0
        )
        if provider not in session.get_providers():
            return "its library or its driver cannot be loaded"
        if all(part.ep_name != provider for part in session.get_provider_graph_assignment_info()):
            return "it takes no product of two matrices"
        (found,) = session.run(None, {"x": np.full(shape, 0.5, np.float32)})
    except Exception as error:  # some of what providers raise has no class of its own
        return _said(error)
    return "" if np.allclose(found, 1.0) else "it multiplies two matrices wrong"


def _said(error: Exception) -> str:
    """What is wrong, such as ``CUDA failure 100: no CUDA-capable device is detected``, without where in the source."""
    text = first_line(error) if str(error).strip() else ""
    return text.rpartition("] ")[2].partition(" ; ")[0].strip() or type(error).__name__


if __name__ == "__main__":
    sys.stdout.write(f"{ANSWER}{_failure(sys.argv[1])}\n")

"""Finds out whether a device's provider starts on this machine, so that builds for the device can be executed here.

A build of ONNX Runtime can have a provider whose driver or libraries are missing; only a session shows that. The
session is created in a separate process, as a crash of a driver must not end EdgeKit. That process runs this file as a
module.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from edgekit_onnxruntime.session import CPU_PROVIDER, RECORD_ASSIGNMENT, first_line, session_options

TIMEOUT_SECONDS = 120
ANSWER = "answer: "
"""The prefix of the line with the answer; drivers print other lines."""


@cache
def failure_to_start(provider: str) -> str:
    """Why a session of the installed ONNX Runtime does not run on a provider that it has; empty if it does.

    This takes seconds, in which the driver starts; the result is cached for the process.
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
    """The answer of :func:`failure_to_start`, found in this process by a multiplication with the provider."""
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
            return "it does not take a product of two matrices, the test model"
        (found,) = session.run(None, {"x": np.full(shape, 0.5, np.float32)})
    except Exception as error:  # some exceptions of providers have no specific class
        return _said(error)
    return "" if np.allclose(found, 1.0) else "it multiplies two matrices wrong"


def _said(error: Exception) -> str:
    """The error's text, such as ``CUDA failure 100: no CUDA-capable device is detected``, without source locations."""
    text = first_line(error) if str(error).strip() else ""
    return text.rpartition("] ")[2].partition(" ; ")[0].strip() or type(error).__name__


if __name__ == "__main__":
    sys.stdout.write(f"{ANSWER}{_failure(sys.argv[1])}\n")

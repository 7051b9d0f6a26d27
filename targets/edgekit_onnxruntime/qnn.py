"""What Qualcomm's compiler takes: a session of onnxruntime-qnn with the simulator of the Hexagon NPU.

The wheel onnxruntime-qnn brings the provider as a plugin of the ordinary ONNX Runtime, and the NPU's compiler for x86,
so that a model is really compiled for the chip here. It runs in a process of its own: the compiler prints on
stdout, and a crash of it must not take EdgeKit along. That process is this file, run as a module.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "onnxruntime_qnn"
EXTRA = "edgekit[qnn]"
TIMEOUT_SECONDS = 1800


@dataclass(frozen=True)
class Assignment:
    """Where ONNX Runtime puts the nodes of a model."""

    subgraphs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Provider, and the names and operators of the nodes, of every part that goes to one provider."""


class CompilerError(Exception):
    """The compiler cannot take the model, or cannot be run; the text says why."""


def is_installed() -> bool:
    """Whether onnxruntime-qnn is."""
    return find_spec(PACKAGE) is not None


def compile_model(path: Path, simulator: Mapping[str, str]) -> Assignment:
    """Compiles a model for a Qualcomm chip, and tells which nodes the NPU gets.

    Args:
        path: The model.
        simulator: Options of the provider that name the chip: ``soc_model``, ``htp_arch``.

    Raises:
        CompilerError: The compiler fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "edgekit_onnxruntime.qnn", str(path), json.dumps(dict(simulator)), str(answer)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise CompilerError(f"gave no answer in {TIMEOUT_SECONDS} s") from None
        if not answer.is_file():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise CompilerError(f"ended with code {done.returncode}: {last}")
        told = json.loads(answer.read_text(encoding="utf-8"))
    if "failure" in told:
        raise CompilerError(told["failure"])
    return Assignment(
        tuple((provider, tuple((name, operator) for name, operator in nodes)) for provider, nodes in told["subgraphs"])
    )


def _compile(path: str, simulator: Mapping[str, str]) -> dict[str, object]:
    """What :func:`compile_model` gets from the other process."""
    import onnxruntime
    import onnxruntime_qnn as qnn

    from edgekit_onnxruntime.session import first_line, runtime_errors, session_options

    onnxruntime.register_execution_provider_library(qnn.EP_NAME, qnn.get_library_path())
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == qnn.EP_NAME)
    options = session_options(optimize="DISABLED")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices([device], {"backend_path": qnn.get_qnn_htp_path(), **simulator})
    try:
        session = onnxruntime.InferenceSession(path, options)
    except runtime_errors() as error:
        return {"failure": first_line(error)}
    return {
        "subgraphs": [
            (subgraph.ep_name, [(node.name, node.op_type) for node in subgraph.get_nodes()])
            for subgraph in session.get_provider_graph_assignment_info()
        ]
    }


if __name__ == "__main__":
    model, options_text, place = sys.argv[1:]
    Path(place).write_text(json.dumps(_compile(model, json.loads(options_text))), encoding="utf-8")

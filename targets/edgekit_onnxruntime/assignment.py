"""Where a session of ONNX Runtime puts the nodes of a model, for providers that compile what they are given.

The session is made in a process of its own: compilers print on stdout, and a crash of one must not take EdgeKit along.
That process is this file, run as a module.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgekit.model import Model
from edgekit_onnxruntime import qnn
from edgekit_onnxruntime.session import CPU_PROVIDER, first_line, runtime_errors, session_options

TIMEOUT_SECONDS = 1800
OURS = re.compile(r"(?P<name>node\d+)(_token_\d+|/duplicated)*")
"""A name that :func:`with_unique_names` gave, and what ONNX Runtime appends for a node's copy in another layout."""


REFUSAL = re.compile(r"GetCapability\(\) for \S+ failed with error: (?P<text>[^\x1b\n]+)")
"""What ONNX Runtime logs, and does not raise, where a provider could not even look at the model."""
LOG_ALL = 0
REFUSED_NODES = re.compile(
    r"Validation FAILED for .*\n(?P<nodes>(?:\s+Operator type: .*\n)+)\s+REASON : (?P<reason>.+)"
)
REFUSED_NODE = re.compile(r"Node name: (?P<name>\S+)")
NAMELESS = re.compile(r"\w+ node `[^`]*` will not be assigned to .*")
"""A sentence that names the node as only this module calls it."""


class CompilerError(Exception):
    """The provider cannot take the model, or cannot be run; the text says why."""


@dataclass(frozen=True)
class Assignment:
    """Where nodes run, by the names that :func:`with_unique_names` gave them."""

    accelerated: frozenset[str]
    left_to_cpu: frozenset[str]
    added_on_cpu: frozenset[str]
    """Operators of nodes that ONNX Runtime made itself and that run on the CPU."""
    reasons: Mapping[str, str]
    """Why the provider left a node, where it says so."""


def is_available(provider: str) -> bool:
    """Whether this machine can make sessions with the provider."""
    import onnxruntime

    return provider in onnxruntime.get_available_providers() or (provider == qnn.PROVIDER and qnn.is_installed())


def assign(model: Model, provider: str, options: Mapping[str, str]) -> Assignment:
    """Gives the model to a provider, with the CPU for what that leaves, and tells which of the two has each node.

    Raises:
        CompilerError: The provider fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, answer = Path(folder) / "model.onnx", Path(folder) / "answer.json"
        with_unique_names(model).save(path)
        request = json.dumps({"model": str(path), "provider": provider, "options": dict(options)})
        command = [sys.executable, "-m", "edgekit_onnxruntime.assignment", request, str(answer)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise CompilerError(f"gave no answer in {TIMEOUT_SECONDS} s") from None
        if not answer.is_file():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise CompilerError(f"ended with code {done.returncode}: {last}")
        refusal = REFUSAL.search(done.stderr)
        if refusal is not None:
            raise CompilerError(first_line(refusal["text"]))
        told = json.loads(answer.read_text(encoding="utf-8"))
    if "failure" in told:
        raise CompilerError(told["failure"])
    return _read(told["parts"], done.stderr)


def with_unique_names(model: Model) -> Model:
    """A copy whose nodes are called ``node0``, ``node1``, … in graph order."""
    copy = model.with_graph(model.graph_model.clone())
    for position, node in enumerate(copy.graph.all_nodes()):
        node.name = f"node{position}"
    return copy


def _read(parts: list[tuple[str, list[tuple[str, str]]]], log: str) -> Assignment:
    """The answer, in terms of the model's own nodes; what lies on both sides counts as left to the CPU."""
    on_cpu = [node for provider, nodes in parts if provider == CPU_PROVIDER for node in nodes]
    left = frozenset(filter(None, (_original(name) for name, _ in on_cpu)))
    placed = frozenset(filter(None, (_original(name) for _, nodes in parts for name, _ in nodes)))
    added = frozenset(operator for name, operator in on_cpu if not _original(name))
    return Assignment(placed - left, left, added, {name: why for name, why in _reasons(log) if name in left})


def _reasons(log: str) -> Iterator[tuple[str, str]]:
    """What Qualcomm's provider logs of each node that it does not take."""
    for refusal in REFUSED_NODES.finditer(log):
        why = NAMELESS.sub("", refusal["reason"]).strip().rstrip(".")
        for node in REFUSED_NODE.finditer(refusal["nodes"]):
            yield _original(node["name"]), why


def _original(name: str) -> str:
    """The name of the node that a node of the session stands for; empty for one that ONNX Runtime added."""
    match = OURS.fullmatch(name)
    return match["name"] if match else ""


def _answer(model: str, provider: str, options: Mapping[str, str]) -> dict[str, object]:
    """What :func:`assign` gets from the other process."""
    import onnxruntime

    asked = session_options(optimize="DISABLED")
    asked.log_severity_level = LOG_ALL
    asked.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    providers = None
    if provider == qnn.PROVIDER:
        qnn.add_provider(asked, options)
    else:
        providers = [(provider, dict(options)), CPU_PROVIDER]
    try:
        session = onnxruntime.InferenceSession(model, asked, providers=providers)
    except runtime_errors() as error:
        return {"failure": first_line(error)}
    if provider not in session.get_providers():
        return {"failure": f"ONNX Runtime could not start the {provider} here"}
    return {
        "parts": [
            (part.ep_name, [(node.name, node.op_type) for node in part.get_nodes()])
            for part in session.get_provider_graph_assignment_info()
        ]
    }


if __name__ == "__main__":
    request_text, place = sys.argv[1:]
    Path(place).write_text(json.dumps(_answer(**json.loads(request_text))), encoding="utf-8")

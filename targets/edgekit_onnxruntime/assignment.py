"""Where a session of ONNX Runtime puts the nodes of a model, for providers that compile what they are given.

The session is made in a process of its own: compilers print on stdout, and a crash of one must not take EdgeKit along.
That process is this file, run as a module. Its log is its sign of life: providers tell of every node that they look at,
and are silent for minutes while they compile what they took.
"""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgekit.model import Model
from edgekit.processes import supervision
from edgekit_onnxruntime import qnn
from edgekit_onnxruntime.session import CPU_PROVIDER, RECORD_ASSIGNMENT, first_line, runtime_errors, session_options

TIMEOUT_SECONDS = 1800
SILENT_SECONDS = 180
"""What a compiler may take without a line in its log: Qualcomm's is silent while it lays out the graph that it took."""
PATIENCE_SECONDS = SILENT_SECONDS + 60
"""What the stage may take without a sign of life: the compiler, which is ended here, and an answer about it."""
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


class SilentCompilerError(CompilerError):
    """The provider gave no answer: it may do so for every part of the model, too."""


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
        SilentCompilerError: It gives no answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, answer = Path(folder) / "model.onnx", Path(folder) / "answer.json"
        with_unique_names(model).save(path)
        request = json.dumps({"model": str(path), "provider": provider, "options": dict(options)})
        command = [sys.executable, "-m", "edgekit_onnxruntime.assignment", request, str(answer)]
        with supervision.slow_step(PATIENCE_SECONDS):
            code, log = _heard_out(command)
        if not answer.is_file():
            last = (log.strip().splitlines() or ["no message"])[-1]
            raise CompilerError(f"ended with code {code}: {last}")
        refusal = REFUSAL.search(log)
        if refusal is not None:
            raise CompilerError(first_line(refusal["text"]))
        told = json.loads(answer.read_text(encoding="utf-8"))
    if "failure" in told:
        raise CompilerError(told["failure"])
    return _read(told["parts"], log)


def _heard_out(command: Sequence[str]) -> tuple[int, str]:
    """The exit code and the log of a compiler's process; every line of the log is a sign of life.

    Raises:
        SilentCompilerError: It logs nothing for too long, or does not end.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    heard: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None  # it is a pipe
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_hand_on, args=(process.stderr, lines), daemon=True).start()
        try:
            while (line := _next(lines, deadline)) is not None:
                heard.append(line)
                supervision.tell_step(PATIENCE_SECONDS)
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            raise SilentCompilerError(f"gave no answer in {TIMEOUT_SECONDS} s") from None
        except BaseException:
            process.kill()
            raise
    return process.returncode, "".join(heard)


def _hand_on(log: Iterable[str], lines: queue.SimpleQueue[str | None]) -> None:
    """Puts every line of a log into a queue, and None where the log ends."""
    for line in log:
        lines.put(line)
    lines.put(None)


def _next(lines: queue.SimpleQueue[str | None], deadline: float) -> str | None:
    """The next line of the log; None where it has ended.

    Raises:
        SilentCompilerError: None comes for too long.
    """
    left = max(0.0, deadline - time.monotonic())
    try:
        return lines.get(timeout=min(SILENT_SECONDS, left))
    except queue.Empty:
        if left <= SILENT_SECONDS:
            raise SilentCompilerError(f"gave no answer in {TIMEOUT_SECONDS} s") from None
        raise SilentCompilerError(f"gave no sign of progress for {SILENT_SECONDS} s") from None


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
    asked.add_session_config_entry(RECORD_ASSIGNMENT, "1")
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

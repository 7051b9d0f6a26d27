"""Finds where a session of ONNX Runtime puts the nodes of a model, for providers that compile the model.

The session is created in a separate process: compilers print on stdout, and a crash of one must not end EdgeKit. That
process runs this file as a module. Its log shows that it is alive: providers log every node that they examine, and are
silent for minutes while they compile the nodes that they accepted.
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
"""How long a compiler may log nothing before it is ended: Qualcomm's is silent while it lays out the graph."""
PATIENCE_SECONDS = SILENT_SECONDS + 60
"""How long the stage may show no progress: the compiler's SILENT_SECONDS, and time to end it and report the result."""
OURS = re.compile(r"(?P<name>node\d+)(_token_\d+|/duplicated)*")
"""A name that :func:`with_unique_names` gave, with the suffixes of ONNX Runtime for a node's copy in another layout."""


REFUSAL = re.compile(r"GetCapability\(\) for \S+ failed with error: (?P<text>[^\x1b\n]+)")
"""The message that ONNX Runtime logs, but does not raise, if a provider fails to examine the model."""
LOG_ALL = 0
REFUSED_NODES = re.compile(
    r"Validation FAILED for .*\n(?P<nodes>(?:\s+Operator type: .*\n)+)\s+REASON : (?P<reason>.+)"
)
REFUSED_NODE = re.compile(r"Node name: (?P<name>\S+)")
NAMELESS = re.compile(r"\w+ node `[^`]*` will not be assigned to .*")
"""A sentence of the log that names a node by the name that this module gave it."""


class CompilerError(Exception):
    """The provider refuses the model, or cannot be run; the text says why."""


class SilentCompilerError(CompilerError):
    """The provider gave no answer in time; the same may happen for every part of the model."""


@dataclass(frozen=True)
class Assignment:
    """Where nodes run, by the names that :func:`with_unique_names` gave them."""

    accelerated: frozenset[str]
    left_to_cpu: frozenset[str]
    added_on_cpu: frozenset[str]
    """Operators of nodes that ONNX Runtime made itself and that run on the CPU."""
    reasons: Mapping[str, str]
    """Why the provider did not accept a node, for the nodes for which it says so."""


def is_available(provider: str) -> bool:
    """Whether this machine can create sessions with the provider."""
    import onnxruntime

    return provider in onnxruntime.get_available_providers() or (provider == qnn.PROVIDER and qnn.is_installed())


def assign(model: Model, provider: str, options: Mapping[str, str]) -> Assignment:
    """Opens the model with a provider and the CPU for the remaining nodes; returns which of the two has each node.

    Raises:
        CompilerError: The provider fails.
        SilentCompilerError: The provider gives no answer in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, answer = Path(folder) / "model.onnx", Path(folder) / "answer.json"
        with_unique_names(model).save(path)
        request = json.dumps({"model": str(path), "provider": provider, "options": dict(options)})
        command = [sys.executable, "-m", "edgekit_onnxruntime.assignment", request, str(answer)]
        with supervision.slow_step(PATIENCE_SECONDS):
            code, log = _run_to_its_end(command)
        if not answer.is_file():
            last = (log.strip().splitlines() or ["no message"])[-1]
            raise CompilerError(f"ended with code {code}: {last}")
        refusal = REFUSAL.search(log)
        if refusal is not None:
            raise CompilerError(first_line(refusal["text"]))
        assigned = json.loads(answer.read_text(encoding="utf-8"))
    if "failure" in assigned:
        raise CompilerError(assigned["failure"])
    return _read(assigned["parts"], log)


def _run_to_its_end(command: Sequence[str]) -> tuple[int, str]:
    """The exit code and the log of a compiler's process; every line of the log counts as progress.

    Raises:
        SilentCompilerError: The process logs nothing for too long, or does not end.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    heard: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stderr is not None  # it is a pipe
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_queue_lines, args=(process.stderr, lines), daemon=True).start()
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


def _queue_lines(log: Iterable[str], lines: queue.SimpleQueue[str | None]) -> None:
    """Puts every line of a log into a queue, and None at the end."""
    for line in log:
        lines.put(line)
    lines.put(None)


def _next(lines: queue.SimpleQueue[str | None], deadline: float) -> str | None:
    """The next line of the log; None if the log has ended.

    Raises:
        SilentCompilerError: There is no line for too long.
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
    """The assignment of the model's own nodes; a node that is on both sides counts as left to the CPU."""
    on_cpu = [node for provider, nodes in parts if provider == CPU_PROVIDER for node in nodes]
    left = frozenset(filter(None, (_original(name) for name, _ in on_cpu)))
    placed = frozenset(filter(None, (_original(name) for _, nodes in parts for name, _ in nodes)))
    added = frozenset(operator for name, operator in on_cpu if not _original(name))
    return Assignment(placed - left, left, added, {name: why for name, why in _reasons(log) if name in left})


def _reasons(log: str) -> Iterator[tuple[str, str]]:
    """Each node that Qualcomm's provider does not accept, with the reason that it logs."""
    for refusal in REFUSED_NODES.finditer(log):
        why = NAMELESS.sub("", refusal["reason"]).strip().rstrip(".")
        for node in REFUSED_NODE.finditer(refusal["nodes"]):
            yield _original(node["name"]), why


def _original(name: str) -> str:
    """The name of the model's node that a node of the session comes from; empty for one that ONNX Runtime added."""
    match = OURS.fullmatch(name)
    return match["name"] if match else ""


def _answer(model: str, provider: str, options: Mapping[str, str]) -> dict[str, object]:
    """The answer that :func:`assign` gets from the other process, as plain data."""
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

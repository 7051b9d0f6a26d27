"""Opens a bundle's model in ONNX Runtime with the provider and the options that the bundle was built for.

    from open_session import open_session
    session = open_session("the/bundle")

An app may copy this file: it needs the package ``onnxruntime`` (a build that has the provider), nothing of EdgeKit.
If a provider is missing or refuses its options, ONNX Runtime would use the CPU instead; this file raises an error.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when it is loaded
import onnxruntime

CPU = "CPUExecutionProvider"
SESSION_FILE = "session.json"
CONTEXT_FILE = "ep.context_file_path"
"""The session's entry with the file that the provider compiled, which is then loaded instead of the model."""
CONTEXT_ENTRIES = ("ep.context_enable", CONTEXT_FILE)
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
NO_FALLBACK = "session.disable_cpu_ep_fallback"
_PLACE = re.compile(r"/\S+\.(?:cc|h):\d+ .*\) (?=[A-Z])|\[ONNXRuntimeError\] : \d+ : \w+ : ")
PLUGINS = {"QNNExecutionProvider": "onnxruntime_qnn"}
"""Providers in separate packages for the standard onnxruntime, with the packages' names."""


class ProviderError(Exception):
    """The requested provider is missing, cannot start, or executes no node of the model."""


@dataclass(frozen=True)
class Setup:
    """The provider of a session and its options, as in ``session.json``."""

    provider: str = CPU
    provider_options: Mapping[str, str] = field(default_factory=dict)
    session_options: Mapping[str, str] = field(default_factory=dict)
    further_providers: Sequence[str] = ()
    """Providers for the nodes that the provider leaves, before the CPU."""

    @classmethod
    def read(cls, folder: Path, *, threads: int = 1, cache: Path | None = None) -> Setup:
        """The setup of a bundle's folder; the CPU provider if the folder has no ``session.json``.

        Args:
            folder: The folder with ``session.json``.
            threads: The number that replaces ``{threads}`` in its texts.
            cache: A folder, for this model alone, in which the provider may keep what it compiled; None keeps nothing.
        """
        file = folder / SESSION_FILE
        if not file.is_file():
            return cls()
        data = json.loads(file.read_text(encoding="utf-8"))
        kept = data.get("cache", {}) if cache is not None else {}
        values = {"{threads}": str(threads), "{cache}": "" if cache is None else cache.resolve().as_posix()}
        return cls(
            data["provider"],
            _filled({**data["provider_options"], **kept.get("provider_options", {})}, values),
            _filled({**data["session_options"], **kept.get("session_options", {})}, values),
            tuple(data.get("further_providers", ())),
        )


@dataclass(frozen=True)
class Placement:
    """How many nodes of the model each provider of a session executes."""

    nodes: Mapping[str, int]
    """The number of nodes, by provider."""
    left: Mapping[str, int]
    """The number of nodes on the CPU, by operator."""

    @property
    def total(self) -> int:
        """The number of all nodes that ONNX Runtime assigned to providers."""
        return sum(self.nodes.values())

    def shares_text(self, provider: str) -> str:
        """The shares of the providers in words, such as ``3 of 4 nodes on OpenVINO, the rest on the CPU``."""
        shares = [f"{self.nodes.get(provider, 0)} of {self.total} nodes on {short(provider)}"]
        shares += [
            f"{count} on {short(name)}" for name, count in self.nodes.items() if name not in (provider, CPU) and count
        ]
        return ", ".join([*shares, "the rest on the CPU"] if self.nodes.get(CPU) and provider != CPU else shares)

    def left_text(self) -> str:
        """The operators of the nodes on the CPU, the most frequent first."""
        ordered = sorted(self.left.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{operator} ({count})" if count > 1 else operator for operator, count in ordered)


def open_session(
    folder: str | os.PathLike[str],
    *,
    model: str = "model.onnx",
    setup: Setup | None = None,
    threads: int = 1,
    cache: str | os.PathLike[str] | None = None,
    options: onnxruntime.SessionOptions | None = None,
) -> onnxruntime.InferenceSession:
    """A session of the bundle's model.

    Args:
        folder: The bundle, or the folder of one of its builds.
        model: The model's file in it.
        setup: The provider and its options; None takes those of ``session.json``.
        threads: Threads inside an operator, of the CPU's kernels and of a provider with threads of its own.
        cache: A folder, for this model alone, in which the provider keeps what it compiled, so that the next session
            opens faster.
        options: Further options of the session; they are changed.

    Raises:
        ProviderError: ONNX Runtime does not have the provider here, or the provider refuses its options or the model.
    """
    place = Path(folder)
    if cache is not None:
        Path(cache).mkdir(parents=True, exist_ok=True)
    if setup is None:
        setup = Setup.read(place, threads=threads, cache=None if cache is None else Path(cache))
    options = onnxruntime.SessionOptions() if options is None else options
    options.intra_op_num_threads = threads
    path, entries = place / model, dict(setup.session_options)
    if Path(entries.get(CONTEXT_FILE, "")).is_file():
        path = Path(entries[CONTEXT_FILE])
        entries = {name: value for name, value in entries.items() if name not in CONTEXT_ENTRIES}
    for name, value in entries.items():
        options.add_session_config_entry(name, value)
    providers = None
    if setup.provider in PLUGINS and setup.provider not in onnxruntime.get_available_providers():
        _add_plugin(setup, options)
    else:
        providers = _providers(setup)
    try:
        # Without the fallback of the Python API, which would open the session again with the CPU.
        session = onnxruntime.InferenceSession(str(path), options, providers=providers, enable_fallback=0)
    except Exception as error:  # its classes have no base in common
        if setup.provider == CPU:
            raise
        raise ProviderError(f"{setup.provider} does not take {path.name}: {said(error)}") from error
    if setup.provider not in session.get_providers():
        active = ", ".join(session.get_providers())
        raise ProviderError(f"{setup.provider} cannot start with its options; the model would run on {active}")
    return session


def placement(session: onnxruntime.InferenceSession) -> Placement | None:
    """How many nodes each provider executes in a session that was opened with the entry :data:`RECORD_ASSIGNMENT`.

    Returns:
        None if this onnxruntime does not provide it, which is so before version 1.24.
    """
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    nodes: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for part in session.get_provider_graph_assignment_info():
        operators = [node.op_type for node in part.get_nodes()]
        nodes[part.ep_name] += len(operators)
        if part.ep_name == CPU:
            left.update(operators)
    return Placement(nodes, left)


def require_nodes(placed: Placement | None, provider: str) -> None:
    """Refuses a session whose provider executes no node of the model.

    Raises:
        ProviderError: All nodes are on other providers.
    """
    if placed is not None and placed.total and not placed.nodes.get(provider):
        others = " and ".join(short(name) for name, count in placed.nodes.items() if count)
        raise ProviderError(f"{provider} took none of the {placed.total} nodes; all of them are on {others}")


def short(provider: str) -> str:
    """The short name of a provider."""
    return provider.removesuffix("ExecutionProvider")


def _providers(setup: Setup) -> list[Any]:
    available = onnxruntime.get_available_providers()
    if setup.provider not in available:
        raise ProviderError(f"this onnxruntime has no {setup.provider}; it would run on {', '.join(available)}")
    first: Any = (setup.provider, dict(setup.provider_options)) if setup.provider_options else setup.provider
    return [first, *(name for name in setup.further_providers if name in available)]


def _add_plugin(setup: Setup, options: onnxruntime.SessionOptions) -> None:
    """Adds a provider from its separate package to the session's options."""
    package = PLUGINS[setup.provider]
    try:
        plugin = importlib.import_module(package)
    except ModuleNotFoundError:
        raise ProviderError(
            f"this onnxruntime has no {setup.provider}, and the package {package.replace('_', '-')} that brings it is "
            f"not installed; it would run on {', '.join(onnxruntime.get_available_providers())}"
        ) from None
    try:
        if not (devices := _devices(setup.provider)):  # a library is registered once in a process
            onnxruntime.register_execution_provider_library(setup.provider, plugin.get_library_path())
            devices = _devices(setup.provider)
        if not devices:
            raise ProviderError(f"{setup.provider} finds no device here")
        options.add_provider_for_devices(devices[:1], dict(setup.provider_options))
    except ProviderError:
        raise
    except Exception as error:
        raise ProviderError(f"{setup.provider} cannot be loaded: {said(error)}") from error


def _devices(provider: str) -> list[Any]:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == provider]


def _filled(texts: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    filled = dict(texts)
    for mark, value in values.items():
        filled = {name: text.replace(mark, value) for name, text in filled.items()}
    return filled


def said(error: Exception) -> str:
    """The text of an error of ONNX Runtime, without source locations and error codes."""
    return " ".join(_PLACE.sub("", str(error)).split())

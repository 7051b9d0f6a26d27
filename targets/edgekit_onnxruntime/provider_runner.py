"""Executes ``.onnx`` files with a device's provider, on a machine on which the provider starts."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from edgekit.errors import InputError, RequirementError
from edgekit.model import Model
from edgekit_onnxruntime.devices import Device
from edgekit_onnxruntime.runner import SessionRunner
from edgekit_onnxruntime.session import CPU_PROVIDER, RECORD_ASSIGNMENT, first_line, runtime_errors
from edgekit_onnxruntime.session_recipe import SESSION_FILE


class ProviderRunner(SessionRunner):
    """A model in a session with a device's provider and its options; nodes that the provider leaves run on the CPU.

    Args:
        path: The ``.onnx`` file. If there is a ``session.json`` beside it, the precision that it was written for is
            used.
        device: The device.
        threads: Threads inside an operator of the CPU provider, and of a provider with threads of its own.
        takes_turns: Whether other models run in between, as candidates that are compared do.

    Raises:
        edgekit.errors.InputError: The provider does not accept the file, or stops with an error.
        edgekit.errors.RequirementError: The provider executes no node of the file.
    """

    def __init__(self, path: Path, device: Device, *, threads: int = 1, takes_turns: bool = False) -> None:
        self._device = device
        self._placed: Counter[str] = Counter()
        super().__init__(path, threads=threads, takes_turns=takes_turns)

    @property
    def executed_by(self) -> str:
        """The text of :attr:`SessionRunner.executed_by`, and how many nodes the provider executes."""
        share = f"{self._placed[self._device.provider]} of {self._placed.total()} nodes on {self._short}"
        return f"{super().executed_by}, {share}"

    @property
    def _short(self) -> str:
        return self._device.provider.removesuffix("ExecutionProvider")

    def _opened(self, options: Any) -> Any:
        options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
        session = self._session_of(self._path, options)
        for part in session.get_provider_graph_assignment_info():
            self._placed[part.ep_name] += len(part.get_nodes())
        if self._placed and not self._placed[self._device.provider]:
            others = " and ".join(name.removesuffix("ExecutionProvider") for name in self._placed)
            raise RequirementError(
                f"{self._device.provider} took none of the {self._placed.total()} nodes; all of them are on {others}",
                subject=self._path,
                hint="`edgekit check` tells why; --target onnxruntime is for the CPU",
            )
        return session

    def _opened_model(self, model: Model, options: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            model.save(path)
            return self._session_of(path, options)

    def _session_of(self, path: Path, options: Any) -> Any:
        import onnxruntime

        device, provider_options = self._device, {}
        further: tuple[str, ...] = ()
        if device.session is not None:
            written = self._path.with_name(SESSION_FILE)
            text = written.read_text(encoding="utf-8", errors="replace") if written.is_file() else ""
            precision = device.session.precision_of(device.provider, text)
            record = device.session.record(device.provider, precision, (), {})
            threads = str(self._threads)
            provider_options = {
                name: value.replace("{threads}", threads) for name, value in record["provider_options"].items()
            }
            for name, value in record["session_options"].items():
                options.add_session_config_entry(name, value)
            further = device.session.further_providers
        available = onnxruntime.get_available_providers()
        providers = [
            (device.provider, provider_options),
            *(name for name in further if name in available),
            CPU_PROVIDER,
        ]
        failures: tuple[type[Exception], ...] = (*runtime_errors(), RuntimeError)  # drivers raise RuntimeError
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=providers, enable_fallback=0)
        except failures as error:
            raise InputError(
                f"{device.provider} does not take the model: {first_line(error)}", subject=self._path
            ) from error
        if device.provider not in session.get_providers():
            active = ", ".join(session.get_providers())
            raise InputError(
                f"{device.provider} cannot start with its options; the model would run on {active}", subject=self._path
            )
        return session

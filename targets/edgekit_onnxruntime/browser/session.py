"""A bundle's model in the page of a browser: runs it, times it, and returns values inside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.bundle import Bundle
from edgekit.comparison.layers import with_outputs
from edgekit.device import Session, Timing
from edgekit.errors import InputError, RequirementError
from edgekit.fingerprint import model_files
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Arrays, Model
from edgekit_onnxruntime.browser.chromium import Chromium
from edgekit_onnxruntime.browser.server import Exchange, PageGoneError, PageServer
from edgekit_onnxruntime.browser.wire import Message

THREADS = 1
SECONDS_TO_START = 60
MODELS, SHOWN = "model", "shown"
"""The server's names of the bundle's folder, and of the folder for models with inner values as outputs."""


class Tab:
    """The page, which is sent work and answers.

    Args:
        browser: The browser with the page.
        exchange: Passes work to the page and its answers back.
        subject: The bundle's path, for errors.
        timeout: Seconds that one piece of work may take, such as all runs of a measurement.
    """

    def __init__(self, browser: Chromium, exchange: Exchange, subject: Path, timeout: float) -> None:
        self.browser = browser
        self._timeout = timeout
        self._exchange = exchange
        self._subject = subject
        self.library_version = ""
        self.unit = ""
        """The unit that computes: the GPU as the browser names it, or WebAssembly."""
        self.is_software = False
        """Whether the GPU is implemented in software."""
        self.settings: dict[str, str] = {}

    def start(self, module: str, provider: str) -> None:
        """Loads onnxruntime-web from the URL ``module``.

        Raises:
            InputError: Chromium does not open the page, or onnxruntime-web cannot be loaded.
            RequirementError: Chromium has no WebGPU, and the provider needs it.
        """
        work = {"task": "start", "module": module, "provider": provider, "threads": THREADS}
        try:
            started = self._exchange.ask(Message(work), SECONDS_TO_START, self.browser.has_ended).record
        except (PageGoneError, TimeoutError) as error:
            raise InputError(
                "Chromium does not open the page",
                subject="--device browser",
                expected=f"a page within {SECONDS_TO_START} s",
                found=self.browser.complaint or "nothing",
            ) from error
        if "error" in started:
            raise InputError(f"onnxruntime-web cannot be loaded: {started['error']}", subject="--device browser")
        adapter = started["adapter"]
        if provider == "webgpu" and adapter is None:
            raise RequirementError(
                "this browser has no WebGPU",
                subject=self._subject,
                expected="an adapter from navigator.gpu.requestAdapter()",
                found="none",
                hint="browser:wasm runs without it",
            )
        self.library_version = started["version"]
        self.unit = "WebAssembly" if adapter is None else f"WebGPU on {adapter['name']}"
        self.is_software = adapter is not None and bool(adapter["software"])
        if self.is_software:
            self.unit += " (software)"
        self.settings = {
            "threads": str(THREADS),
            "provider": provider,
            "unit": self.unit,
            "clock": "isolated page" if started["isolated"] else "coarse: the page is not isolated",
        }

    def ask(self, work: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> Message:
        """The page's answer to a piece of work.

        Raises:
            RequirementError: onnxruntime-web failed, or the page ended or did not answer in time.
        """
        try:
            answer = self._exchange.ask(Message(work, dict(arrays or {})), self._timeout, self.browser.has_ended)
        except PageGoneError as error:
            raise RequirementError(
                "the browser's page went away while it worked",
                subject=self._subject,
                found=self.browser.complaint or None,
                hint="a page that needs too much memory is ended by the browser",
            ) from error
        except TimeoutError as error:
            raise RequirementError(
                f"the browser's page gave no answer for {self._timeout:g} s",
                subject=self._subject,
                hint="`--device-timeout SECONDS` gives it longer",
            ) from error
        if "error" in answer.record:
            text = " ".join(str(answer.record["error"]).split())
            raise RequirementError(f"onnxruntime-web in the browser failed: {text}", subject=self._subject)
        return answer


class BrowserSession(Session):
    """The bundle's model in onnxruntime-web.

    Args:
        tab: The page, which has loaded onnxruntime-web.
        server: The server that the page gets files from.
        bundle: A bundle with an ONNX model.
        executed_by: What executes the model, in words, without details that only a run shows.

    Raises:
        RequirementError: onnxruntime-web does not load the model.
    """

    def __init__(self, tab: Tab, server: PageServer, bundle: Bundle, executed_by: str) -> None:
        self._tab = tab
        self._server = server
        self._bundle = bundle
        self._executed_by = executed_by
        self._dispatches: int | None = None
        self._load_ms = self._open(MODELS, bundle.main)

    @property
    def executed_by(self) -> str:
        """onnxruntime-web, its build, the unit that computes, and the browser; and whether the GPU executed nothing."""
        idle = self._dispatches == 0 and self._tab.settings["provider"] == "webgpu"
        return f"{self._executed_by}{', nothing of the model on the GPU' if idle else ''}"

    @property
    def is_stand_in(self) -> bool:
        """Whether software computes instead of a GPU."""
        return self._tab.is_software

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name.

        Raises:
            RequirementError: onnxruntime-web failed, or the page went away.
        """
        answer = self._tab.ask({"task": "run"}, feeds)
        self._dispatches = answer.record["dispatches"]
        return answer.arrays

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The latency of one sample by the page's clock, including the transfer of results from the GPU.

        Raises:
            RequirementError: onnxruntime-web failed, or the page went away.
        """
        record = self._tab.ask({"task": "time", "runs": runs, "warm_up": warm_up}, sample).record
        self._dispatches = record["dispatches"]
        return Timing(tuple(record["milliseconds"]), self._load_ms, self._tab.browser.peak_memory(), self._tab.settings)

    def intermediates(self, sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays | None:
        """Values inside the model by their ONNX names; None for a file in ORT format, to which no outputs can be added.

        The model is run again with these values as outputs, which keeps the runtime from fusing across them.

        Raises:
            RequirementError: onnxruntime-web failed, or the page went away.
        """
        if self._bundle.main.suffix != ".onnx":
            return None
        file = self._server.folders[SHOWN] / "shown.onnx"
        with_outputs(self._model, names).save(file)
        self._open(SHOWN, file)
        try:
            return self.run(sample)
        finally:
            self._open(MODELS, self._bundle.main)

    @cached_property
    def _model(self) -> Model:
        return infer_shapes(Model(ir.load(self._bundle.main), self._bundle.main), strict=False)

    def _open(self, folder: str, file: Path) -> float:
        """Lets the page load a model; returns the time that this took, in ms."""
        data = model_files(file)[1:] if file.suffix == ".onnx" else []
        work = {
            "task": "open",
            "model": self._server.url(folder, file.name),
            "data": [{"path": part.name, "url": self._server.url(folder, part.name)} for part in data],
        }
        return float(self._tab.ask(work).record["load_ms"])

"""Judges what a case must not do, and whether the output of a successful case is right."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case, digests

TIME_LIMIT = 60.0
"""Maximum duration of a case, in seconds."""
MEMORY_MARGIN = 2 << 30
"""Bytes of memory that a case may take beyond what an honest model takes."""
_LEAST_DB = {"float32": 30.0, "float16": 10.0}
"""Least SQNR of a bundle's outputs against ONNX Runtime on the mutated model, by precision; most cases exceed it."""
_CHANGED_SHARE = 0.05
"""Maximum share of an output's integers that may differ over all samples, as in the accuracy check of bundles."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COMMAND_OF_CI = re.compile(r"^::", re.MULTILINE)
_RANDOM = {
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
    "Dropout",
}
_OWN_OUTPUTS = ("out", "out.onnx", "out.onnx.data", "out.html", "bundles", "stdout", "stderr")


@dataclass(frozen=True)
class Ending:
    """How a case's process ended."""

    status: int
    """Exit code; if a signal ended the process, the negative number of the signal."""
    seconds: float
    memory: int
    """Peak memory, in bytes, of the case's process that took the most."""
    strays: int
    """Number of processes that the case left running."""
    killed: str = ""
    """Why the fuzzer killed the case; empty if it did not."""


@dataclass
class Verdict:
    """What is wrong with a case; nothing if ``faults`` is empty."""

    faults: list[str] = field(default_factory=list)
    compared: bool | None = None
    """Whether a successful case was compared with ONNX Runtime; None if the case has nothing to compare."""


def judge(case: Case, ending: Ending, folder: Path, temporary: Path, telltale: Path, honest_memory: int) -> Verdict:
    """Returns the faults of a case that can be found without running anything.

    Args:
        case: The case.
        ending: How the case ended.
        folder: The folder in which the case ran; it contains ``stdout`` and ``stderr``.
        temporary: The case's folder for temporary files.
        telltale: A file that only code of a bundle writes.
        honest_memory: Bytes of memory that the same command takes for an honest model.
    """
    faults = []
    if ending.killed:
        faults.append(ending.killed)
    elif ending.status < 0:
        faults.append(f"signal {signal.Signals(-ending.status).name}")
    elif ending.status > 128:
        faults.append(f"signal, exit {ending.status}")
    elif ending.status not in (0, 1, 2):
        faults.append(f"exit {ending.status}")
    if not ending.killed and ending.memory > honest_memory + MEMORY_MARGIN:
        faults.append(f"memory {ending.memory >> 20} MiB")
    if ending.strays:
        faults.append(f"strays {ending.strays}")
    out, err = (_text(folder / name) for name in ("stdout", "stderr"))
    if "Traceback (most recent call last)" in out + err:
        faults.append("traceback")
    for name, text in (("stdout", out), ("stderr", err)):
        if _CONTROL.search(text):
            faults.append(f"control characters on {name}")
        if _COMMAND_OF_CI.search(text):
            faults.append(f"command for a CI on {name}")
    if "--json" in case.arguments and not ending.killed and ending.status >= 0:
        try:
            json.loads(out, parse_constant=_refuse)
        except ValueError as error:
            faults.append(f"json: {error}"[:80])
    faults += _leftovers(case, ending, folder, temporary)
    if telltale.exists():
        faults.append("code of the bundle was run")
    return Verdict(faults)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", errors="surrogateescape")


def _leftovers(case: Case, ending: Ending, folder: Path, temporary: Path) -> list[str]:
    faults = [f"left in TMPDIR: {path.name}" for path in list(temporary.iterdir())[:3]]
    faults += [f"left: {path.name}" for path in folder.rglob(".edgekit-*")]
    now = digests(folder)
    replaced = ("b/",) if case.arguments[0] == "package" and "b" in case.arguments else ()
    if case.arguments[0] in ("build", "gate"):
        replaced = ("out/",)
    changed = [
        name
        for name, digest in case.inputs.items()
        if now.get(name) != digest and not name.startswith(replaced or ("\0",))
    ]
    faults += [f"input changed: {name}" for name in changed[:3]]
    if ending.status == 2:
        own = [name for name in now if name not in case.inputs and name not in ("stdout", "stderr")]
        faults += [f"written although it failed: {name}" for name in own[:3]]
    else:
        own = [name for name in now if name not in case.inputs and name.split("/")[0] not in (*_OWN_OUTPUTS, "b")]
        faults += [f"left: {name}" for name in own[:3]]
    return faults


def compare(case: Case, folder: Path) -> str | None:
    """Returns what is wrong with a successful case's output, an empty text if nothing is.

    Returns None if there is no comparison, because ONNX Runtime refuses the model or the model has random operators.
    To be called in a separate process: what it runs may crash.
    """
    import onnx

    os.chdir(folder)
    assert case.model is not None
    assert case.output is not None
    model = onnx.load(case.model, load_external_data=False)
    if any(node.op_type in _RANDOM for node in model.graph.node) or (
        model.functions and any(node.op_type in _RANDOM for function in model.functions for node in function.node)
    ):
        return None
    if case.arguments[0] == "fix":
        return _compare_fixed(Path(case.model), Path(case.output))
    return _compare_bundle(Path(case.model), Path(case.output))


def _session(path: Path) -> object:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _run(path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = _session(path)
    names = [output.name for output in session.get_outputs()]  # type: ignore[attr-defined]
    wanted = {value.name for value in session.get_inputs()}  # type: ignore[attr-defined]
    fed = {name: array for name, array in feeds.items() if name in wanted}
    return dict(zip(names, session.run(names, fed), strict=True))  # type: ignore[attr-defined]


def _compare_bundle(model: Path, folder: Path) -> str | None:
    from edgekit.bundle import read_bundle
    from edgekit.devices.local import open_runner

    bundle = read_bundle(folder)
    runner = open_runner(bundle)
    changed = _Changed()
    for feeds, _ in bundle.golden():
        try:
            wanted = _run(model, feeds)
        except Exception:  # ONNX Runtime's exceptions have no common base class
            return None
        found = dict(runner.run(feeds))
        if bundle.manifest["labels"]:  # a Core ML classifier also returns the class and the probabilities
            found = {name: found[name] for name in found if name in wanted}
        flaw = _difference(wanted, found, _LEAST_DB.get(bundle.manifest["model"]["precision"], 10.0), changed)
        if flaw:
            return flaw
    return changed.flaw_of_manifest(bundle.manifest)


def _compare_fixed(model: Path, fixed: Path) -> str | None:
    from edgekit.data.inputs import seeded_inputs
    from edgekit.features.dimensions import defaults
    from edgekit.graph.sizes.shape_request import at_sizes
    from edgekit.stages.load import Load

    loaded = Load()(fixed).model
    try:
        feeds = seeded_inputs(at_sizes(loaded.inputs, defaults(loaded.open_dims)), 0)
        wanted = _run(model, feeds)
    except Exception:  # ONNX Runtime refuses the model, or inputs are still dynamic
        return None
    changed = _Changed()
    return _difference(wanted, _run(fixed, feeds), 60.0, changed) or changed.flaw()


class _Changed:
    """Counts differing elements of integer outputs over all samples: one sample with few elements would say little."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}

    def add(self, name: str, differ: np.ndarray) -> None:
        """Adds the differing elements of an output for one sample."""
        changed, elements = self._counts.get(name, (0, 0))
        self._counts[name] = changed + int(differ.sum()), elements + differ.size

    def flaw(self) -> str:
        """Describes an output in which more than :data:`_CHANGED_SHARE` of the elements differ; empty if none does."""
        for name, (changed, elements) in self._counts.items():
            if changed > _CHANGED_SHARE * elements:
                return f"{name[:40]!r}: {changed} of {elements} elements differ"
        return ""

    def flaw_of_manifest(self, manifest: Mapping[str, Any]) -> str:
        """Describes an output with more differing elements than the manifest states, or than it may state.

        The manifest states the share over all samples of the verification, to which :data:`_CHANGED_SHARE` applies too.
        The golden samples are some of these, so at most all of the differences can be in them. Empty if there is no
        such output.
        """
        told = {output["name"]: output["mismatch"] for output in manifest["accuracy"]["outputs"]}
        samples = manifest["accuracy"]["data"]["samples"] / manifest["golden"]["samples"]
        for name, (changed, elements) in self._counts.items():
            share = told.get(name, 0.0)
            if share > _CHANGED_SHARE or changed > share * elements * samples + 0.5:
                return f"{name[:40]!r}: {changed} of {elements} elements differ, {share:.1%} in all by the manifest"
        return ""


def _difference(
    wanted: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray], least_db: float, changed: _Changed
) -> str:
    if list(wanted) != list(actual):
        return f"outputs {list(actual)} instead of {list(wanted)}"[:200]
    for name, want in wanted.items():
        got = actual[name]
        if not isinstance(want, np.ndarray) or want.dtype.kind not in "fiub":
            continue
        if want.shape != got.shape:
            return f"{name[:40]!r}: shape {got.shape} instead of {want.shape}"
        if want.dtype.kind != "f":
            changed.add(name, np.asarray(want != got))
            continue
        one, other = want.astype(np.float64), got.astype(np.float64)
        both = np.isfinite(one) & np.isfinite(other)
        if np.mean(np.isnan(one) != np.isnan(other)) > 0 or np.mean(np.isinf(one) & np.isfinite(other)) > 0:
            return f"{name[:40]!r}: infinite or NaN on one side only"
        signal_power, noise = float(np.square(one[both]).sum()), float(np.square((other - one)[both]).sum())
        if noise > 1e-12 and (signal_power == 0 or 10 * math.log10(signal_power / noise) < least_db):
            return f"{name[:40]!r}: noise {noise:.3g} at a signal of {signal_power:.3g}"
    return ""

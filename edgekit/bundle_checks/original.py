"""A bundle's original model: loaded as it was packaged, and timed in a separate process."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgekit.bundle import Bundle
from edgekit.bundle_checks import original_service
from edgekit.device import SILENCE_SECONDS, Session
from edgekit.devices.channel import Channel
from edgekit.devices.service_session import ServiceSession
from edgekit.errors import InputError
from edgekit.execution import lone_session
from edgekit.execution.recurrence import reference_of, with_states, zero_states
from edgekit.execution.reference import tensor_folders
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.fingerprint import model_files
from edgekit.graph.reading.onnx_file import sha256
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.sizes.shared_names import with_own_names
from edgekit.graph.sizes.size_inputs import inputs_of_sizes
from edgekit.model import Model
from edgekit.reporting.summary import stage_record
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.fix_values import FixValues, recorded_values
from edgekit.stages.join_dimensions import JoinDimensions
from edgekit.stages.load import Load
from edgekit.stages.random_inputs import RandomInputs
from edgekit.stages.suppress_boxes import SuppressBoxes, with_recorded
from edgekit.stages.take_branch import TakeBranch
from edgekit.stages.tell_apart import TellApart, recorded_names
from edgekit.stages.words_as_numbers import WordsAsNumbers


def original_of(bundle: Bundle, model: Path) -> Model:
    """The original that the bundle was made from, with its shapes fixed as they were at packaging.

    Raises:
        InputError: The model's file, or an external file of its tensors, is not the one that was packaged.
    """
    sources = bundle.manifest["source"]["files"]
    if not model.is_file():
        raise InputError("there is no such file", subject=model, expected=sources[0]["path"])
    _require_same(model, sources[0], "the model")
    files = model_files(model)
    if len(files) != len(sources):
        raise InputError(
            "does not name the files that the bundle was made from",
            subject=model,
            expected=f"data files: {len(sources) - 1}",
            found=len(files) - 1,
            hint="the bundle's manifest.json was changed: package the model again",
        )
    for file, source in zip(files[1:], sources[1:], strict=True):
        _require_same(file, source, "the model's data file")
    options = bundle.manifest["options"]
    loaded = Load(stage_record(bundle.manifest, Load.name).get("fed_initializers", ()))(model).model
    if names := stage_record(bundle.manifest, JoinDimensions.name).get("names"):
        loaded = with_own_names(loaded, recorded_names(names))
    if names := stage_record(bundle.manifest, TellApart.name).get("names"):
        loaded = TellApart(recorded_names(names))(loaded).model
    if values := stage_record(bundle.manifest, FixValues.name):
        loaded = recorded_values(values)(loaded).model
    labels = tuple(bundle.manifest["labels"] or ())
    declared = options.get("outputs")
    outputs = None if declared is None else DeclaredOutputs.parse(declared, bundle.path)
    loaded = _to_try(replace(loaded, class_names=labels or loaded.class_names, declared=outputs), bundle)
    completed = stage_record(bundle.manifest, FixShapes.name).get("request")
    request = completed or {key: options[key] for key in ("dims", "shapes")}  # older bundles hold only what was asked
    fixed = FixShapes(ShapeRequest.declared(**request), defaults=completed is None)(loaded).model
    if stage_record(bundle.manifest, RandomInputs.name):
        fixed = RandomInputs()(fixed).model
    if words := stage_record(bundle.manifest, WordsAsNumbers.name):
        fixed = WordsAsNumbers(counts=words.get("tokens", {}))(fixed).model
    if taken := stage_record(bundle.manifest, TakeBranch.name):
        fixed = TakeBranch(taken["inputs"])(fixed).model
    if suppressed := stage_record(bundle.manifest, SuppressBoxes.name):
        fixed = with_recorded(fixed, suppressed)
    return with_states(fixed, bundle.states)


def _to_try(loaded: Model, bundle: Bundle) -> Model:
    """The model with sizes and values of a golden sample at which it can be tried.

    Sizes with several names may have to fit each other, and integers may be indexes into tensors of these sizes: few
    random ones fit, and every try takes seconds. At packaging, a sample gave the sizes and values.
    """
    golden, _ = next(bundle.golden(), ({}, {}))
    given = {spec.name: golden[spec.name] for spec in loaded.inputs if spec.name in golden}
    return replace(
        loaded,
        sample_shapes={name: array.shape for name, array in given.items()},
        sample_values={name: given[name] for name in inputs_of_sizes(loaded) if name in given},
        sample_integers={name: array for name, array in given.items() if array.dtype.kind in "iu"},
    )


def _require_same(file: Path, source: Mapping[str, Any], what: str) -> None:
    size = file.stat().st_size
    found = f"SHA-256 {sha256(file)}" if size == source["bytes"] else f"{size} bytes, not {source['bytes']}"
    if found != f"SHA-256 {source['sha256']}":
        raise InputError(
            f"is not {what} that the bundle was made from",
            subject=file,
            expected=f"{source['path']} with SHA-256 {source['sha256']}",
            found=found,
        )


@contextmanager
def open_original(bundle: Bundle, model: Path, timeout: float = SILENCE_SECONDS) -> Iterator[Session]:
    """The original on this machine, executed by ONNX Runtime with its optimizations, on one thread.

    Raises:
        InputError: The model is not the bundle's original.
        RequirementError: ONNX Runtime cannot execute the original.
    """
    original = original_of(bundle, model)
    runtime = reference_of(original, fast=True).executed_by  # raises ONNX Runtime's own error
    with tempfile.TemporaryDirectory() as folder:
        _write_order(Path(folder), bundle, original, runtime)
        with Channel([sys.executable, "-m", original_service.__name__, folder], timeout) as channel:
            yield OriginalSession(channel, bundle, str(model))


def _write_order(folder: Path, bundle: Bundle, original: Model, runtime: str) -> None:
    """Writes what :mod:`edgekit.execution.lone_session` reads; tensors in external files are not copied if possible."""
    folders = tensor_folders(original)
    zeros = zero_states(original)
    order = {
        "inputs": [feature.name for feature in bundle.inputs],
        "outputs": [feature.name for feature in bundle.outputs],
        "states": [
            {"input": name, "output": output, "shape": zeros[name].shape, "dtype": str(zeros[name].dtype)}
            for name, output in original.states.items()
        ],
        "tensors": None,
        "runtime": runtime,
    }
    file = folder / lone_session.MODEL
    if folders is not None and len(folders) == 1:
        order["tensors"] = str(Path(next(iter(folders))).absolute())
        file.write_bytes(ir.to_proto(original.graph_model).SerializeToString())
    else:
        original.save(file)
    (folder / lone_session.ORDER).write_text(json.dumps(order), encoding="utf-8")


class OriginalSession(ServiceSession):
    """A session with the original in another process."""

    @property
    def executed_by(self) -> str:
        """What the reference runtime says of itself."""
        return str(self._greeting["runtime"])

"""EdgeKit in Python: a function for every command, with the command's options as arguments.

Each function returns the typed object that the command prints, and raises :class:`edgekit.errors.EdgeKitError` where
the command ends with an error. Paths are strings or path objects. A negative result that the command prints before it
ends with exit code 1 is returned, not raised: :attr:`OperatorCheck.supported`, :attr:`GateResult.passed`,
:attr:`ProjectBundle.failure`.

The functions are attributes of :mod:`edgekit`; importing that package is cheap until one of them is used::

    import edgekit

    bundle = edgekit.package("model.onnx", "intel-cpu", data="samples")
    print(edgekit.load(bundle)("cat.png")[0].label)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgekit.api_arguments import (
    Data,
    Dims,
    Metric,
    Shapes,
    StrPath,
    bundle_name,
    bundle_of,
    data_of,
    evaluation,
    instruction_set_names,
    max_bytes,
    max_drop_share,
    names_of,
    optional_path,
    path_of,
    shape_request,
)
from edgekit.api_bundles import bench, gate, load, report, sign, throughput, verify
from edgekit.api_types import held_to_signature
from edgekit.bundle import Bundle
from edgekit.bundle_checks.benchmark import Candidate
from edgekit.bundle_checks.throughput import ThroughputCandidate
from edgekit.bundle_checks.verification import Verification
from edgekit.config import Declared, declared_for, find_config, read_config
from edgekit.data.recording import record
from edgekit.data.sample_lists import SampleList
from edgekit.data.tables import Table
from edgekit.errors import InputError
from edgekit.faults import as_edgekit_error
from edgekit.features.suppression import Suppression
from edgekit.loading import LoadedBundle, Prediction
from edgekit.packaging.candidates import Choice
from edgekit.packaging.model_steps import (
    ExtractedModel,
    FixedModel,
    Inspection,
    OperatorCheck,
    check_model,
    extract_model,
    fix_model,
    inspect_model,
)
from edgekit.packaging.pipeline import package as run_pipeline
from edgekit.packaging.quantize_step import QuantizedModel, QuantizeOrder, quantize_model
from edgekit.packaging.request import PackageRequest
from edgekit.processes.executors import open_executor
from edgekit.progress import Progress
from edgekit.project import building
from edgekit.project.building import ProjectBundle
from edgekit.project.draft import Draft, draft_project
from edgekit.quality_gate.gating import GateResult
from edgekit.registry import InstalledTargets, find_profile, installed_targets
from edgekit.terminal.board import Board

__all__ = [
    "Bundle",
    "Candidate",
    "ExtractedModel",
    "FixedModel",
    "GateResult",
    "Inspection",
    "InstalledTargets",
    "LoadedBundle",
    "OperatorCheck",
    "Prediction",
    "ProjectBundle",
    "QuantizedModel",
    "ThroughputCandidate",
    "Verification",
    "bench",
    "build",
    "check",
    "extract",
    "fix",
    "gate",
    "init",
    "inspect",
    "load",
    "package",
    "quantize",
    "record",
    "report",
    "sign",
    "targets",
    "throughput",
    "verify",
]

# The log messages of onnx_ir go to the handlers that the app configures; without a handler, Python would print them.
logging.getLogger("onnx_ir").addHandler(logging.NullHandler())


@held_to_signature
def package(
    model: StrPath,
    target: str,
    output: StrPath | None = None,
    *,
    name: str | None = None,
    data: Data | None = None,
    verify_data: Data | None = None,
    label: str | None = None,
    quantize: str | None = None,
    quantizer: str | None = None,
    max_drop: float | str | None = None,
    max_size: int | str | None = None,
    smallest: bool = False,
    floor: float | None = None,
    accept: bool = False,
    metric: Metric | None = None,
    workers: int = 1,
    cluster: str | None = None,
    like: StrPath | Bundle | None = None,
    dims: Dims | None = None,
    shapes: Shapes | None = None,
    precision: str = "auto",
    postprocess: str | Mapping[str, Any] | None = None,
    states: Mapping[str, str] | None = None,
    labels: StrPath | None = None,
    options: Mapping[str, str] | None = None,
    isa: str | Sequence[str] | None = None,
    also: Iterable[str] = (),
    witness: str | None = None,
    config: StrPath | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Packages a model for a device, and proves that it still works: ``edgekit package``.

    Args:
        model: The ONNX file.
        target: Name of a device profile.
        output: The bundle's folder; by default ``MODEL-TARGET`` in the working directory.
        name: The bundle's name in its manifest, of letters, digits, ``.``, ``_`` and ``-``; by default the name of
            ``like``, or else that of the folder.
        data: Samples to calibrate and verify on: a folder, a file that holds a table, or a table itself (a DataFrame,
            a mapping of arrays by the inputs' names whose first axis counts samples, an array, or a pair of one of
            these and the labels). Or samples one by one, which may differ in size: mappings of arrays in a list or
            from a generator, or a function that returns one of these.
        verify_data: Samples to verify on in place of ``data``.
        label: The column that holds the class, where samples are the rows of a table; by default ``label``.
        quantize: Quantization scheme; by default ``auto`` with ``data``, ``none`` without.
        quantizer: Name of the installed quantizer; by default EdgeKit's own.
        max_drop: The most accuracy that may be lost: ``0.01`` or ``"1%"``.
        max_size: The model's largest size in bytes, or a text such as ``"3MB"``: the most accurate model of at most
            this size is made.
        smallest: Make the smallest model that loses at most ``max_drop``, in place of the fastest.
        floor: The least SQNR in dB of the outputs over all samples; by default a value for the form that is built.
        accept: Write the bundle although its outputs miss their floors, and say so in its manifest; a bundle with
            broken outputs is never written.
        metric: The project's own measure of quality; ``max_drop`` is then a share of the float model's value.
        workers: Number of processes of this machine that evaluate candidates.
        cluster: Address of a Dask scheduler whose workers evaluate candidates.
        like: A bundle whose recorded choice among the quantizer's candidates is repeated, even if another candidate is
            faster now.
        dims: Sizes of dynamic dimensions.
        shapes: Whole shapes of inputs.
        precision: ``auto``, ``float32`` or ``float16``.
        postprocess: ``"nms"`` adds non-maximum suppression of a detector's boxes to the built model, whose output
            ``detections`` then holds a row for each object. ``"nms,iou=0.45,score=0.25,boxes=300"``, or a mapping with
            ``kind`` and these keys, replaces the defaults 0.5, 0.05 and 100.
        states: Inputs that the built model keeps from run to run, each with the output that replaces it.
        labels: File with one class name per line.
        options: Values of the targets' own options, by name.
        isa: Instruction sets with which the bundle has to be accurate, such as ``"avx2,vnni"``. By default, for a model
            that multiplies integers, the profile's instruction sets that this processor executes itself.
        also: Further device profiles that the bundle holds a build for, in addition to ``target``.
        witness: Name of an installed witness, a second runtime that also executes the built model and has to agree.
        config: Project file whose preprocessing is used; by default the one nearest to ``data``.
        progress: Receives the stages and warnings; by default nothing is shown.

    Raises:
        InputError: The arguments do not fit, or the output cannot be written.
        RequirementError: Operators are missing, or the accuracy is under the floor. No bundle is written.
    """
    source = path_of(model, "MODEL")
    _, profile = find_profile(target)
    tables: dict[Path, Table | SampleList] = {}
    samples, others = data_of(data, "--data", tables), data_of(verify_data, "--verify-data", tables)
    near = None if samples in tables else samples
    declared = declared_for(source, near, optional_path(config, "--config"))
    folder = optional_path(output, "--output") or Path(f"{source.stem}-{profile.name}")
    repeated = None if like is None else bundle_of(like)
    request = PackageRequest(
        model=source,
        target=target,
        output=folder,
        name=bundle_name(name, folder, repeated),
        data=samples,
        verify_data=others,
        label=label,
        tables=tables,
        quantize=quantize,
        quantizer=quantizer,
        like=None if repeated is None else Choice.of(repeated),
        max_drop=max_drop_share(max_drop),
        max_bytes=max_bytes(max_size),
        smallest=smallest,
        floor_db=floor,
        accept=accept,
        evaluation=evaluation(metric, samples=data is not None or verify_data is not None),
        precision=precision,
        shapes=shape_request(dims, shapes),
        labels=optional_path(labels, "--labels"),
        preprocessing=declared.preprocessing,
        shares_preprocessing=declared.shares_preprocessing,
        outputs=declared.outputs,
        postprocess=None if postprocess is None else Suppression.parse(postprocess, "--postprocess"),
        states=states or {},
        target_options=options or {},
        instruction_sets=instruction_set_names(isa),
        also=names_of(also),
        witness=witness,
    )
    with open_executor(workers, cluster) as executor:
        return run_pipeline(request, progress or Progress(), executor)


@held_to_signature
def build(
    config: StrPath | None = None,
    *,
    bundles: Iterable[str] = (),
    output_dir: StrPath | None = None,
    jobs: int | None = None,
    force: bool = False,
    board: Board | None = None,
) -> list[ProjectBundle]:
    """Builds every bundle that a project file declares, or some of them: ``edgekit build``.

    Each is built in a fresh process, which imports the main module: a script calls this under
    ``if __name__ == "__main__":``.

    Args:
        config: The project file; by default the nearest ``edgekit.toml`` here or in a folder above.
        bundles: Names of the bundles to build; by default all.
        output_dir: Folder for the bundles, each under its name; by default where the project file puts them.
        jobs: Number of bundles that are built at a time; by default one for every two processors.
        force: Build bundles that are up to date as well.
        board: Receives the progress of each bundle; by default nothing is shown.

    Returns:
        One result per bundle, in the order of the declarations; :attr:`ProjectBundle.failure` says why a bundle failed.

    Raises:
        InputError: There is no project file, it declares no bundle, or no bundle of a given name.
    """
    found = optional_path(config, "--config") or find_config(Path.cwd())
    if found is None:
        raise InputError("there is no edgekit.toml here or in a folder above", hint="`--config FILE` names one")
    project, names = read_config(found), names_of(bundles)
    chosen = project.only(names) if names else project
    folder = optional_path(output_dir, "--output-dir")
    chosen = chosen if folder is None else chosen.in_folder(folder)
    return building.build_project(chosen, board or Board(), as_edgekit_error, jobs=jobs, force=force)


@held_to_signature
def inspect(
    model: StrPath, *, dims: Dims | None = None, shapes: Shapes | None = None, progress: Progress | None = None
) -> Inspection:
    """What goes into a model, what comes out, and what it costs: ``edgekit inspect``.

    Args:
        model: The ONNX file.
        dims: Sizes of dynamic dimensions, to count MACs with.
        shapes: Whole shapes of inputs.
        progress: Receives the stages and warnings; by default nothing is shown.

    Raises:
        InputError: The file is no usable ONNX model, or the shapes do not fit it.
    """
    return inspect_model(path_of(model, "MODEL"), shape_request(dims, shapes), progress or Progress())


@held_to_signature
def fix(
    model: StrPath,
    output: StrPath,
    *,
    dims: Dims | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
) -> FixedModel:
    """Fixes a model's dynamic dimensions: ``edgekit fix``.

    Args:
        model: The ONNX file.
        output: The ONNX file to write.
        dims: Sizes of dynamic dimensions.
        shapes: Whole shapes of inputs.
        progress: Receives the stages and warnings; by default nothing is shown.

    Raises:
        InputError: No sizes are given, the shapes do not fit the model, or the output cannot be written.
    """
    return fix_model(
        path_of(model, "MODEL"), shape_request(dims, shapes), path_of(output, "--output"), progress or Progress()
    )


@held_to_signature
def extract(
    model: StrPath,
    output: StrPath,
    *,
    outputs: Iterable[str],
    inputs: Iterable[str] = (),
    progress: Progress | None = None,
) -> ExtractedModel:
    """Cuts a sub-model out of a model: ``edgekit extract``.

    Args:
        model: The ONNX file.
        output: The ONNX file to write.
        outputs: Names of the values to compute; a node's name stands for its outputs.
        inputs: Names of the values to start from; by default the model's own inputs.
        progress: Receives the stages and warnings; by default nothing is shown.

    Raises:
        InputError: A name is unknown, the outputs do not follow from the inputs, or the output cannot be written.
    """
    return extract_model(
        path_of(model, "MODEL"),
        list(names_of(outputs)),
        list(names_of(inputs)),
        path_of(output, "--output"),
        progress or Progress(),
    )


@held_to_signature
def check(
    model: StrPath,
    target: str,
    *,
    dims: Dims | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
) -> OperatorCheck:
    """Checks how a target supports each node of a model: ``edgekit check``.

    Args:
        model: The ONNX file.
        target: Name of a device profile.
        dims: Sizes of dynamic dimensions.
        shapes: Whole shapes of inputs.
        progress: Receives the stages and warnings; by default nothing is shown.

    Returns:
        The verdicts; :attr:`OperatorCheck.supported` says whether the target takes every node.

    Raises:
        InputError: The model cannot be used, the target is unknown, or the shapes do not fit.
    """
    return check_model(path_of(model, "MODEL"), target, shape_request(dims, shapes), progress or Progress())


@held_to_signature
def quantize(
    model: StrPath,
    output: StrPath,
    *,
    data: Data | None = None,
    label: str | None = None,
    target: str | None = None,
    scheme: str = "auto",
    quantizer: str | None = None,
    max_drop: float | str | None = None,
    max_size: int | str | None = None,
    smallest: bool = False,
    metric: Metric | None = None,
    workers: int = 1,
    cluster: str | None = None,
    like: StrPath | Bundle | None = None,
    dims: Dims | None = None,
    shapes: Shapes | None = None,
    isa: str | Sequence[str] | None = None,
    config: StrPath | None = None,
    labels: StrPath | None = None,
    explain: bool = False,
    progress: Progress | None = None,
) -> QuantizedModel:
    """Quantizes a model, ONNX in and ONNX out: ``edgekit quantize``.

    Args:
        model: The ONNX file.
        output: The ONNX file to write.
        data: Samples to calibrate on: a folder, a file that holds a table, or a table itself, as for :func:`package`.
        label: The column that holds the class, where samples are the rows of a table; by default ``label``.
        target: Name of the device profile to quantize for; by default the model is quantized as suits most devices.
        scheme: Quantization scheme.
        quantizer: Name of the installed quantizer; by default EdgeKit's own.
        max_drop: The most accuracy that may be lost: ``0.01`` or ``"1%"``.
        max_size: The model's largest size in bytes, or a text such as ``"3MB"``: the most accurate model of at most
            this size is made.
        smallest: Make the smallest model that loses at most ``max_drop``, in place of the fastest.
        metric: The project's own measure of quality; ``max_drop`` is then a share of the float model's value.
        workers: Number of processes of this machine that evaluate candidates.
        cluster: Address of a Dask scheduler whose workers evaluate candidates.
        like: A bundle whose recorded choice among the quantizer's candidates is repeated, even if another candidate is
            faster now.
        dims: Sizes of dynamic dimensions.
        shapes: Whole shapes of inputs.
        isa: Instruction sets with which candidates have to hold the budget, such as ``"avx2,vnni"``, if the runtime can
            be restricted to them on this machine; by default those of the target.
        config: Project file whose preprocessing is used; by default the one nearest to ``data``.
        labels: File with one class name per line, so that the samples' labels may be written as names.
        explain: Also measure the chosen candidate without the larger scales that keep 16-bit sums from saturating; the
            record's ``unrestricted`` holds the result.
        progress: Receives the stages and warnings; by default nothing is shown.

    Raises:
        InputError: The arguments do not fit, or the output cannot be written.
        edgekit.quantizer.BudgetError: No candidate holds the accuracy budget.
    """
    source = path_of(model, "MODEL")
    tables: dict[Path, Table | SampleList] = {}
    samples, project = data_of(data, "--data", tables), optional_path(config, "--config")
    near = None if samples in tables else samples
    declared = Declared() if samples is None else declared_for(source, near, project)
    order = QuantizeOrder(
        model=source,
        output=path_of(output, "--output"),
        data=samples,
        label=label,
        tables=tables,
        target=target,
        scheme=scheme,
        quantizer=quantizer,
        like=None if like is None else Choice.of(bundle_of(like)),
        explain=explain,
        max_drop=max_drop_share(max_drop),
        max_bytes=max_bytes(max_size),
        smallest=smallest,
        evaluation=evaluation(metric, samples=data is not None),
        shapes=shape_request(dims, shapes),
        instruction_sets=instruction_set_names(isa),
        labels=optional_path(labels, "--labels"),
        preprocessing=declared.preprocessing,
        outputs=declared.outputs,
    )
    with open_executor(workers, cluster) as executor:
        return quantize_model(order, progress or Progress(), executor)


@held_to_signature
def init(
    model: StrPath,
    *,
    data: StrPath | None = None,
    label: str | None = None,
    targets: Iterable[str] = (),
    output: StrPath = "edgekit.toml",
    progress: Progress | None = None,
) -> Draft:
    """Writes a project file from a model and its samples: ``edgekit init``.

    Args:
        model: The ONNX file.
        data: Folder of samples, or a file that holds a table.
        label: The column that holds the class, where samples are the rows of a table; by default ``label``.
        targets: Device profiles; by default the first one of each target that builds here.
        output: The file to write, which must not exist.
        progress: Receives the stages; by default nothing is shown.

    Returns:
        The file, the bundles that it declares, the free dimensions whose sizes are unknown, and the targets that it
        leaves out because nothing on this machine builds for them.

    Raises:
        InputError: The model or the data cannot be read, a target is unknown, or the file exists.
    """
    with (progress or Progress()).stage("draft"):
        return draft_project(
            path_of(model, "MODEL"),
            optional_path(data, "--data"),
            names_of(targets),
            path_of(output, "--output"),
            label,
        )


def targets() -> InstalledTargets:
    """The targets of this installation with their device profiles: ``edgekit targets``."""
    return installed_targets()

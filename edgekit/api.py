"""EdgeKit in Python: a function for every command, with the command's options as arguments.

Each returns the typed object that the command prints, and raises :class:`edgekit.errors.EdgeKitError` where the command
ends with an error. Paths are strings or path objects. An answer that the command prints before it ends with exit code 1
is returned, not raised: :attr:`OperatorCheck.supported`, :attr:`GateResult.passed`, :attr:`ProjectBundle.failure`.

They are imported as attributes of :mod:`edgekit`, which imports nothing heavy until one of them is used::

    import edgekit

    bundle = edgekit.package("model.onnx", "intel-cpu", data="samples")
    print(edgekit.load(bundle)("cat.png")[0].label)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from edgekit import project
from edgekit.api_arguments import (
    Dims,
    Metric,
    Shapes,
    StrPath,
    bundle_of,
    evaluation,
    instruction_set_names,
    max_bytes,
    max_drop_share,
    optional_path,
    shape_request,
)
from edgekit.atomic import atomic_file
from edgekit.bundle import Bundle, check_integrity
from edgekit.bundle_checks.benchmark import Candidate, bench_bundle
from edgekit.bundle_checks.throughput import ThroughputCandidate, bench_throughput
from edgekit.bundle_checks.verification import Verification, verify_bundle
from edgekit.candidates import Choice
from edgekit.config import declared_outputs, declared_preprocessing, find_config, read_config
from edgekit.data.recording import record
from edgekit.devices import LOCAL
from edgekit.devices.opening import open_device
from edgekit.errors import InputError
from edgekit.faults import as_edgekit_error
from edgekit.loading import LoadedBundle, Prediction
from edgekit.model_steps import (
    ExtractedModel,
    FixedModel,
    Inspection,
    OperatorCheck,
    QuantizedModel,
    QuantizeOrder,
    check_model,
    extract_model,
    fix_model,
    inspect_model,
    quantize_model,
)
from edgekit.pipeline import PackageRequest
from edgekit.pipeline import package as run_pipeline
from edgekit.processes.executors import open_executor
from edgekit.progress import Progress
from edgekit.project import ProjectBundle
from edgekit.project_draft import Draft, draft_project
from edgekit.quality_gate.gating import GateOrder, GateResult, judge_bundles
from edgekit.registry import InstalledTargets, canonical_of, find_profile, find_witness, installed_targets
from edgekit.signature import check_signature
from edgekit.signature import sign as sign_bundle
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


def package(
    model: StrPath,
    target: str,
    output: StrPath | None = None,
    *,
    data: StrPath | None = None,
    verify_data: StrPath | None = None,
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
    states: Mapping[str, str] | None = None,
    labels: StrPath | None = None,
    options: Mapping[str, str] | None = None,
    isa: str | None = None,
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
        data: Folder of samples to calibrate and verify on.
        verify_data: Folder of samples to verify on in place of ``data``.
        quantize: Scheme; by default ``auto`` with ``data``, ``none`` without.
        quantizer: Name of the installed quantizer; by default EdgeKit's own.
        max_drop: Accuracy that may be lost: ``0.01`` or ``"1%"``.
        max_size: Bytes that the model may take, or a text such as ``"3MB"``: the most accurate one that does is made.
        smallest: Make the smallest model that holds ``max_drop``, in place of the fastest.
        floor: SQNR in dB that outputs have to reach over all samples; by default what suits the form that is built.
        accept: Ship what misses its floors, marked as such; broken outputs never ship.
        metric: The project's own measure of quality, which ``max_drop`` is a share of.
        workers: Number of processes of this machine that evaluate candidates.
        cluster: Address of a Dask scheduler whose workers evaluate candidates.
        like: A bundle whose recorded choice among the quantizer's candidates is repeated, whatever is faster now.
        dims: Sizes of dynamic dimensions.
        shapes: Whole shapes of inputs.
        precision: ``auto``, ``float32`` or ``float16``.
        states: Inputs that the built model keeps from run to run, each with the output that replaces it.
        labels: File with a class name a line.
        options: Options of the targets' own.
        isa: Instruction sets that it has to be accurate with, such as ``"avx2,vnni"``; by default those of the target
            that this processor executes itself, where the model multiplies integers.
        also: Further device profiles that the bundle holds a build for, beside the first.
        witness: Name of an installed witness that executes what was built too, and has to agree.
        config: Project file whose preprocessing is used; by default the nearest to ``data``.
        progress: Told of the stages and warnings; silent by default.

    Raises:
        InputError: The arguments do not fit, or the output cannot be written.
        RequirementError: Operators are missing, or the accuracy is under the floor. No bundle is written.
    """
    source = Path(model)
    _, profile = find_profile(target)
    request = PackageRequest(
        model=source,
        target=target,
        output=optional_path(output) or Path(f"{source.stem}-{profile.name}"),
        data=optional_path(data),
        verify_data=optional_path(verify_data),
        quantize=quantize,
        quantizer=quantizer,
        like=None if like is None else Choice.of(bundle_of(like)),
        max_drop=max_drop_share(max_drop),
        max_bytes=max_bytes(max_size),
        smallest=smallest,
        floor_db=floor,
        accept=accept,
        evaluation=evaluation(metric, samples=data is not None or verify_data is not None),
        precision=precision,
        shapes=shape_request(dims, shapes),
        labels=optional_path(labels),
        preprocessing=declared_preprocessing(optional_path(config), optional_path(data), source),
        outputs=declared_outputs(optional_path(config), optional_path(data), source),
        states=states or {},
        target_options=options or {},
        instruction_sets=instruction_set_names(isa),
        also=tuple(also),
        witness=witness,
    )
    with open_executor(workers, cluster) as executor:
        return run_pipeline(request, progress or Progress(), executor)


def build(
    config: StrPath | None = None, *, jobs: int | None = None, force: bool = False, board: Board | None = None
) -> list[ProjectBundle]:
    """Builds every bundle that a project file declares: ``edgekit build``.

    Each is built in a fresh process, which imports the main module: a script calls this under
    ``if __name__ == "__main__":``.

    Args:
        config: The project file; by default the nearest ``edgekit.toml`` here or in a folder above.
        jobs: Number of bundles that are built at a time; by default one for every two processors.
        force: Build bundles that are up to date as well.
        board: Told how it goes; silent by default.

    Returns:
        A result for each, in the order of their declarations; :attr:`ProjectBundle.failure` says why one failed.

    Raises:
        InputError: There is no project file, or it declares nothing.
    """
    found = optional_path(config) or find_config(Path.cwd())
    if found is None:
        raise InputError("there is no edgekit.toml here or in a folder above", hint="`--config FILE` names one")
    return project.build_project(read_config(found), board or Board(), as_edgekit_error, jobs=jobs, force=force)


def inspect(
    model: StrPath, *, dims: Dims | None = None, shapes: Shapes | None = None, progress: Progress | None = None
) -> Inspection:
    """What goes into a model, what comes out, and what it costs: ``edgekit inspect``.

    Args:
        model: The ONNX file.
        dims: Sizes of dynamic dimensions, to count MACs with.
        shapes: Whole shapes of inputs.
        progress: Told of the stages and warnings; silent by default.

    Raises:
        InputError: The file is no usable ONNX model, or the shapes do not fit it.
    """
    return inspect_model(Path(model), shape_request(dims, shapes), progress or Progress())


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
        progress: Told of the stages and warnings; silent by default.

    Raises:
        InputError: Nothing is asked for, the shapes do not fit the model, or the output cannot be written.
    """
    return fix_model(Path(model), shape_request(dims, shapes), Path(output), progress or Progress())


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
        progress: Told of the stages and warnings; silent by default.

    Raises:
        InputError: A name is unknown, the outputs do not follow from the inputs, or the output cannot be written.
    """
    return extract_model(Path(model), list(outputs), list(inputs), Path(output), progress or Progress())


def check(
    model: StrPath,
    target: str,
    *,
    dims: Dims | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
) -> OperatorCheck:
    """What becomes of each node on a target: ``edgekit check``.

    Args:
        model: The ONNX file.
        target: Name of a device profile.
        dims: Sizes of dynamic dimensions.
        shapes: Whole shapes of inputs.
        progress: Told of the stages and warnings; silent by default.

    Returns:
        The verdicts; :attr:`OperatorCheck.supported` says whether the target takes every node.

    Raises:
        InputError: The model cannot be used, the target is unknown, or the shapes do not fit.
    """
    return check_model(Path(model), target, shape_request(dims, shapes), progress or Progress())


def quantize(
    model: StrPath,
    output: StrPath,
    *,
    data: StrPath | None = None,
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
    isa: str | None = None,
    config: StrPath | None = None,
    labels: StrPath | None = None,
    progress: Progress | None = None,
) -> QuantizedModel:
    """Quantizes a model, ONNX in and ONNX out: ``edgekit quantize``.

    Args:
        model: The ONNX file.
        output: The ONNX file to write.
        data: Folder of samples to calibrate on.
        target: Name of the device profile to quantize for; by default what suits most devices.
        scheme: How to quantize.
        quantizer: Name of the installed quantizer; by default EdgeKit's own.
        max_drop: Accuracy that may be lost: ``0.01`` or ``"1%"``.
        max_size: Bytes that the model may take, or a text such as ``"3MB"``: the most accurate one that does is made.
        smallest: Make the smallest model that holds ``max_drop``, in place of the fastest.
        metric: The project's own measure of quality, which ``max_drop`` is a share of.
        workers: Number of processes of this machine that evaluate candidates.
        cluster: Address of a Dask scheduler whose workers evaluate candidates.
        like: A bundle whose recorded choice among the quantizer's candidates is repeated, whatever is faster now.
        dims: Sizes of dynamic dimensions.
        shapes: Whole shapes of inputs.
        isa: Instruction sets that candidates have to hold the budget with, such as ``"avx2,vnni"``, where the runtime
            can be held to them here; by default those of the target.
        config: Project file whose preprocessing is used; by default the nearest to ``data``.
        labels: File with a class name a line, so that the samples' labels may be written as names.
        progress: Told of the stages and warnings; silent by default.

    Raises:
        InputError: The arguments do not fit, or the output cannot be written.
        edgekit.quantizer.BudgetError: No candidate holds the accuracy budget.
    """
    source = Path(model)
    order = QuantizeOrder(
        model=source,
        output=Path(output),
        data=optional_path(data),
        target=target,
        scheme=scheme,
        quantizer=quantizer,
        choice=None if like is None else Choice.of(bundle_of(like)).candidate,
        max_drop=max_drop_share(max_drop),
        max_bytes=max_bytes(max_size),
        smallest=smallest,
        evaluation=evaluation(metric, samples=data is not None),
        shapes=shape_request(dims, shapes),
        instruction_sets=instruction_set_names(isa),
        labels=optional_path(labels),
        preprocessing=None if data is None else declared_preprocessing(optional_path(config), Path(data), source),
        outputs=None if data is None else declared_outputs(optional_path(config), Path(data), source),
    )
    with open_executor(workers, cluster) as executor:
        return quantize_model(order, progress or Progress(), executor)


def verify(
    bundle: StrPath | Bundle,
    *,
    data: StrPath | None = None,
    model: StrPath | None = None,
    config: StrPath | None = None,
    device: str = LOCAL,
    device_timeout: float | None = None,
    layers: bool = False,
    results: StrPath | None = None,
    witness: str | None = None,
    signers: StrPath | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Verifies a bundle's files, golden outputs and accuracy: ``edgekit verify``.

    Args:
        bundle: The bundle.
        data: Folder of samples to measure the accuracy on; they need labels where ``model`` is not given.
        model: The ONNX file that the bundle was made from, to compare with.
        config: Project file whose preprocessing is used where the bundle holds none; by default nearest to ``data``.
        device: URL of what executes the bundle; this machine by default.
        device_timeout: Seconds that the device may be silent; by default its own.
        layers: Compare intermediate values too.
        results: File that the bundle's check wrote on a device that is not reached from here.
        witness: Name of an installed witness that executes the bundle too.
        signers: Who may sign: OpenSSH's file of allowed signers; the bundle then needs a signature by one of them.
        progress: Told of the stages and warnings; silent by default.

    Raises:
        InputError: The arguments do not fit the bundle, or the device cannot be reached.
        RequirementError: A file is changed, the outputs are wrong, or the device cannot run the bundle.
    """
    told = progress or Progress()
    second = None if witness is None else find_witness(witness)
    where = open_device(device, device_timeout, told.step, optional_path(results))
    opened, source, folder = bundle_of(bundle), optional_path(model), optional_path(data)
    if signers is not None:
        check_signature(opened, Path(signers))
    with told.stage("verify"):
        declared = None if folder is None else declared_preprocessing(optional_path(config), folder, source)
        found = verify_bundle(opened, folder, source, told.step, declared, where, layers=layers, witness=second)
    if found.accuracy is not None and found.accuracy.label_doubt is not None:
        told.warn(found.accuracy.label_doubt)
    return found


def bench(
    bundle: StrPath | Bundle,
    *,
    against: StrPath | Bundle | None = None,
    model: StrPath | None = None,
    device: str = LOCAL,
    device_timeout: float | None = None,
    progress: Progress | None = None,
) -> list[Candidate]:
    """Measures a bundle's latency, load time and memory, in turns with others: ``edgekit bench``.

    Args:
        bundle: The bundle.
        against: A second bundle.
        model: The ONNX file that the bundle was made from, executed on this machine.
        device: URL of what executes the bundles; this machine by default.
        device_timeout: Seconds that the device may be silent; by default its own.
        progress: Told of the stages and warnings; silent by default.

    Returns:
        The bundle first, then the others. One that is not :attr:`Candidate.of_device` was executed by a stand-in, whose
        times say nothing about the device.

    Raises:
        InputError: The arguments do not fit the bundle, or the device cannot be reached.
        RequirementError: A bundle's files are changed, or the device cannot run it.
    """
    told = progress or Progress()
    where = open_device(device, device_timeout, told.step)
    opened, other = bundle_of(bundle), None if against is None else bundle_of(against)
    with told.stage("bench"):
        return bench_bundle(opened, other, optional_path(model), told.step, where)


def throughput(
    bundle: StrPath | Bundle,
    *,
    against: StrPath | Bundle | None = None,
    streams: int | str = "auto",
    batch: int = 1,
    device: str = LOCAL,
    device_timeout: float | None = None,
    progress: Progress | None = None,
) -> list[ThroughputCandidate]:
    """Measures how many samples a bundle gets done in a second: ``edgekit bench --streams N --batch N``.

    Args:
        bundle: The bundle.
        against: A second bundle, measured in turns.
        streams: How many inferences run at the same time, on all processors; ``auto`` for the runtime's own choice.
        batch: Samples in each inference.
        device: URL of what executes the bundles; this machine by default.
        device_timeout: Seconds that the device may be silent; by default its own.
        progress: Told of the stages and warnings; silent by default.

    Returns:
        The bundle first, then the other.

    Raises:
        InputError: The arguments do not fit the bundle, the device cannot be reached, or it runs no inferences at the
            same time.
        RequirementError: A bundle's files are changed, or the device cannot run it.
    """
    if streams != "auto" and (not str(streams).isdecimal() or not int(streams)):
        raise InputError("is no number of streams", subject=f"--streams {streams}", expected="a number, or auto")
    if batch < 1:
        raise InputError("is no number of samples", subject=f"--batch {batch}", expected="1 or more")
    count = None if streams == "auto" else int(streams)
    told = progress or Progress()
    where = open_device(device, device_timeout, told.step)
    opened, other = bundle_of(bundle), None if against is None else bundle_of(against)
    with told.stage("bench"):
        return bench_throughput(opened, other, count, batch, told.step, where)


def init(
    model: StrPath,
    *,
    data: StrPath | None = None,
    targets: Iterable[str] = (),
    output: StrPath = "edgekit.toml",
    progress: Progress | None = None,
) -> Draft:
    """Writes a project file from a model and its samples: ``edgekit init``.

    Args:
        model: The ONNX file.
        data: Folder of samples.
        targets: Device profiles; by default the first one of each installed target.
        output: The file to write, which must not exist.
        progress: Told of the stages; silent by default.

    Returns:
        The file, the bundles that it declares, and free dimensions whose sizes nothing tells.

    Raises:
        InputError: The model or the data cannot be read, a target is unknown, or the file exists.
    """
    with (progress or Progress()).stage("draft"):
        return draft_project(Path(model), optional_path(data), tuple(targets), Path(output))


def gate(
    *bundles: StrPath,
    config: StrPath | None = None,
    baseline: StrPath | None = None,
    against: StrPath | None = None,
    update: bool = False,
    model: StrPath | None = None,
    time_limit: float | None = None,
    device: str | None = None,
    device_timeout: float | None = None,
    results: StrPath | None = None,
    isa: str | None = None,
    signers: StrPath | None = None,
    progress: Progress | None = None,
) -> GateResult:
    """Judges bundles by the budgets of the project file: ``edgekit gate``.

    Args:
        bundles: The bundles; by default every one that the project declares.
        config: The project file; by default the nearest ``edgekit.toml`` here or in a folder above.
        baseline: File with the figures of an earlier build; by default the one that the project file names.
        against: An earlier bundle, or a folder that holds one for each, by its name.
        update: Write the figures to the baseline instead of comparing with it.
        model: The ONNX file that the only bundle was made from.
        time_limit: Seconds that one measurement may take; by default as the project file says, or 60.
        device: URL of where milliseconds and memory are measured; by default as the project file says, or this machine.
        device_timeout: Seconds that the device may be silent; by default its own.
        results: File that the only bundle's check wrote on a device that is not reached from here.
        isa: Instruction sets with which they have to compute their golden outputs, such as ``"avx2,vnni"``.
        signers: Who may sign: OpenSSH's file of allowed signers; every bundle then needs a signature by one of them.
        progress: Told of the bundles and warnings; silent by default.

    Returns:
        The verdicts; :attr:`GateResult.passed` says whether all bundles keep their budgets.

    Raises:
        InputError: There is nothing to judge, or nothing to judge by; or arguments contradict each other.
    """
    order = GateOrder(
        tuple(map(Path, bundles)),
        optional_path(config) or find_config(Path.cwd()),
        optional_path(baseline),
        optional_path(against),
        update,
        optional_path(model),
        time_limit,
        device,
        device_timeout,
        optional_path(results),
        optional_path(signers),
        instruction_set_names(isa),
    )
    return judge_bundles(order, progress or Progress())


def report(bundle: StrPath | Bundle, output: StrPath, *, against: StrPath | Bundle | None = None) -> Path:
    """Writes what a bundle holds as one HTML file: ``edgekit report``.

    Args:
        bundle: The bundle.
        output: The HTML file to write.
        against: A second bundle, shown beside it.

    Returns:
        The file.

    Raises:
        InputError: There is no bundle, or the file cannot be written.
        RequirementError: A bundle's files are changed.
    """
    from edgekit.reporting.html import html_report

    bundles = [bundle_of(one) for one in (bundle, against) if one is not None]
    for opened in bundles:
        check_integrity(opened, canonical_of(opened.profile_name))
    text = html_report(*bundles)
    with atomic_file(Path(output)) as place:
        place.write_text(text, encoding="utf-8", newline="\n")
    return Path(output)


def sign(bundle: StrPath | Bundle, key: StrPath) -> Path:
    """Signs a bundle with an OpenSSH key: ``edgekit sign``.

    Args:
        bundle: The bundle.
        key: A private key of OpenSSH, or the public half of one that the SSH agent holds.

    Returns:
        The file of the signature.

    Raises:
        InputError: There is no bundle, or the key cannot be used.
        RequirementError: The bundle's files are changed.
    """
    return sign_bundle(bundle_of(bundle), Path(key))


def targets() -> InstalledTargets:
    """The targets of this installation with their device profiles: ``edgekit targets``."""
    return installed_targets()


def load(bundle: StrPath | Bundle) -> LoadedBundle:
    """Opens a bundle to run it in this process, with its preprocessing and its classes' names.

    ``edgekit.load("model-intel")("cat.png")`` gives the classes, the most likely first; an array gives the outputs.

    Args:
        bundle: The bundle.

    Raises:
        InputError: There is no bundle, or the target that built it is not installed.
        RequirementError: Its files are changed.
    """
    return LoadedBundle(bundle_of(bundle))

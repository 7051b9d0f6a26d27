"""The functions of :mod:`edgekit.api` that take bundles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgekit.api_arguments import (
    Data,
    StrPath,
    bundle_of,
    bundle_path,
    data_of,
    instruction_set_names,
    optional_path,
    path_of,
)
from edgekit.api_types import held_to_signature
from edgekit.bundle import Bundle, check_integrity
from edgekit.bundle_checks.benchmark import Candidate, bench_bundle
from edgekit.bundle_checks.tables import sample_folder
from edgekit.bundle_checks.throughput import MOST_STREAMS, ThroughputCandidate, bench_throughput
from edgekit.bundle_checks.verification import Verification, verify_bundle
from edgekit.config import Declared, declared_for, find_config
from edgekit.data.sample_lists import SampleList
from edgekit.data.tables import Table
from edgekit.devices import LOCAL
from edgekit.devices.opening import open_device
from edgekit.errors import InputError
from edgekit.files.atomic import atomic_file
from edgekit.loading import LoadedBundle
from edgekit.progress import Progress
from edgekit.quality_gate.gating import GateOrder, GateResult, judge_bundles
from edgekit.registry import canonical_of, find_witness
from edgekit.signature import check_signature
from edgekit.signature import sign as sign_bundle


@held_to_signature
def verify(
    bundle: StrPath | Bundle,
    *,
    data: Data | None = None,
    label: str | None = None,
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
        data: Samples to measure the accuracy on; they need labels where ``model`` is not given. A folder, a file that
            holds a table, or a table itself, as for :func:`edgekit.api.package`.
        label: The column that holds the class, where samples are the rows of a table; by default ``label``.
        model: The ONNX file that the bundle was made from, to compare with.
        config: Project file whose preprocessing is used if the bundle holds none; by default the nearest to ``data``.
        device: URL of the device that executes the bundle; this machine by default.
        device_timeout: Seconds without an answer after which the device counts as gone; by default its own limit.
        layers: Compare intermediate values too.
        results: File that the bundle's check wrote on a device to which EdgeKit does not connect.
        witness: Name of an installed witness that executes the bundle too.
        signers: Who may sign: OpenSSH's file of allowed signers; the bundle then needs a signature by one of them.
        progress: Receives the stages and warnings; by default nothing is shown.

    Raises:
        InputError: The arguments do not fit the bundle, or the device cannot be reached.
        RequirementError: A file is changed, the outputs are wrong, or the device cannot run the bundle.
    """
    reporting = progress or Progress()
    second = None if witness is None else find_witness(witness)
    where = open_device(device, device_timeout, reporting.step, optional_path(results, "--results"))
    opened, source = bundle_of(bundle), optional_path(model, "--model")
    tables: dict[Path, Table | SampleList] = {}
    given, project = data_of(data, "--data", tables), optional_path(config, "--config")
    table = None if given is None else tables.get(given)
    if signers is not None:
        check_signature(opened, path_of(signers, "--signers"))
    with reporting.stage("verify"), sample_folder(opened, given, table, label, reporting.warn) as folder:
        near = given if table is None else None
        declared = Declared() if given is None else declared_for(source, near, project)
        preprocessing = declared.preprocessing
        found = verify_bundle(
            opened, folder, source, reporting.step, preprocessing, where, layers=layers, witness=second
        )
    for remark in found.remarks:
        reporting.warn(remark)
    return found


@held_to_signature
def bench(
    bundle: StrPath | Bundle,
    *,
    against: StrPath | Bundle | None = None,
    model: StrPath | None = None,
    device: str = LOCAL,
    device_timeout: float | None = None,
    isa: str | Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[Candidate]:
    """Measures a bundle's latency, load time and memory, in turns with others: ``edgekit bench``.

    Args:
        bundle: The bundle.
        against: A second bundle.
        model: The ONNX file that the bundle was made from, executed on this machine.
        device: URL of the device that executes the bundles; this machine by default.
        device_timeout: Seconds without an answer after which the device counts as gone; by default its own limit.
        isa: Instruction sets of this processor with which the bundles are measured as well, such as
            ``"avx2,avx512"``. Sets that the processor does not execute itself are left out, with a warning.
        progress: Receives the stages and warnings; by default nothing is shown.

    Returns:
        The bundle first, then the others. A candidate that is not :attr:`Candidate.of_device` was executed by a
        stand-in, whose times say nothing about the device.

    Raises:
        InputError: The arguments do not fit the bundle, the device cannot be reached, or this processor executes it
            with none of the instruction sets.
        RequirementError: A bundle's files are changed, or the device cannot run it.
    """
    sets = instruction_set_names(isa) or ()
    if sets and device != LOCAL:
        raise InputError("is for this machine", subject="--isa", expected="no --device", found=device)
    reporting = progress or Progress()
    where = open_device(device, device_timeout, reporting.step)
    opened, other = bundle_of(bundle), None if against is None else bundle_of(against)
    with reporting.stage("bench"):
        return bench_bundle(opened, other, optional_path(model, "--model"), reporting.step, where, reporting.warn, sets)


@held_to_signature
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
    """Measures how many samples a bundle processes per second: ``edgekit bench --streams N --batch N``.

    Args:
        bundle: The bundle.
        against: A second bundle, measured in turns.
        streams: How many inferences run at the same time, on all processors; ``auto`` for the runtime's own choice.
        batch: Samples in each inference.
        device: URL of the device that executes the bundles; this machine by default.
        device_timeout: Seconds without an answer after which the device counts as gone; by default its own limit.
        progress: Receives the stages and warnings; by default nothing is shown.

    Returns:
        The bundle first, then ``against``.

    Raises:
        InputError: The arguments do not fit the bundle, the device cannot be reached, or it cannot run several
            inferences at the same time.
        RequirementError: A bundle's files are changed, or the device cannot run it.
    """
    if streams != "auto" and not (str(streams).isdecimal() and 1 <= int(streams) <= MOST_STREAMS):
        raise InputError(
            "is not a number of streams", subject=f"--streams {streams}", expected=f"1 to {MOST_STREAMS}, or auto"
        )
    if batch < 1:
        raise InputError("is not a number of samples", subject=f"--batch {batch}", expected="1 or more")
    count = None if streams == "auto" else int(streams)
    reporting = progress or Progress()
    where = open_device(device, device_timeout, reporting.step)
    opened, other = bundle_of(bundle), None if against is None else bundle_of(against)
    with reporting.stage("bench"):
        return bench_throughput(opened, other, count, batch, reporting.step, where)


@held_to_signature
def gate(
    *bundles: StrPath | Bundle,
    config: StrPath | None = None,
    output_dir: StrPath | None = None,
    baseline: StrPath | None = None,
    against: StrPath | Bundle | None = None,
    update: bool = False,
    model: StrPath | None = None,
    time_limit: float | None = None,
    device: str | None = None,
    device_timeout: float | None = None,
    results: StrPath | None = None,
    isa: str | Sequence[str] | None = None,
    data: StrPath | None = None,
    signers: StrPath | None = None,
    progress: Progress | None = None,
) -> GateResult:
    """Judges bundles by the budgets of the project file: ``edgekit gate``.

    Args:
        bundles: The bundles, or names of bundles that the project declares; by default all that it declares.
        config: The project file; by default the nearest ``edgekit.toml`` here or in a folder above.
        output_dir: Folder of the declared bundles, each under its name; by default where the project file puts them.
        baseline: File with the figures of an earlier build; by default the one that the project file names.
        against: An earlier bundle, or a folder that holds an earlier bundle for each, under its name.
        update: Write the figures to the baseline instead of comparing with it.
        model: The ONNX file that the only bundle was made from.
        time_limit: Seconds that one measurement may take; by default as the project file says, or 60.
        device: URL of the device that measures time and memory; by default as the project file says, or this machine.
        device_timeout: Seconds without an answer after which the device counts as gone; by default its own limit.
        results: File that the only bundle's check wrote on a device to which EdgeKit does not connect.
        isa: Instruction sets with which the bundles have to compute their golden outputs, such as ``"avx2,vnni"``.
        data: Folder of samples on which the bundles are executed and compared with the outputs recorded in the
            samples, the original model, or the samples' labels.
        signers: Who may sign: OpenSSH's file of allowed signers; every bundle then needs a signature by one of them.
        progress: Receives the bundles and warnings; by default nothing is shown.

    Returns:
        The verdicts; :attr:`GateResult.passed` says whether all bundles keep their budgets.

    Raises:
        InputError: There is no bundle to judge, or nothing to judge it by; or arguments contradict each other.
    """
    order = GateOrder(
        tuple(map(bundle_path, bundles)),
        optional_path(config, "--config") or find_config(Path.cwd()),
        optional_path(baseline, "--baseline"),
        None if against is None else bundle_path(against),
        update,
        optional_path(model, "--model"),
        time_limit,
        device,
        device_timeout,
        optional_path(results, "--results"),
        optional_path(signers, "--signers"),
        instruction_set_names(isa),
        optional_path(data, "--data"),
        optional_path(output_dir, "--output-dir"),
    )
    return judge_bundles(order, progress or Progress())


@held_to_signature
def report(bundle: StrPath | Bundle, output: StrPath, *, against: StrPath | Bundle | None = None) -> Path:
    """Writes what a bundle holds as one HTML file: ``edgekit report``.

    Args:
        bundle: The bundle.
        output: The HTML file to write.
        against: A second bundle, shown beside it.

    Returns:
        The file.

    Raises:
        InputError: There is no bundle, the file cannot be written, or a file of another kind is in its place.
        RequirementError: A bundle's files are changed.
    """
    from edgekit.files.replacing import require_kind
    from edgekit.reporting.html import html_report

    place = path_of(output, "--output")
    require_kind(place, "an HTML file", lambda head: head.lstrip()[:1] == b"<")
    bundles = [bundle_of(one) for one in (bundle, against) if one is not None]
    for opened in bundles:
        check_integrity(opened, canonical_of(opened.profile_name))
    text = html_report(*bundles)
    with atomic_file(place) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
    return place


@held_to_signature
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
    return sign_bundle(bundle_of(bundle), path_of(key, "--key"))


@held_to_signature
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

"""Verifies a bundle that was packaged earlier: its files, its golden data, and its accuracy on further data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.bundle import Bundle, check_integrity
from edgekit.bundle_checks.original import original_of
from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.decided_alone import decided_alone
from edgekit.comparison.acceptance.fed_back import FedBackAccuracy, compare_fed_back
from edgekit.comparison.acceptance.recorded import Recording, check_export
from edgekit.comparison.acceptance.refusal import blame_target, require_accuracy, require_sequel
from edgekit.comparison.acceptance.remarks import lost_rows, remarks_on, unproven
from edgekit.comparison.acceptance.self_agreement import with_self_agreement
from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.label_accuracy import LabelCount, class_output
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.metrics import Comparison, OutputAccuracy
from edgekit.comparison.numbers.quantized_outputs import quantized_outputs
from edgekit.comparison.padding import padding_on
from edgekit.comparison.side_by_side import compare, meaning_on, ranked_on
from edgekit.data.sampled_shapes import sampled_shapes
from edgekit.data.samples import Samples, open_samples, sample_files
from edgekit.data.samples_of_one_size import of_other_shapes
from edgekit.device import Device, Session
from edgekit.devices.local import LocalDevice
from edgekit.diagnosis.divergence import DivergedError, Divergence, compare_layers, shipped_graph
from edgekit.diagnosis.witness_report import WitnessReport, compare_witness, refuted
from edgekit.errors import InputError, RequirementError
from edgekit.execution.known_answers import KnownAnswers
from edgekit.execution.recurrence import restart
from edgekit.features.dimensions import defaults
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.model import Model, ValueSpec
from edgekit.preprocessing import Preprocessing, parse_preprocessing, resolve_preprocessing
from edgekit.progress import Step
from edgekit.registry import canonical_of
from edgekit.reporting.summary import stage_record
from edgekit.stages.fix_shapes import FixShapes
from edgekit.target import Runner
from edgekit.witness import Witness, require_executed


@dataclass(frozen=True)
class LabelsFound:
    """Accuracy on labeled data without the original, whose accuracy is known only from the manifest."""

    built: float
    samples: int
    packaged_reference: float | None
    """The original's accuracy on the data that the bundle was packaged with."""


@dataclass(frozen=True)
class Verification:
    """Result for a bundle whose files are unchanged and which computes its golden outputs."""

    executed_by: str
    golden: tuple[OutputAccuracy, ...]
    accuracy: Accuracy | None
    """Accuracy on the further data against the original or recorded outputs; None without these or without data."""
    labels: LabelsFound | None
    """Accuracy on the labels of the further data, without the original; None if it was not measured."""
    divergence: Divergence | None = None
    """Comparison of the values inside the model on the device; None if it was not requested."""
    witness_report: WitnessReport | None = None
    """What a second runtime computes; None if it was not requested."""
    fed_back: FedBackAccuracy | None = None
    """How near the bundle stays to the original if both feed back their own states, on further data that are a
    sequence."""
    remarks: tuple[str, ...] = ()
    """What people should know in addition to the figures of the accuracy."""
    further: Mapping[str, Verification] = field(default_factory=dict)
    """The results of the builds for further devices, by profile."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        labels = self.labels
        return {
            "verified": True,
            "executed_by": self.executed_by,
            "golden": [output.as_record() for output in self.golden],
            "accuracy": None if self.accuracy is None else self.accuracy.as_record(),
            "labels": None if labels is None else dict(vars(labels)),
            "layers": None if self.divergence is None else self.divergence.as_record(),
            "witness": None if self.witness_report is None else self.witness_report.as_record(),
            "fed_back": None if self.fed_back is None else self.fed_back.as_record(),
            "warnings": [*self.remarks],
            "also": {profile: found.as_record() for profile, found in self.further.items()},
        }


def verify_bundle(
    bundle: Bundle,
    data: Path | None = None,
    model: Path | None = None,
    step: Step | None = None,
    declared: Preprocessing | None = None,
    device: Device | None = None,
    *,
    layers: bool = False,
    witness: Witness | None = None,
) -> Verification:
    """Hashes every file, runs the golden data, and measures the accuracy on ``data`` if it is given.

    Args:
        bundle: The bundle.
        data: A folder of samples, with labels or recorded outputs if ``model`` is not given.
        model: The original, to compare with.
        step: Called after each sample.
        declared: How pictures or sounds become the input, for a bundle that does not state it.
        device: The device that executes the bundle; None for this machine.
        layers: Also compare intermediate values on the first golden sample: with the original if ``model`` is given,
            else with the graph that the bundle ships.
        witness: A second runtime that executes the golden samples, too, and has to reach the same floors.

    Raises:
        RequirementError: A file is changed, the bundle is not accurate enough, or the device cannot run it; with
            ``layers`` and wrong outputs, a :class:`edgekit.diagnosis.divergence.DivergedError`.
        InputError: The data or the model do not fit the bundle, or the device cannot be reached.
    """
    if data is None and model is not None and not layers:
        raise InputError(
            "the original is used with --data or --layers only", subject="--model", hint="give --data DIR too"
        )
    where = device or LocalDevice()
    builds = where.builds(bundle)
    if witness is not None:
        require_executed(witness, {build.profile_name: build.target_name for build in builds})
    check_integrity(bundle, canonical_of(bundle.profile_name))
    heard = frozenset[str]() if witness is None else witness.targets
    first, *others = [
        _verify_build(
            build, where, data, model, step, declared, layers, witness if build.target_name in heard else None
        )
        for build in builds
    ]
    names = [build.profile_name for build in builds[1:]]
    return replace(first, further=dict(zip(names, others, strict=True)))


def _verify_build(
    bundle: Bundle,
    where: Device,
    data: Path | None,
    model: Path | None,
    step: Step | None,
    declared: Preprocessing | None,
    layers: bool,
    witness: Witness | None,
) -> Verification:
    with where.open(bundle) as session:
        if not layers:
            found = _verify_executed(bundle, session, data, model, step, declared)
            return (
                found if witness is None else replace(found, witness_report=_witness_report(bundle, session, witness))
            )
        divergence = _divergence(bundle, where, session, model)
        try:
            found = _verify_executed(bundle, session, data, model, step, declared)
        except RequirementError as error:
            raise DivergedError(error, divergence) from error
        witness_report = None if witness is None else _witness_report(bundle, session, witness)
        return replace(found, divergence=divergence, witness_report=witness_report)


def _witness_report(bundle: Bundle, runner: Runner, witness: Witness) -> WitnessReport:
    floors: list[Mapping[str, Any]] = bundle.manifest["golden"]["outputs"]
    names = [floor["name"] for floor in floors]
    samples = [(feeds, {name: outputs[name] for name in names}) for feeds, outputs in bundle.golden()]
    precision = bundle.manifest["model"]["precision"]
    found = compare_witness(bundle.main, runner, witness, samples, precision=precision, is_sequence=bool(bundle.states))
    flaws = [
        flaw for floor, result in zip(floors, found.original, strict=True) if (flaw := _golden_flaw(floor, result))
    ]
    if flaws:
        raise refuted(found, bundle.path, flaws)
    return found


def _divergence(bundle: Bundle, device: Device, session: Session, model: Path | None) -> Divergence:
    if bundle.states:
        raise InputError(
            "layers of a model with states cannot be compared: the bundle takes no states from outside",
            subject=bundle.path,
            hint="package it without --state to look for the layer",
        )
    reference = shipped_graph(bundle) if model is None else original_of(bundle, model)
    feeds, _ = next(iter(bundle.golden()))
    return compare_layers(session, bundle, reference, feeds, device)


def _verify_executed(
    bundle: Bundle,
    runner: Runner,
    data: Path | None,
    model: Path | None,
    step: Step | None,
    declared: Preprocessing | None,
) -> Verification:
    golden = _golden(bundle, runner)
    if data is None:
        return Verification(runner.executed_by, golden, None, None)
    inputs = tuple(feature.spec for feature in bundle.inputs)
    leaves_out = stage_record(bundle.manifest, FixShapes.name).get("samples_left_out", 0) > 0
    samples = open_samples(
        data,
        inputs,
        _preprocessing(bundle) or _resolved(declared, at_sizes(inputs, defaults(bundle.open_dims)), data),
        tuple(bundle.manifest["labels"] or ()),
        bundle.open_dims,
        bundle.unused_inputs,
        bundle.nan_inputs,
        of_other_shapes(inputs, sampled_shapes(data).for_inputs(inputs), bundle.open_dims) if leaves_out else (),
    )
    if model is not None:
        original = original_of(bundle, model)
        accuracy, sequel = _against_original(bundle, runner, samples, original, step)
        remarks = _remarks(bundle, original, samples, accuracy)
        return Verification(runner.executed_by, golden, accuracy, None, fed_back=sequel, remarks=remarks)
    recording = Recording(samples, tuple(each.spec for each in bundle.outputs))
    if recording.names():
        accuracy = _against_recorded(bundle, runner, recording, step)
        return Verification(runner.executed_by, golden, accuracy, None, remarks=tuple(remarks_on(accuracy)))
    if not samples.has_labels:
        raise InputError(
            "the samples have no labels and no recorded outputs, and the bundle holds no original",
            subject=data,
            hint="give the original with --model MODEL, or samples with labels or recorded outputs",
        )
    return Verification(runner.executed_by, golden, None, _labels_found(bundle, runner, samples, step))


def _resolved(declared: Preprocessing | None, inputs: tuple[ValueSpec, ...], data: Path) -> Preprocessing | None:
    """The declared preprocessing, completed by defaults; None if the samples are arrays, which need none."""
    if any(file.suffix.casefold() == ".npz" for file in sample_files(data)):
        return None
    return resolve_preprocessing(declared, inputs)


def _golden(bundle: Bundle, runner: Runner) -> tuple[OutputAccuracy, ...]:
    floors: list[Mapping[str, Any]] = bundle.manifest["golden"]["outputs"]
    numbers = [floor["name"] for floor in floors if floor["floor_db"] is not None]
    comparison = Comparison(tuple(floor["name"] for floor in floors), quantized=numbers)
    restart(runner)
    for feeds, outputs in bundle.golden():
        comparison.add(outputs, runner.run(feeds))
    results = comparison.results()
    flaws = [
        flaw for floor, result in zip(floors, results, strict=True) if (flaw := _golden_flaw(floor, result)) is not None
    ]
    if flaws:
        raise RequirementError(
            f"the bundle does not compute its golden outputs, executed by {runner.executed_by}",
            subject=bundle.path,
            expected=_held_against(floors),
            found="; ".join(flaws),
            hint="the runtime differs from the one that packaged it: package the model again",
        )
    return results


def _held_against(floors: Sequence[Mapping[str, Any]]) -> str:
    """A description of the golden outputs: the original's, the built model's, or some of each."""
    built = [repr(floor["name"]) for floor in floors if floor.get("folder", "outputs") != "outputs"]
    if not built:
        return "the original model's outputs"
    of_it = "the outputs of the model that was built, as it computed them when it was packaged"
    return of_it if len(built) == len(floors) else f"the original model's outputs, and of {', '.join(built)} {of_it}"


def _golden_flaw(floor: Mapping[str, Any], result: OutputAccuracy) -> str | None:
    if floor["floor_db"] is None:
        enough = result.mismatch <= (floor["max_mismatch"] or 0.0)
        return None if enough else f"output {result.name!r}: {loss_text(result.mismatch)} of the elements differ"
    measured = result.picture_db if result.sqnr_db is None else result.sqnr_db
    reached = float("nan") if measured is None else measured
    if reached >= floor["floor_db"]:
        return None
    return f"output {result.name!r}: SQNR {reached:.1f} dB (at least {floor['floor_db']:.1f} dB)"


def _against_original(
    bundle: Bundle, runner: Runner, samples: Samples, original: Model, step: Step | None
) -> tuple[Accuracy, FedBackAccuracy | None]:
    reference, kind = KnownAnswers().reference_of(original), Kind(bundle.manifest["model"]["kind"])
    export = check_export(original, reference, samples)
    names = tuple(spec.name for spec in original.returned_outputs)
    meaning = meaning_on(samples, reference, original)
    ranked = ranked_on(samples, reference, original, kind)
    padding = padding_on(samples, reference, original)
    decided, quantized, choice = decisions_of(original), quantized_outputs(original), bundle.class_choice
    outputs, task = compare(
        samples, reference, runner, names, step, meaning, ranked, decided, quantized, choice, padding
    )
    accuracy = Accuracy(
        executed_by=runner.executed_by,
        reference=reference.executed_by,
        seeded=False,
        samples=len(samples),
        floors=Floors.of(
            kind,
            labelled=task is not None and not task.is_chance(len(samples)),
            max_drop=bundle.manifest["options"]["max_drop"],
            floor_db=bundle.manifest["options"].get("floor_db"),
        ),
        outputs=outputs,
        task=task,
        meaning=None if meaning is None else meaning.result(),
        ranked=None if ranked is None else ranked.result(),
        padding=padding,
    )
    accuracy = with_self_agreement(accuracy, original, samples, ranked, step)
    sequel = compare_fed_back(samples, reference, runner, original, decided, accuracy.floors, step)
    try:
        require_accuracy(accuracy, kind, bundle.manifest["model"]["precision"], bundle.path)
        require_sequel(sequel, accuracy, kind, bundle.manifest["model"]["precision"], bundle.path)
    except RequirementError as error:
        blame_target(error, export)
        raise
    return accuracy, sequel


def _against_recorded(bundle: Bundle, runner: Runner, recording: Recording, step: Step | None) -> Accuracy:
    """The accuracy against outputs that the framework computed and the samples hold, without the original."""
    kind = Kind(bundle.manifest["model"]["kind"])
    outputs, task = compare(recording, recording, runner, recording.names(), step, choice=bundle.class_choice)
    floors = Floors.of(
        kind,
        labelled=task is not None and not task.is_chance(len(recording)),
        max_drop=bundle.manifest["options"]["max_drop"],
        floor_db=bundle.manifest["options"].get("floor_db"),
    )
    accuracy = Accuracy(
        executed_by=runner.executed_by,
        reference=recording.executed_by,
        seeded=False,
        samples=len(recording),
        floors=floors,
        outputs=outputs,
        task=task,
    )
    require_accuracy(accuracy, kind, bundle.manifest["model"]["precision"], bundle.path)
    return accuracy


def _remarks(bundle: Bundle, original: Model, samples: Samples, accuracy: Accuracy) -> tuple[str, ...]:
    return (
        *remarks_on(accuracy),
        *decided_alone(accuracy, decisions_of(original)),
        *(lost_rows(accuracy) if bundle.manifest["model"]["kind"] == Kind.FLOAT32 else []),
        *unproven(accuracy, original, samples),
    )


def _labels_found(bundle: Bundle, runner: Runner, samples: Samples, step: Step | None) -> LabelsFound:
    task = bundle.manifest["accuracy"]["task"]
    first = runner.run(next(iter(samples)).feeds)
    restart(runner)
    output = _class_output(bundle, first)
    count = LabelCount(output, bundle.class_numbers.get(output, ()))
    for done, sample in enumerate(samples, 1):
        if sample.label is not None:
            count.add(sample.label, runner.run(sample.feeds), sample.where)
        if step is not None:
            step("sample", done, len(samples))
    return LabelsFound(count.accuracy, len(samples), None if task is None else task["reference"])


def _class_output(bundle: Bundle, outputs: Mapping[str, np.ndarray]) -> str:
    name = class_output({feature.name: outputs[feature.name] for feature in bundle.outputs}, bundle.class_choice)
    if name is None:
        raise InputError(
            "the samples have labels, but no output of the model tells a class",
            subject=bundle.path,
            hint="give the original with --model MODEL to compare all outputs",
        )
    return name


def _preprocessing(bundle: Bundle) -> Preprocessing | None:
    declared = bundle.manifest["preprocessing"]
    return None if declared is None else parse_preprocessing(declared, bundle.path)

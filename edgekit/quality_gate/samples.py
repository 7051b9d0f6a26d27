"""Judges a bundle on samples: by the outputs recorded in them, by the original model, or by their labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgekit.bundle import Bundle
from edgekit.bundle_checks.tables import sample_folder
from edgekit.bundle_checks.verification import LabelsFound, verify_bundle
from edgekit.data.tables import is_table_file
from edgekit.device import Device
from edgekit.errors import InputError, RequirementError
from edgekit.preprocessing import Preprocessing
from edgekit.progress import Step
from edgekit.quality_gate.judging import ACCURACY_FALL
from edgekit.quality_gate.latency import EarlierBuild
from edgekit.quality_gate.verdict import Figure, Outcome, Verdict, verdict_on
from edgekit.reporting.accuracy_texts import worst_head_text, worst_output_text
from edgekit.reporting.summary import fed_back_text
from edgekit.units import share_limit_text, share_text

_BUDGET = "outputs on samples"


def judge_on_samples(
    bundle: Bundle,
    data: Path,
    model: Path | None,
    least_accuracy: float | None,
    device: Device | None = None,
    step: Step | None = None,
    label: str | None = None,
    declared: Preprocessing | None = None,
) -> Verdict:
    """The verdict on what the bundle computes on samples.

    With ``model``, the outputs recorded in the samples are first compared with the original's, so that a broken verdict
    says whether the export or the target is to blame. Without it, the bundle is compared with the recorded outputs. If
    samples have only labels, the share of labels that the bundle finds is judged.

    Args:
        bundle: The bundle.
        data: The folder of samples, or the table.
        model: The original model's file; None if it is missing.
        least_accuracy: The share of labels that has to be found, between 0 and 1.
        device: The device that executes the bundle; None for this machine.
        step: Called with the number of samples that are done.
        label: The column that holds the class, if the samples are the rows of a table.
        declared: How pictures or sounds become the input of a bundle that does not state it.

    Raises:
        InputError: The samples do not fit the bundle, nothing says what is right, or the device cannot be reached.
    """
    try:
        with sample_folder(bundle, data, None, label if is_table_file(data) else None, lambda _: None) as folder:
            found = verify_bundle(bundle, folder, model, step, declared, device)
    except RequirementError as error:
        reason = error.message if error.found is None else f"{error.message}: {error.found}"
        text = reason if error.hint is None else f"{reason} ({error.hint})"
        return verdict_on(_BUDGET, error.expected or "as accurate as it was", text, kept=False)
    there = "" if device is None else f", executed by {found.executed_by}"
    labels = {name: each.labels for name, each in {"": found, **found.further}.items() if each.labels is not None}
    if labels:
        worst = min(labels, key=lambda name: labels[name].built)
        there = there if device is None or not worst else f", executed by {found.further[worst].executed_by}"
        return _on_labels(labels[worst], data, least_accuracy, f" for {worst}{there}" if worst else there)
    assert found.accuracy is not None
    record = found.accuracy.as_record()
    worst_texts = "; ".join(filter(None, [worst_output_text(record), worst_head_text(record)]))
    loop = "" if found.fed_back is None else f"; fed back {fed_back_text(found.fed_back.as_record())}"
    text = f"{worst_texts}, of {found.accuracy.samples} samples{there}{loop}"
    return verdict_on(_BUDGET, found.accuracy.reference, text, kept=True)


def _on_labels(labels: LabelsFound, data: Path, least: float | None, where: str) -> Verdict:
    if least is None:
        raise InputError(
            "the samples have labels only, and there is no budget for them",
            subject=data,
            hint="set `accuracy` in the table [budget], give --model MODEL, or samples with recorded outputs",
        )
    kept = labels.built >= least
    found = f"{share_text(labels.built, least, kept=kept)} of {labels.samples} samples{where}"
    figure = Figure("accuracy", "share", least, labels.built)
    return verdict_on("accuracy on samples", f"at least {share_limit_text(least, 2)}", found, kept, figure)


def on_the_same_samples(verdict: Verdict, bundle: Bundle, earlier: EarlierBuild) -> Verdict:
    """The verdict, made inconclusive if it passes on accuracy and the earlier build was measured on other samples."""
    if verdict.budget != ACCURACY_FALL or verdict.outcome is not Outcome.KEPT or isinstance(earlier.bundle, str):
        return verdict
    digests = [_measured_on(each) for each in (bundle, earlier.bundle)]
    if None in digests or digests[0] == digests[1]:
        return verdict
    accepting = f"; {earlier.accepting}" if earlier.accepting else ""
    text = f"{verdict.found}, on other samples than {earlier.whose}: the two cannot be compared{accepting}"
    return replace(verdict, found=text, outcome=Outcome.INCONCLUSIVE)


def _measured_on(bundle: Bundle) -> str | None:
    """SHA-256 of the samples that the bundle's accuracy was measured on; None if the manifest does not hold it."""
    recorded = bundle.manifest.get("samples") or {}
    digest: str | None = recorded.get("verify_data", recorded.get("data"))
    return digest

"""Judges whether a bundle computes its golden outputs on a device that the user or the project names."""

from __future__ import annotations

from edgekit.bundle import Bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.device import Device
from edgekit.errors import RequirementError
from edgekit.progress import Step
from edgekit.quality_gate.verdict import Verdict, verdict_on

_LIMIT = "its golden outputs"


def judge_device_outputs(bundle: Bundle, device: Device, called: str, step: Step | None = None) -> Verdict:
    """The verdict on the golden samples, executed on the device; broken if the device cannot run the bundle.

    Args:
        bundle: The bundle.
        device: The device that executes it.
        called: How the verdict names the device: its URL.
        step: Called as samples are executed.

    Raises:
        InputError: The device cannot be reached.
    """
    budget = f"outputs on {called}"
    try:
        found = verify_bundle(bundle, step=step, device=device)
    except RequirementError as error:
        text = error.message if error.found is None else f"{error.message}: {error.found}"
        return verdict_on(budget, _LIMIT, text, kept=False)
    return verdict_on(budget, _LIMIT, f"computed by {found.executed_by}", kept=True)

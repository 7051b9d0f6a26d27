"""Verdicts that all ways to judge a node for a device with a fallback share."""

from __future__ import annotations

from dataclasses import replace

from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_onnxruntime.devices import Device

CONSTANT = "Constant"
"""The operator whose nodes become initializers and are not executed."""


def supported(on_cpu: NodeVerdict, device: Device, evidence: Evidence, detail: str = "") -> NodeVerdict:
    """The verdict on a node that the device's provider executes."""
    return NodeVerdict(
        node=on_cpu.node,
        op_type=on_cpu.op_type,
        support=Support.SUPPORTED,
        evidence=evidence,
        unit=device.unit,
        detail=detail,
    )


def unknown(on_cpu: NodeVerdict, reason: str, hint: str = "") -> NodeVerdict:
    """The verdict on a node whose support is not known."""
    return NodeVerdict(
        node=on_cpu.node,
        op_type=on_cpu.op_type,
        support=Support.UNKNOWN,
        evidence=Evidence.UNKNOWN,
        detail=reason,
        hint=hint,
    )


def fallen_back(on_cpu: NodeVerdict, device: Device, evidence: Evidence, detail: str, hint: str) -> NodeVerdict:
    """The verdict on a node that the device's provider leaves: it falls back if the CPU provider supports it."""
    if on_cpu.support in (Support.UNSUPPORTED, Support.UNKNOWN):
        return replace(on_cpu, detail=f"{detail}; {on_cpu.detail}", hint=on_cpu.hint or hint)
    return replace(
        on_cpu, support=Support.FALLS_BACK, evidence=evidence, unit=device.fallback, detail=detail, hint=hint
    )

"""``Min`` and ``Max`` of operands that must have equal shapes, which OpenVINO's CPU plugin does not keep equal.

The frontend converts ``Min`` and ``Max`` of operator set 7 and before to operations that do not broadcast. The plugin
(OpenVINO 2026.4) makes a constant of one element a tensor of one axis, and then finds the shapes inconsistent.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.networks import operations_of

KINDS = ("Maximum", "Minimum")


def let_extremes_broadcast(network: Any) -> None:
    """Makes Maximum and Minimum broadcast, in place: for equal shapes the results are the same."""
    for kind in KINDS:
        for extreme in operations_of(network, kind):
            if extreme.get_attributes()["auto_broadcast"] == "none":
                extreme.set_attribute("auto_broadcast", "numpy")

"""Pools of open sizes that are rounded up, to which OpenVINO 2026.4 gives one window more than ONNX.

Its frontend makes a ``MaxPool`` of them that counts a window which begins in the padding at the end; from operator set
14 on OpenVINO has a rounding that leaves this window out, as ONNX does. Pools of known sizes are rewritten before.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.replacing import hand_over

KIND = "MaxPool"


def leave_windows_out(pool: Any) -> bool:
    """Has a pool leave out windows that begin in the padding behind, in place; values keep their names.

    Returns:
        Whether it was changed: only where some size can give such a window.
    """
    from openvino import opset14

    settings = pool.get_attributes()
    if (
        settings["rounding_type"] != "ceil"
        or settings["auto_pad"] not in ("explicit", "valid")
        or not _may_begin_behind(pool, settings)
    ):
        return False
    better = opset14.max_pool(
        pool.input_value(0),
        settings["strides"],
        settings["dilations"],
        settings["pads_begin"],
        settings["pads_end"],
        settings["kernel"],
        rounding_type="ceil_torch",
        index_element_type=settings["index_element_type"],
        axis=settings["axis"],
    )
    for old, new in zip(pool.outputs(), better.outputs(), strict=True):
        hand_over(old, new)
    better.set_friendly_name(pool.get_friendly_name())
    return True


def _may_begin_behind(pool: Any, settings: dict[str, Any]) -> bool:
    shape = pool.get_input_partial_shape(0)
    steps = zip(settings["kernel"], settings["dilations"], settings["strides"], settings["pads_end"], strict=True)
    return any(
        behind + stride > (kernel - 1) * dilation + 1 and (shape.rank.is_dynamic or shape[2 + axis].is_dynamic)
        for axis, (kernel, dilation, stride, behind) in enumerate(steps)
    )

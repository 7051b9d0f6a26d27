"""``IsInf``, which OpenVINO's CPU plugin (2026.4) computes as false for infinite quotients and exponentials.

Where sizes are open, the plugin computes ``IsInf`` in one kernel with the arithmetic before it, and this kernel finds
no infinite numbers. A comparison with the greatest finite number finds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of

KIND = "IsInf"


def compare_with_the_greatest(question: Any) -> bool:
    """Replaces an ``IsInf`` by comparisons with the greatest finite number; the name stays.

    Returns:
        Whether it was replaced: half precision is left as it is.
    """
    from openvino import opset13

    if question.get_input_element_type(0).get_type_name() != "f32":
        return False
    x, settings = question.input_value(0), question.get_attributes()
    greatest = np.finfo(np.float32).max
    above, below = settings["detect_positive"], settings["detect_negative"]
    if above and below:
        answer = opset13.less(opset13.constant(greatest), opset13.abs(x))
    elif above:
        answer = opset13.less(opset13.constant(greatest), x)
    elif below:
        answer = opset13.less(x, opset13.constant(-greatest))
    else:
        return False
    put_in_place_of(question, answer)
    return True

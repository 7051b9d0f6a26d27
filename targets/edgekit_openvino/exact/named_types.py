"""Conversions to the type of another tensor (``CastLike``), as conversions to that type.

They are then corrected like all other conversions: those to boolean, to 16 bits and of unsigned integers.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.replacing import put_in_place_of
from edgekit_openvino.networks import operations_of

KIND = "ConvertLike"


def name_types(network: Any) -> None:
    """Puts a ``Convert`` in the place of each ``ConvertLike`` whose type is known; names stay.

    Args:
        network: The ``openvino.Model``.
    """
    from openvino import opset13

    for conversion in operations_of(network, KIND):
        kind = conversion.get_output_element_type(0)
        if not kind.is_dynamic():
            put_in_place_of(conversion, opset13.convert(conversion.input_value(0), kind))

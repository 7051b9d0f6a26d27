"""Products of 8-bit integers in the reference: as ONNX defines them, on processors that add them in 16 bits too.

ONNX Runtime's kernels for unsigned activations and signed weights saturate on x86 processors without VNNI. What a
model's operators mean does not depend on a processor.
"""

from __future__ import annotations

from edgekit.graph.unsigned_weights import with_unsigned_weights
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from edgekit.model import Model


def with_exact_products(model: Model) -> Model:
    """The model in a form whose integer products this processor computes exactly; itself where it does anyway.

    Args:
        model: It is not changed.
    """
    return with_unsigned_weights(model) if own_set() in WITHOUT_VNNI else model

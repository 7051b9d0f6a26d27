"""The output of a classifier: Core AI has neither texts nor dictionaries, so translated programs do not return them."""

from __future__ import annotations

from typing import Any

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("classify")
def classify(b: Builder, call: Call, probabilities: Tensor, classes: Any) -> tuple[None, None]:
    """Returns None for the label and for the dictionary of probabilities; the probabilities are also a tensor."""
    return None, None

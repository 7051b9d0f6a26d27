"""The class as a text: Core AI has neither texts nor dictionaries, and a translated program does not put them out."""

from __future__ import annotations

from typing import Any

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("classify")
def classify(b: Builder, call: Call, probabilities: Tensor, classes: Any) -> tuple[None, None]:
    """Nothing in place of the label and of the probabilities by class; the probabilities themselves are a tensor."""
    return None, None

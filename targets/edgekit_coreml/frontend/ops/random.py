"""Operators that draw at random: refused, since ONNX leaves their numbers to every implementation."""

from __future__ import annotations

from typing import NoReturn

from edgekit_coreml.frontend.context import Context
from edgekit_coreml.frontend.registry import lowering
from edgekit_coreml.frontend.values import Unsupported, Value

REFUSED = "refused: its numbers differ between implementations"


@lowering("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", versions=[1, 22], note=REFUSED)
@lowering("Multinomial", versions=[7, 22], note=REFUSED)
@lowering("Bernoulli", versions=[15, 22], note=REFUSED)
def drawn(
    ctx: Context,
    *inputs: Value,
    **attributes: object,
) -> NoReturn:
    """No program can be shown to compute what the model does."""
    raise Unsupported(
        "draws at random, with numbers that differ between implementations even for one seed",
        "make the random numbers an input of the model",
    )

"""Operators that are refused: on texts and encoded pictures, which programs do not have, and random operators.

ONNX leaves the numbers of random operators to each implementation.
"""

from __future__ import annotations

from typing import NoReturn

from edgekit_mil.core.context import Context
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value

TEXTS = "refused: programs have no texts"
PICTURES = "refused: programs do not decode picture files"
RANDOM = "refused: its numbers differ between implementations"


@lowering("RegexFullMatch", "StringConcat", "StringSplit", versions=[20], note=TEXTS)
@lowering("StringNormalizer", versions=[10], note=TEXTS)
def of_texts(ctx: Context, *inputs: Value, **attributes: object) -> NoReturn:
    """Refuses texts: they are not tensors that a program could take."""
    raise Unsupported("programs have no texts", "split the model with `edgekit extract` and treat texts in the app")


@lowering("ImageDecoder", versions=[20], note=PICTURES)
def of_picture_files(ctx: Context, *inputs: Value, **attributes: object) -> NoReturn:
    """Refuses picture files: programs take decoded pictures."""
    raise Unsupported("programs do not decode picture files", "feed the decoded picture")


@lowering("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", versions=[1, 22], note=RANDOM)
@lowering("Multinomial", versions=[7, 22], note=RANDOM)
@lowering("Bernoulli", versions=[15, 22], note=RANDOM)
def of_chance(ctx: Context, *inputs: Value, **attributes: object) -> NoReturn:
    """Refuses random numbers: no program could be shown to compute what the model does."""
    raise Unsupported(
        "draws at random, with numbers that differ between implementations even for one seed",
        "make the random numbers an input of the model",
    )

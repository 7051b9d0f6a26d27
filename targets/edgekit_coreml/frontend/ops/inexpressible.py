"""Operators on what programs do not have: texts and encoded pictures."""

from __future__ import annotations

from typing import NoReturn

from edgekit_coreml.frontend.context import Context
from edgekit_coreml.frontend.registry import lowering
from edgekit_coreml.frontend.values import Unsupported, Value

TEXTS = "refused: programs have no texts"
PICTURES = "refused: programs do not decode picture files"


@lowering("RegexFullMatch", "StringConcat", "StringSplit", versions=[20], note=TEXTS)
@lowering("StringNormalizer", versions=[10], note=TEXTS)
def of_texts(ctx: Context, *inputs: Value, **attributes: object) -> NoReturn:
    """Texts are not tensors that a program could take."""
    raise Unsupported("programs have no texts", "split the model with `edgekit extract` and treat texts in the app")


@lowering("ImageDecoder", versions=[20], note=PICTURES)
def of_picture_files(ctx: Context, *inputs: Value, **attributes: object) -> NoReturn:
    """Pictures come decoded."""
    raise Unsupported("programs do not decode picture files", "feed the decoded picture")

"""The names and descriptions of Core AI's options for ``--option NAME=VALUE``."""

from __future__ import annotations

from edgekit_mlprogram.options import OPTIONS as OF_ML_PROGRAMS
from edgekit_mlprogram.options import TEXTS

OPTIONS = {
    "image": "yes: beside the entry main, which takes an array, the model has the entry picture: it takes a pixel "
    "buffer, made main's input as [preprocessing] says; by default where the preprocessing is known and the samples "
    "are pictures; no: main alone",
    **{name: OF_ML_PROGRAMS[name] for name in TEXTS},
}
"""Core AI has no text outputs, so no option concerns class names: they are always in the metadata."""

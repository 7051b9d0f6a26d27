"""The options of ``--option NAME=VALUE`` that Core AI has."""

from __future__ import annotations

from edgekit_mlprogram.options import OPTIONS as OF_ML_PROGRAMS

OPTIONS = {name: OF_ML_PROGRAMS[name] for name in ("author", "license", "description", "version")}
"""Core AI has no outputs that are texts: the names of the classes are in the metadata, whatever the options.

Its picture inputs cannot be executed off a Mac, so that they could not be verified: the input is an array."""

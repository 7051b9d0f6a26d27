"""The tables that every report shows, as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.features.dimensions import shape_text
from edgekit.reporting.summary import Manifest
from edgekit.units import bytes_text, decibel_text

Row = Sequence[str]

ACCURACY_HEAD = ("output", "SQNR", "worst sample", "largest error", "cosine", "same decision", "unequal")
FEATURE_HEAD = ("", "name", "type", "shape", "in the model", "type", "shape")
STAGE_HEAD = ("stage", "seconds")


def accuracy_rows(manifest: Manifest) -> Iterator[Row]:
    """One row per output."""
    for output in manifest["accuracy"]["outputs"]:
        yield (
            output["name"],
            _optional(output["sqnr_db"], decibel_text),
            _optional(output["worst_sample_db"], decibel_text),
            _optional(output["max_abs_error"], "{:.3g}".format),
            _optional(output["cosine"], "{:.6f}".format),
            _optional(output["agreement"], "{:.2%}".format),
            loss_text(output["mismatch"]),
        )


def execution_text(manifest: Manifest) -> str:
    """What executed the build, and what it was compared with."""
    accuracy = manifest["accuracy"]
    return f"Executed by {accuracy['executed_by']}, compared with {accuracy['reference']}."


def feature_rows(manifest: Manifest) -> Iterator[Row]:
    """One row per input, then one row per output."""
    for kind in ("input", "output"):
        for feature in manifest[f"{kind}s"]:
            yield (
                kind,
                feature["name"],
                feature["dtype"],
                shape_text(feature["shape"]),
                feature["native_name"],
                feature["native_dtype"],
                shape_text(feature["native_shape"]),
            )


def stage_rows(manifest: Manifest) -> Iterator[Row]:
    """One row per stage; a stage that failed, but whose failure was made up for, is marked."""
    for stage in manifest["stages"]:
        # A quantizer's record has a list of failed candidates here, which is no failure of the stage.
        failed = " (failed)" if isinstance(stage["record"].get("failed"), Mapping) else ""
        yield stage["name"] + failed, f"{stage['seconds']:.2f}"


def file_rows(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """One row per file: path, size, SHA-256."""
    for file in manifest["files"]:
        yield file["path"], bytes_text(file["bytes"]), file["sha256"]


def _optional(value: Any, render: Callable[[Any], str]) -> str:
    return "" if value is None else render(value)

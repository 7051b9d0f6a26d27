"""``report.md``: what a bundle holds, for whoever opens its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from edgekit.report.summary import Manifest, bytes_text, decibel_text, summary_rows, warnings


def markdown_report(manifest: Manifest) -> str:
    """The page's text."""
    parts = [
        f"# {manifest['name']} for {manifest['target']['profile']}",
        _table(("", ""), summary_rows(manifest)),
        *[f"> **Note:** {text}" for text in warnings(manifest)],
        "## Inputs and outputs",
        _table(
            ("", "name", "type", "shape", "in the model", "type", "shape"),
            (
                (
                    kind,
                    f["name"],
                    f["dtype"],
                    _shape(f["shape"]),
                    f["native_name"],
                    f["native_dtype"],
                    _shape(f["native_shape"]),
                )
                for kind, features in (("input", manifest["inputs"]), ("output", manifest["outputs"]))
                for f in features
            ),
        ),
        _preparation(manifest),
        "## Accuracy by output",
        _table(
            ("output", "SQNR", "worst sample", "largest error", "cosine", "same decision", "unequal"),
            (
                (
                    output["name"],
                    _optional(output["sqnr_db"], decibel_text),
                    _optional(output["worst_sample_db"], decibel_text),
                    _optional(output["max_abs_error"], "{:.3g}".format),
                    _optional(output["cosine"], "{:.6f}".format),
                    _optional(output["agreement"], "{:.2%}".format),
                    f"{output['mismatch']:.2%}",
                )
                for output in manifest["accuracy"]["outputs"]
            ),
        ),
        f"Executed by {manifest['accuracy']['executed_by']}, compared with {manifest['accuracy']['reference']}.",
        "## Check it on the device",
        f"Run this in the bundle's folder; it needs nothing of EdgeKit:\n\n    {manifest['check']['command']}",
        "## How it was made",
        _table(("stage", "seconds"), ((stage["name"], f"{stage['seconds']:.2f}") for stage in manifest["stages"])),
        "## Files",
        _table(("file", "size"), ((file["path"], bytes_text(file["bytes"])) for file in manifest["files"])),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _preparation(manifest: Manifest) -> str:
    declared = manifest["preprocessing"]
    if declared is None:
        return ""
    lines = "\n".join(f"- `{key}`: `{value}`" for key, value in declared.items())
    return f"## How the input is prepared\n\n{lines}"


def _shape(shape: Sequence[object]) -> str:
    return "×".join("?" if dim is None else str(dim) for dim in shape) or "scalar"


def _optional(value: Any, render: Callable[[Any], str]) -> str:
    return "" if value is None else render(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)

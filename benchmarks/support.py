"""Writes docs/operator-support.md: how well several devices support real models, by `edgekit check`.

    python benchmarks/support.py --models DIR [--list FILE] [--out FILE] [NAME …]

DIR holds the models as NAME.onnx; FILE is a JSON list of objects with `name`, `shapes` (input -> sizes) and, for the
page, `does`, `package` and `version`. The page's date and versions are those of the run.
"""

import argparse
import collections
import datetime
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgekit.errors import EdgeKitError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import Model
from edgekit.operators.support import OperatorSupport, is_about_operator, summarize
from edgekit.packaging.stage_runner import StageRunner
from edgekit.progress import Progress
from edgekit.registry import find_profile
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load
from edgekit.stages.simplify import Simplify
from edgekit.target import NodeVerdict, Support

ROOT = Path(__file__).parents[1]
TARGETS = ("ios18", "intel-cpu", "android-qnn", "web", "onnxruntime")
PACKAGES = ("coremltools", "openvino", "onnxruntime", "onnxruntime-qnn", "onnx")
COMMAND = "python benchmarks/support.py --models DIR --list FILE"


@dataclass(frozen=True)
class Row:
    """A target's verdicts on a model."""

    model: str
    target: str
    nodes: int
    support: OperatorSupport | None
    verdicts: list[NodeVerdict]
    refused: str = ""


def rows(entry: dict[str, Any], folder: Path) -> Iterator[Row]:
    """One row per target for a model, whose shapes are fixed and whose graph is simplified once for all targets."""
    name = entry["name"]
    model = prepared(folder / f"{name}.onnx", entry["shapes"])
    nodes = sum(1 for _ in model.graph.all_nodes())
    for target in TARGETS:
        plugin, profile = find_profile(target)
        try:
            verdicts = plugin.check(model, profile)
        except EdgeKitError as error:
            yield Row(name, target, nodes, None, [], str(error).replace("\n", "; "))
            continue
        yield Row(name, target, nodes, summarize(model, verdicts, profile), verdicts)


def prepared(file: Path, shapes: dict[str, list[int]]) -> Model:
    """The model as it would be built."""
    walk = StageRunner(Progress())
    request = ShapeRequest.parse([], [f"{name}={','.join(map(str, sizes))}" for name, sizes in shapes.items()])
    fixed = walk.run_stage(FixShapes(request), walk.run_stage(Load(), file).model).model
    return walk.run_stage(Simplify(), fixed).model


def cell(row: Row) -> str:
    """The text of a cell: fit, share of the nodes and of the MACs, partitions."""
    if row.support is None:
        return "refused"
    support = row.support
    if support.share is None:
        return str(support.fit)
    macs = "" if support.macs_share is None else f" ({support.macs_share:.0%})"
    parts = "" if support.partitions is None else f" in {support.partitions}"
    return f"{support.fit}: {support.share:.0%}{macs}{parts}"


def missing(row: Row) -> Iterator[tuple[str, ...]]:
    """Rows of the nodes that are neither supported nor decomposed; nodes with the same verdict share a row."""
    if row.support is None:
        yield row.model, "", "", "refused", row.refused
    groups: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for verdict in row.verdicts:
        if verdict.support not in (Support.SUPPORTED, Support.DECOMPOSED):
            alike = verdict.op_type if is_about_operator(verdict) else "(several)"
            reason = "; ".join(filter(None, (verdict.detail, verdict.hint)))
            groups[alike, str(verdict.support), reason] += 1
    for (operator, support, reason), count in groups.most_common():
        yield row.model, operator, str(count), support, reason


def table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in body]
    return "\n".join(lines)


def page(entries: list[dict[str, Any]], found: list[Row]) -> str:
    """The whole page."""
    by_place = {(row.model, row.target): row for row in found}
    accelerators = {target: find_profile(target)[1].accelerator for target in TARGETS}
    evidence = {
        target: collections.Counter(
            str(verdict.evidence) for row in found if row.target == target for verdict in row.verdicts
        ).most_common()
        for target in TARGETS
    }
    overview = table(
        ("model", "nodes", *TARGETS),
        [
            (
                entry["name"],
                str(by_place[entry["name"], TARGETS[0]].nodes),
                *(cell(by_place[entry["name"], target]) for target in TARGETS),
            )
            for entry in entries
        ],
    )
    kinds = table(
        ("target", "unit", "evidence of the verdicts, and of how many nodes"),
        [
            (target, accelerators[target], ", ".join(f"{kind} {count}" for kind, count in evidence[target]))
            for target in TARGETS
        ],
    )
    sources = table(
        ("model", "what it does", "package"),
        [
            (entry["name"], entry.get("does", ""), f"{entry.get('package', '')} {entry.get('version', '')}".strip())
            for entry in entries
        ],
    )
    gaps = "\n\n".join(
        f"### {target}\n\n"
        + (
            table(
                ("model", "operator", "nodes", "verdict", "why, and what would help"),
                [line for row in found if row.target == target for line in missing(row)],
            )
            if any(True for row in found if row.target == target for _ in missing(row))
            else "Nothing."
        )
        for target in TARGETS
    )
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    versions = ", ".join(f"{package} {installed(package)}" for package in PACKAGES)
    return f"""# How real models fare

Written by `{COMMAND}` on {today}, with {versions}; nothing here is written by hand.
{len(entries)} trained models, shapes fixed, simplified, not quantized by EdgeKit, as
[`edgekit check`](commands/check.md) judges them.

A cell tells how well the model fits the target's unit, the share of the nodes that run on it, of the MACs in
brackets, and in how many partitions: `good: 94% (100%) in 1`. [The rule](commands/check.md#how-well-a-model-fits) is
the same for all targets; how much a cell is worth depends on the evidence.

{kinds}

## Overview

{overview}

## What is missing

{gaps}

## The models

{sources}
"""


def installed(package: str) -> str:
    """The package's version; a dash if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "–"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to check (default: all of the list)")
    parser.add_argument("--models", type=Path, required=True, help="folder of the models, NAME.onnx")
    parser.add_argument(
        "--list", type=Path, default=ROOT / "tests" / "zoo" / "models.json", help="default: %(default)s"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "operator-support.md", help="default: %(default)s")
    options = parser.parse_args()
    listed = json.loads(options.list.read_text(encoding="utf-8"))
    entries = [entry for entry in listed if not options.names or entry["name"] in options.names]
    found = []
    for entry in entries:
        for row in rows(entry, options.models):
            found.append(row)
            sys.stderr.write(f"{row.model:24} {row.target:12} {cell(row)}\n")
    options.out.write_text(page(entries, found), encoding="utf-8")


if __name__ == "__main__":
    main()

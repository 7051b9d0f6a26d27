"""Reads what OpenVINO's ONNX frontend says when it cannot convert a model, and makes EdgeKit's errors of it.

The frontend converts as much as it can and then reports all operators that it has no rule for, and for each operator
whose rule failed the message of a node. A report looks like this::

    Model wasn't fully converted. Failed operations detailed log:
    -- Pad-25 with a message:
    While validating ONNX node '<Node(Pad): y>': Exception from …
    Unsupported padding mode: [wrap]

    Summary:
    -- No conversion rule found for operations: CumProd-14, my.domain.Op
    -- Conversion is failed for: Pad-25
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.execution.processor_layouts import LAID_OUT, OPTIMIZE_LESS, is_laid_out
from edgekit.model import node_name, op_name

NO_RULE = re.compile(r"^-- No conversion rule found for operations: (?P<ops>.+)$", re.MULTILINE)
RULE_FAILED = re.compile(r"^-- Conversion is failed for: (?P<ops>.+)$", re.MULTILINE)
MESSAGE = re.compile(r"^-- (?P<op>\S+) with a message:\n(?P<text>.*?)(?:\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
FAILED_NODE = re.compile(r"<Node\([^)]*\): (?P<names>[^>]*)>")
FRIENDLY_NAME = re.compile(r"friendly_name '(?P<name>[^']+)'")
COMPILED_NAME = re.compile(r"Operation name: (?P<name>.+)$", re.MULTILINE)
DYNAMIC_RANK = "dynamic rank"
UNTYPED = "input type dynamic"
VERSION = re.compile(r"-\d+$")
FAILED_CHECK = re.compile(r"Check '.*'(?= failed at \S+:\d+:?$)")
SOURCE_PLACE = re.compile(r"failed at \S+:\d+:?$|^Exception from \S+:\d+:?$")


def gaps_in(report: str, model: ir.Model) -> list[OpGap]:
    """The nodes that the frontend could not convert, in graph order; none where the report is about something else.

    Of the nodes whose conversion failed the frontend names one per operator. A node that failed only because an output
    of another failed node has no type is left out.
    """
    missing = set(_operators(NO_RULE, report))
    failed = {operator: _failure(operator, report) for operator in _operators(RULE_FAILED, report)}
    gaps: list[OpGap] = []
    untyped: set[ir.Value] = set()
    for node in model.graph.all_nodes():
        known = len(gaps)
        operator = op_name(node)
        if operator in missing and is_laid_out(node):
            gaps.append(OpGap(op_type=operator, node=node_name(node), reason=LAID_OUT, hint=OPTIMIZE_LESS))
        elif operator in missing:
            gaps.append(
                OpGap(
                    op_type=operator, node=node_name(node), reason="OpenVINO's ONNX frontend has no conversion for it"
                )
            )
        elif operator in failed:
            names, reason = failed[operator]
            is_named = not names or names & {node.name, *(value.name for value in node.outputs)}
            if is_named and not (UNTYPED in reason and untyped.intersection(node.inputs)):
                gaps.append(
                    OpGap(
                        op_type=operator,
                        node=node_name(node),
                        reason=f"OpenVINO's ONNX frontend cannot convert it: {reason}",
                    )
                )
        if len(gaps) > known or untyped.intersection(node.inputs):
            untyped.update(node.outputs)
    return gaps


def operation_named(report: str) -> str | None:
    """Returns the name, from the ONNX node, of the operation that a plugin's report is about; None if it names none."""
    match = FRIENDLY_NAME.search(report) or COMPILED_NAME.search(report)
    return None if match is None else match.group("name").strip()


def ranks_hint(report: str) -> str | None:
    """Returns what to do about an operation whose number of dimensions is not known; None for other reports."""
    if DYNAMIC_RANK not in report:
        return None
    name = operation_named(report)
    named = "an operation" if name is None else repr(name)
    return (
        f"{named} has no fixed number of dimensions, as where the branches of an If differ in it or a Loop changes it: "
        "fix the sizes that decide with `edgekit fix`, or export the branch that is used alone"
    )


def last_line(error: Exception) -> str:
    """What OpenVINO says went wrong, without the places in its source that passed it on.

    If it only says that a check failed, that check.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not SOURCE_PLACE.search(line)]
    checks = [f"{check[0]} failed" for line in lines if (check := FAILED_CHECK.match(line))]
    return (telling or checks or [type(error).__name__])[-1]


def _operators(pattern: re.Pattern[str], report: str) -> Iterator[str]:
    for match in pattern.finditer(report):
        for name in match["ops"].split(","):
            yield VERSION.sub("", name.strip())


def _failure(operator: str, report: str) -> tuple[set[str], str]:
    """Names of the node that the report tells for an operator (of the node or its outputs), and why it failed."""
    for match in MESSAGE.finditer(report):
        if VERSION.sub("", match["op"]) == operator:
            node = FAILED_NODE.search(match["text"])
            names = {name.strip() for name in node["names"].split(",")} if node else set()
            return names, match["text"].strip().splitlines()[-1]
    return set(), "the reason is not told"

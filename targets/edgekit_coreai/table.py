"""Writes the table of operations from the registry: ``python -m edgekit_coreai.table > docs/coreai-operations.md``."""

from __future__ import annotations

import sys

from edgekit_coreai.translation.registry import find_lowering, lowered_operations
from edgekit_mlruntime.registry import IOS_OF_OPSET, registered_operations

INTRODUCTION = """# MIL operations that become Core AI operations

Written by `python -m edgekit_coreai.table` from the registry of lowerings. A row is an operation of an ML Program that
the [reference runtime](coreml-runtime.md) executes; *since* names the iOS versions whose operator sets give it another
meaning. Which ONNX operators become these operations is in [coreml-operators.md](coreml-operators.md).

An operation without a translation is a gap: random numbers, for which Core AI has no operation; and what coremltools
itself no longer writes. Of `classify` nothing is left: Core AI has neither texts nor dictionaries, and what it tells
the class from is a tensor.

| operation | since | translated |
|---|---|---|
"""


def operation_table() -> str:
    """The whole page as Markdown."""
    lowered = lowered_operations()
    newest = max(IOS_OF_OPSET.values())
    rows = []
    for name in sorted({*lowered, *registered_operations()}):
        since = ", ".join(f"iOS {version}" for version in lowered.get(name, ()))
        rows.append(f"| {name} | {since} | {'yes' if find_lowering(name, newest) else 'gap'} |\n")
    return INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(operation_table())

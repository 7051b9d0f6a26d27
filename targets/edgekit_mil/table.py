"""The table of operators, from the registry: ``python -m edgekit_mil.table > docs/coreml-operators.md``."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator

import onnx

from edgekit.registry import installed_rewrites
from edgekit_mil.core.registry import Lowering
from edgekit_mil.lowering import function_bodies
from edgekit_mil.ops import catalogue

DOMAINS = {
    "": "ai.onnx",
    "ai.onnx.ml": "ai.onnx.ml",
    "com.microsoft": "com.microsoft",
}
INTRODUCTION = """# Operators that convert to Core ML

Written by `python -m edgekit_mil.table` from the registry of lowerings.

*Lowered* operators have Core ML operations written for them, at the schema versions listed; a model's opset import says
which version of an operator it has. *Expanded* operators go by the function body that ONNX defines them with.
*Rewritten* ones become operators of the standard first, by the rewrite that is named, which is proven on the model. An
operator with none of these is a gap: the conversion names every node with a gap, and what could be done. Nodes whose
inputs are all known are computed during the conversion, whatever the operator.

Tensors are carried in float32, float16, int32 and bool. Integers of 8 and 16 bits wrap around as ONNX has it; those of
32 and 64 bits, signed or not, have to fit int32, which is checked for constants and for the model's inputs, and for
results of 64 bits when the reference runtime executes the program. Tensors of more than five dimensions are computed
with dimensions merged, where the operator allows it.

What stays out, and why:

- Random operators, and Dropout in training mode: their numbers differ between implementations, so that nothing could
  show that a program computes what the model does.
- Doubles beyond float32's largest number, and integers that do not fit int32: refused, as a constant when the model is
  converted, as an input when it comes.
- BitCast from or to floats: no Core ML operation takes the bits of a number apart.
- Loop whose number of turns only a run tells, where it changes the shape of a state, or collects outputs of every turn
  and their number is not the size of an open dimension. Scan over an open dimension.
- Texts, sequences and optionals at the inputs and outputs of a model, encoded pictures, complex numbers. An output that
  is a sequence of a fixed number of tensors becomes as many outputs.
"""


def operator_table() -> str:
    """The whole page as Markdown."""
    sections = [INTRODUCTION]
    for domain, title in DOMAINS.items():
        rows = list(_rows(domain))
        sections.append(f"## {title}\n")
        sections.append("| operator | versions | how | restrictions |\n|---|---|---|---|")
        sections.extend(rows)
        sections.append("")
    return "\n".join(sections)


def _rows(domain: str) -> Iterator[str]:
    """One row an operator, in alphabetical order."""
    lowered: dict[str, list[Lowering]] = defaultdict(list)
    for entry in catalogue.all_lowerings():
        if entry.domain == domain and entry not in lowered[entry.op_type]:
            lowered[entry.op_type].append(entry)
    schemas = _newest_schemas(domain)
    rewrites = {
        op_type: rewrite.name
        for rewrite in installed_rewrites()
        if rewrite.domain == domain
        for op_type in rewrite.op_types
    }
    for op_type in sorted(lowered.keys() | schemas.keys() | rewrites.keys()):
        entries = lowered.get(op_type)
        if entries:
            versions = ", ".join(str(version) for entry in entries for version in entry.versions)
            notes = dict.fromkeys(entry.note for entry in sorted(entries, key=_newest, reverse=True) if entry.note)
            how = "refused" if all(entry.refuses for entry in entries) else "lowered"
            yield f"| {op_type} | {versions} | {how} | {'; '.join(notes)} |"
        elif op_type in schemas and function_bodies.has_body(schemas[op_type]):
            yield f"| {op_type} | {schemas[op_type].since_version} | expanded | |"
        elif (rewrite := rewrites.get(op_type)) is not None:
            yield f"| {op_type} | | rewritten | {rewrite} |"
        else:
            yield f"| {op_type} | | gap | |"


def _newest(entry: Lowering) -> int:
    return max(entry.versions)


def _newest_schemas(domain: str) -> dict[str, onnx.defs.OpSchema]:
    """The schemas of the newest opset that are not deprecated, by operator."""
    current = (schema for schema in onnx.defs.get_all_schemas() if schema.domain == domain)
    return {schema.name: schema for schema in current if not schema.deprecated}


if __name__ == "__main__":
    sys.stdout.write(operator_table())

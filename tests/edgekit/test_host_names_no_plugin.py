"""The host finds targets and devices by entry point, so its code names none of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgekit

ROOT = Path(edgekit.__file__).parent
NAMES = re.compile(r"core ?ml|openvino|onnx[ _]?runtime|coremltools|chromium|browser|xcode|core ?ai", re.IGNORECASE)
REFERENCE = {
    "execution": "executes original models, with ONNX Runtime on the CPU",
    "graph/reading/ir_version.py": "the IR version that this reference reads",
}
"""Folders and files of the CPU reference, which is ONNX Runtime whatever the targets are, and what they do."""


def names_in_code(tree: ast.Module, *, docstrings_are_help: bool) -> Iterator[tuple[int, str]]:
    """Lines and texts of identifiers and string constants; docstrings count where the command line prints them."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    attribute_docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_documentation = id(node) in docstrings or id(node) in attribute_docs
            if docstrings_are_help or not is_documentation:
                yield node.lineno, node.value
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            yield node.lineno, " ".join([*names, getattr(node, "module", "") or ""])


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda file: Path(file).relative_to(ROOT).as_posix())
def test_the_host_names_no_target_and_no_device(file: Path) -> None:
    place = file.relative_to(ROOT).as_posix()
    if any(place == part or place.startswith(f"{part}/") for part in REFERENCE):
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = [
        f"{place}:{line}: {text[:80]!r}"
        for line, text in names_in_code(tree, docstrings_are_help=place.startswith("cli/"))
        if NAMES.search(text)
    ]
    assert found == []

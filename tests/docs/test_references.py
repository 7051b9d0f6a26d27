"""Docstrings refer to what is there: ``:func:`edgekit.schema.find_flaw```."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "edgekit", ROOT / "quantize" / "edgekit_quantize", *sorted((ROOT / "targets").glob("edgekit_*"))]
REFERENCE = re.compile(r":(?:mod|class|func|meth|data|attr):`~?(edgekit\w*\.[\w.]+)`")


def text_of(module: list[str]) -> str | None:
    """The source of a module by the parts of its name; None where there is none."""
    for folder in PACKAGES:
        place = folder.parent.joinpath(*module)
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return file.read_text(encoding="utf-8")
    return None


def leads_somewhere(reference: str) -> bool:
    """Whether it is a module, or what the longest module's name in it makes or imports."""
    parts = reference.split(".")
    for end in range(len(parts), 0, -1):
        if (text := text_of(parts[:end])) is not None:
            made = (rf"^ *(?:(?:async )?def |class |from .* import .*\b)?{part}\b" for part in parts[end:])
            return all(re.search(pattern, text, re.MULTILINE) for pattern in made)
    return False


@pytest.mark.parametrize("package", PACKAGES, ids=lambda folder: folder.name)
def test_every_reference_leads_somewhere(package: Path) -> None:
    found = {
        (file.relative_to(ROOT).as_posix(), reference)
        for file in package.rglob("*.py")
        for reference in REFERENCE.findall(file.read_text(encoding="utf-8"))
    }
    assert sorted(place for place in found if not leads_somewhere(place[1])) == []


@pytest.mark.parametrize(
    ("reference", "leads"),
    [
        ("edgekit.schema", True),
        ("edgekit.schema.find_flaw", True),
        ("edgekit.target.Target.build", True),
        ("edgekit.labels", False),
        ("edgekit.schema.find", False),
    ],
)
def test_what_is_not_there_is_told_apart(reference: str, leads: bool) -> None:
    assert leads_somewhere(reference) is leads

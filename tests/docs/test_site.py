"""The documentation site builds, with every page, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    for name in (name.replace("README", "index") for name in pages):
        text = (tmp_path / name).read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img)[^>]* src="([^"]+)|<link[^>]* rel="stylesheet"[^>]* href="([^"]+)', text)
        assert not [address for found in loaded for address in found if "//" in address], name
    reference = (tmp_path / "api.html").read_text(encoding="utf-8")
    for name in ("package", "load", "gate"):
        assert f'id="edgekit.api.{name}"' in reference

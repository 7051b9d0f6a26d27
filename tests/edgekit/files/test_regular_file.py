from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit.config.project_file import read_config as read_project
from edgekit.data.npy import read_npy
from edgekit.data.npz import read_npz
from edgekit.errors import InputError
from edgekit.files.regular_file import read_json, read_regular, read_text
from edgekit.preprocessing.wav import read_wav


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    with pytest.raises(InputError, match="is not a regular file\nfound: a FIFO"):
        read_regular(tmp_path / "f", 10)


@pytest.mark.parametrize(("path", "found"), [("/dev/zero", "a device"), ("/", "a folder")])
def test_devices_and_folders_are_refused(path: str, found: str) -> None:
    with pytest.raises(InputError, match=f"is not a regular file\nfound: {found}"):
        read_regular(Path(path), 10)


def test_a_link_to_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="a device"):
        read_text(tmp_path / "l")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=f"is too large\nexpected: 10 bytes at most\nfound: {1 << 40}"):
        read_regular(tmp_path / "f", 10)


def test_reading_takes_no_more_memory_than_the_file_holds(tmp_path: Path) -> None:
    """A small file was refused for want of memory where the process was near its limit, as the most was set aside."""
    file = tmp_path / "small"
    file.write_bytes(b"1234")
    tracemalloc.start()
    try:
        assert read_regular(file, 1 << 30) == b"1234"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("name", ["n" * 5000, "a\0b"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be read") as raised:
        read_regular(tmp_path / name, 10)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("9" * 5000, "4300 digits"),
        ("{", "Expecting property name"),
    ],
)
def test_what_is_no_json(tmp_path: Path, text: str, flaw: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(InputError, match=flaw):
        read_json(tmp_path / "f")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 12345\n"


@pytest.mark.parametrize("read", [read_text, read_json, read_npz, read_npy, read_wav, read_project])
def test_a_pointer_of_git_lfs_is_told_from_a_damaged_file(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """Three lines were three names of classes."""
    (tmp_path / "f").write_text(POINTER)
    with pytest.raises(InputError) as raised:
        read(tmp_path / "f")
    assert str(raised.value) == (
        f"{tmp_path / 'f'}: is a Git LFS pointer, not the file itself\nhint: fetch the file itself with `git lfs pull`"
    )


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    """PowerShell's ``Out-File -Encoding utf8`` and Notepad write one."""
    (tmp_path / "f").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "f") == {"a": 1}
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbf[budget]\r\nsize = 7\r\n")
    assert read_project(tmp_path / "f").budget.size == 7

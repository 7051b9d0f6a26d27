from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit.files.regular_file import read_json, read_regular, read_text


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
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": -Infinity}', "-Infinity is no JSON"),
        ("9" * 5000, "4300 digits"),
        ("{", "Expecting property name"),
    ],
)
def test_what_is_no_json(tmp_path: Path, text: str, flaw: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(InputError, match=flaw):
        read_json(tmp_path / "f")

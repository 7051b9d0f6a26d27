from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from edgekit.bundle import Bundle, check_integrity, read_bundle
from edgekit.errors import InputError
from edgekit.quality_gate.baseline import Figures, kept_bundle, read_baseline, write_baseline


@pytest.fixture
def digits_bundle(packaged_digits: Path) -> Bundle:
    return read_bundle(packaged_digits)


def other_build(bundle: Bundle, fingerprint: str) -> Bundle:
    return replace(bundle, manifest={**bundle.manifest, "fingerprint": fingerprint})


def test_what_is_written_is_read(tmp_path: Path, digits_bundle: Bundle) -> None:
    file = tmp_path / "baseline.json"
    write_baseline(file, {"second": digits_bundle, "first": other_build(digits_bundle, "a" * 64)})
    manifest = digits_bundle.manifest
    figures = Figures(manifest["fingerprint"], manifest["size"]["bytes"], manifest["accuracy"]["task"]["built"])
    assert read_baseline(file) == {"first": replace(figures, fingerprint="a" * 64), "second": figures}
    assert list(json.loads(file.read_text())["bundles"]) == ["first", "second"]
    assert file.read_text().endswith("}\n")


def test_two_commands_that_write_one_baseline_lose_nothing(tmp_path: Path, digits_bundle: Bundle) -> None:
    """Each read it, and wrote it with its own bundle: the later one took the other's bundle and figures away."""
    file = tmp_path / "baseline.json"
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # the other command
    writing = threading.Thread(target=write_baseline, args=(file, {"mine": digits_bundle}))
    try:
        writing.start()
        writing.join(0.5)
        assert writing.is_alive()
        others = other_build(digits_bundle, "a" * 64)
        shutil.copytree(digits_bundle.path, kept_bundle(file, Figures.of(others)))
        figures = {"fingerprint": "a" * 64, "size": 7, "accuracy": None}
        file.write_text(json.dumps({"schema_version": 3, "bundles": {"other": figures}}))
    finally:
        os.close(folder)
    writing.join(30)
    assert set(read_baseline(file)) == {"mine", "other"}
    assert sorted(place.name for place in (tmp_path / "baseline-bundles").iterdir()) == sorted(
        ["a" * 16, digits_bundle.manifest["fingerprint"][:16]]
    )


def test_a_disk_that_is_full_is_no_fault(tmp_path: Path, digits_bundle: Bundle) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        with pytest.raises(InputError) as raised:
            write_baseline(disk / "baseline.json", {"one": digits_bundle})
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)
    first, _, hint = str(raised.value).splitlines()
    assert first.endswith("cannot be written: the disk is full")
    assert hint == "hint: free some space, or choose another place with --baseline"


def test_the_bundles_themselves_are_kept_as_long_as_they_are_named(tmp_path: Path, digits_bundle: Bundle) -> None:
    file = tmp_path / "ci" / "baseline.json"
    newer = other_build(digits_bundle, "a" * 64)
    write_baseline(file, {"one": digits_bundle, "two": newer})
    first, second = (kept_bundle(file, Figures.of(bundle)) for bundle in (digits_bundle, newer))
    assert second == tmp_path / "ci" / "baseline-bundles" / ("a" * 16)
    check_integrity(read_bundle(first))
    write_baseline(file, {"one": newer})
    assert (first.exists(), second.exists()) == (False, True)
    write_baseline(file, {"two": read_bundle(second)})
    assert set(read_baseline(file)) == {"one", "two"}
    check_integrity(read_bundle(second))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "cannot be read: "),
        ("[]", "is not a baseline\nexpected: what schema version 3 describes\nfound: [] is not an object"),
        (
            '{"schema_version": 2, "bundles": {}}',
            "found: schema_version: 3 was expected, not 2\nhint: if another",
        ),
        ('{"schema_version": 3, "bundles": {"a": {}}}', "found: bundles.a: 'fingerprint' is missing"),
    ],
)
def test_a_file_that_is_no_baseline(tmp_path: Path, digits_bundle: Bundle, text: str, found: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(found)):
        read_baseline(file)
    with pytest.raises(InputError, match=re.escape(found)):
        write_baseline(file, {"first": digits_bundle})
    assert file.read_text() == text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as failure:
        read_baseline(tmp_path / "no.json")
    assert str(failure.value) == (
        f"{tmp_path}/no.json: there is no baseline\n"
        f"hint: `edgekit gate --baseline {tmp_path}/no.json --update` writes one"
    )

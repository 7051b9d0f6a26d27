from __future__ import annotations

import errno
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgekit.files.disk_space import NoRoomError, is_shortage, no_room, require_room, shortage


def test_a_folder_that_takes_files_has_room(tmp_path: Path) -> None:
    assert shortage(tmp_path) is None
    require_room(tmp_path, "")
    require_room(tmp_path / "nothing", "")
    assert list(tmp_path.iterdir()) == []
    assert not is_shortage(errno.EACCES)
    assert not is_shortage(None)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EDQUOT, "cannot be written: the disk quota is used up\nhint: free some space, or set TMPDIR"),
        (
            errno.EFBIG,
            "cannot be written: a file is larger than the file system or `ulimit -f` allows\n"
            "hint: allow larger files, or set TMPDIR",
        ),
    ],
)
def test_what_the_system_says_is_told(number: int, text: str) -> None:
    assert str(no_room(Path("/out"), number, "set TMPDIR")) == f"/out: {text}"
    assert no_room(Path("/out"), number, None).hint in ("free some space", "allow larger files")


def test_a_limit_on_the_size_of_files_is_no_full_disk(tmp_path: Path) -> None:
    """What `ulimit -f` does: the disk had gigabytes free, and was called full."""
    script = """
        import resource, sys
        from pathlib import Path
        from edgekit.files.atomic import atomic_file
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        try:
            with atomic_file(Path(sys.argv[1]), chosen_with="--junit") as place:
                place.write_bytes(bytes(4096))
        except Exception as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "out")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == (
        f"{tmp_path / 'out'}: cannot be written: a file is larger than the file system or `ulimit -f` allows\n"
        "hint: allow larger files, or choose another place with --junit\n"
    )


def test_a_failure_on_a_full_disk_is_the_disk_s(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        (disk / "f").write_bytes(bytes(60_000))
        with pytest.raises(NoRoomError) as raised:
            require_room(disk, "set TMPDIR to another folder")
        assert [each.name for each in disk.iterdir()] == ["f"]
    finally:
        subprocess.run(["umount", disk], check=True)
    first, found, hint = str(raised.value).splitlines()
    assert first == f"{disk}: cannot be written: the disk is full"
    assert found.endswith(" bytes free")
    assert hint == "hint: free some space, or set TMPDIR to another folder"

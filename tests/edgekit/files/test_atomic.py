from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit.files import atomic
from edgekit.files.atomic import atomic_directory, atomic_file, remove_abandoned, require_writable, temporary_folder

NOBODY = 65534


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "out.bin") as path:
        path.write_text("half")
        assert not (tmp_path / "out.bin").exists()
        path.write_text("whole")
    assert names(tmp_path) == ["out.bin"]
    assert (tmp_path / "out.bin").read_text() == "whole"


def test_a_file_comes_with_what_was_written_beside_it(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "m.onnx") as path:
        path.write_text("model")
        path.with_name("m.onnx.data").write_text("tensors")
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]


def test_an_older_file_is_replaced_and_survives_a_failure(tmp_path: Path) -> None:
    output = tmp_path / "out.bin"
    output.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(output) as path:
        path.write_text(f"new {1 // 0}")
    assert output.read_text() == "old"
    with atomic_file(output) as path:
        path.write_text("new")
    assert output.read_text() == "new"
    assert names(tmp_path) == ["out.bin"]


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_file(tmp_path / "link") as path:
        path.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(InputError) as caught, atomic_file(Path("/dev/null")):
        pass
    assert str(caught.value) == "/dev/null: is not a regular file\nhint: name a file to write"


def test_missing_parents_are_made_and_taken_back(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), atomic_file(tmp_path / "a" / "b" / "out"):
        raise ValueError("no")
    assert names(tmp_path) == []
    with atomic_file(tmp_path / "a" / "b" / "out") as path:
        path.touch()
    assert (tmp_path / "a" / "b" / "out").exists()


def test_output_has_the_permissions_that_any_new_file_gets(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "out") as folder:
        (folder / "file").touch()
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "out") as folder:
        (folder / "file").write_text("text")
        assert not (tmp_path / "out").exists()
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["file"]


def test_only_an_older_output_is_replaced(tmp_path: Path) -> None:
    precious = tmp_path / "photos"
    precious.mkdir()
    (precious / "cat.jpg").touch()
    with pytest.raises(InputError) as caught, atomic_directory(precious, what="bundle"):
        pass
    assert str(caught.value) == (
        f"{precious}: exists and is not a bundle\nhint: choose another name with -o, or remove it first"
    )
    assert names(precious) == ["cat.jpg"]
    with atomic_directory(precious, may_replace=lambda path: (path / "cat.jpg").exists()) as folder:
        (folder / "dog.jpg").touch()
    assert names(precious) == ["dog.jpg"]
    assert names(tmp_path) == ["photos"]


def test_an_older_folder_survives_a_failure(tmp_path: Path) -> None:
    older = tmp_path / "out"
    older.mkdir()
    (older / "file").touch()
    with pytest.raises(ValueError, match="no"), atomic_directory(older, may_replace=lambda _: True):
        raise ValueError("no")
    assert names(tmp_path) == ["out"]
    assert names(older) == ["file"]


def test_an_older_folder_is_back_where_the_new_one_cannot_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "output"
    output.mkdir()
    (output / "old").touch()
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError(errno.EIO, "input/output error")
        return rename(path, target)

    monkeypatch.setattr("edgekit.files.atomic.sys.platform", "darwin")  # no exchange of names at once
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises((OSError, InputError)), atomic_directory(output, may_replace=lambda _: True) as folder:
        (folder / "new").touch()
    assert [path.name for path in output.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


def test_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with atomic_directory(tmp_path / "out") as folder:
        (folder / "file").touch()
    assert names(tmp_path / "out") == ["file"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    script = """
        import sys, time
        from pathlib import Path
        from edgekit.files.atomic import atomic_directory
        from edgekit.cli._signals import interrupted_by_signals
        with interrupted_by_signals(), atomic_directory(Path(sys.argv[1]) / "deep" / "out") as folder:
            (folder / "half").touch()
            print("writing", flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.send_signal(number)
        assert process.wait(timeout=30) != 0
    assert names(tmp_path) == []


def test_a_parent_that_is_a_file_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "out"
    with pytest.raises(InputError) as caught, atomic_file(output):
        pass
    assert str(caught.value) == (
        f"{output}: cannot be written: not a directory\nhint: choose another place with -o, or make its folder writable"
    )


def test_what_cannot_be_written_later_is_told_before(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "out")
    (tmp_path / "file").write_text("as it was")
    require_writable(tmp_path / "file")
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "as it was"
    with pytest.raises(InputError, match="cannot be written: not a directory\nhint: choose another place with --junit"):
        require_writable(tmp_path / "file" / "out", chosen_with="--junit")
    with pytest.raises(InputError, match="is not a regular file"):
        require_writable(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_unwritable_folder_is_an_input_error() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others: they could not even look at it
        Path(folder).chmod(0o755)
        output = Path(folder) / "out"
        os.seteuid(NOBODY)
        try:
            with pytest.raises(InputError) as caught, atomic_file(output):
                pass
        finally:
            os.seteuid(0)
    assert str(caught.value) == (
        f"{output}: cannot be written: permission denied\n"
        "hint: choose another place with -o, or make its folder writable"
    )


def test_a_full_disk_is_an_input_error(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(InputError) as caught, atomic_file(output), open("/dev/full", "wb") as full:  # noqa: PTH123
        full.write(b"x" * 10_000_000)
    first, found, hint = str(caught.value).splitlines()
    assert first == f"{output}: cannot be written: the disk is full"
    assert found.startswith("found: ")
    assert found.endswith(" bytes free")
    assert hint == "hint: free some space, or choose another place with -o"
    assert names(tmp_path) == []


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a file system here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def fill_as_a_native_library_does(path: Path) -> None:
    """Writes until the disk is full, and raises an error with other words than the operating system's."""
    try:
        with path.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    raise RuntimeError("iostream error")


def test_a_full_disk_is_seen_behind_a_native_failure(tiny_disk: Path) -> None:
    with pytest.raises(InputError, match="the disk is full"), atomic_file(tiny_disk / "out") as path:
        fill_as_a_native_library_does(path)
    assert names(tiny_disk) == []


def test_a_full_disk_of_temporary_files_is_not_the_output_s(
    tmp_path: Path, tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output's disk was called full, with gigabytes free."""
    monkeypatch.setattr(tempfile, "tempdir", str(tiny_disk))
    with pytest.raises(InputError) as raised, atomic_file(tmp_path / "out"), tempfile.TemporaryFile() as scratch:
        scratch.write(bytes(100_000))
    first, _, hint = str(raised.value).splitlines()
    assert first == f"{tiny_disk}: cannot be written: the disk is full"
    assert hint == "hint: free some space, or set TMPDIR to a folder on another disk"


def test_other_failures_are_passed_on(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "out"):
        (tmp_path / "missing-input").read_bytes()
    assert names(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from edgekit.files.atomic import atomic_directory
with atomic_directory(Path(sys.argv[1]) / "out") as folder:
    (folder / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert killed.returncode == -signal.SIGKILL
    (abandoned,) = names(tmp_path)
    assert abandoned.startswith(".edgekit-")
    with atomic_file(tmp_path / "other.bin") as path:  # the next writer to a neighboring file removes it
        assert names(tmp_path) == [path.parent.name] != [abandoned]
        remove_abandoned(tmp_path)
        path.write_text("whole")
    assert names(tmp_path) == ["other.bin"]
    remove_abandoned(tmp_path / "no such folder")


@pytest.mark.parametrize("found", ["before it is opened", "after it is opened"])
def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """The sweep of another process meets the folder between its making and its lock."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock, swept = atomic._lock, []

    def lock_behind_a_sweep(folder: Path, *, wait: bool) -> int | None:
        if not wait or swept:
            return lock(folder, wait=wait)
        swept.append(folder)
        if found == "before it is opened":
            remove_abandoned(tmp_path)
            return lock(folder, wait=True)
        descriptor = os.open(folder, os.O_RDONLY)
        remove_abandoned(tmp_path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    monkeypatch.setattr(atomic, "_lock", lock_behind_a_sweep)
    with temporary_folder() as folder:
        assert swept == [folder]
        (folder / "file").write_text("whole")
        remove_abandoned(tmp_path)
        assert (folder / "file").read_text() == "whole"
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_that_comes_late_leaves_the_folder_that_was_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sweeps open an abandoned folder; the first removes it, its owner makes it again, then the second is on."""
    folder = tmp_path / ".edgekit-tmp-one"
    folder.mkdir()
    lock = atomic._lock

    def lock_late(unfinished: Path, *, wait: bool) -> int | None:
        monkeypatch.setattr(atomic, "_lock", lock)
        descriptor = lock(unfinished, wait=wait)
        folder.rmdir()
        folder.mkdir()
        (folder / "file").write_text("new")
        return descriptor

    monkeypatch.setattr(atomic, "_lock", lock_late)
    remove_abandoned(tmp_path)
    assert (folder / "file").read_text() == "new"


HOLDS_A_FOLDER = """
import sys
from pathlib import Path
from edgekit.files.atomic import made_and_locked
with made_and_locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_that_was_still_held_at_first_is_swept_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / ".edgekit-tmp-left"
    command = [sys.executable, "-c", HOLDS_A_FOLDER, str(left)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with temporary_folder() as folder:
            assert left.is_dir()
            assert folder.is_dir()
            holder.kill()
            holder.wait()
    assert list(tmp_path.iterdir()) == []

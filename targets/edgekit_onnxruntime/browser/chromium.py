"""Finds headless Chromium, starts it with a separate profile, and ends it with all processes that it started."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from edgekit.errors import InputError

VARIABLE = "EDGEKIT_CHROMIUM"
"""The environment variable that names Chromium's program."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS_TO_END = 10
"""How long Chromium may take to end before it is killed."""
LONGEST_FOLDER = 40
"""The maximum length of the folder's path: a socket's path has at most 104 characters (macOS, ``sun_path``), and
Chromium adds more than 50 to the folder's."""

QUIET = (
    "--headless",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-dev-shm-usage",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    # A page that is not visible is not slowed down:
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
"""Flags with which Chromium shows, asks and updates nothing, and reaches no address except this machine's own."""


def find_chromium() -> Path:
    """Chromium's program: the one that :data:`VARIABLE` names, else the first of :data:`PROGRAMS` on the path.

    Raises:
        InputError: There is no such program.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if shutil.which(named) is None:
            raise InputError("there is no such program", subject=VARIABLE, expected="Chromium", found=named)
        return Path(named)
    for program in PROGRAMS:
        found = shutil.which(program)
        if found is not None:
            return Path(found)
    raise InputError(
        "there is no Chromium here",
        subject="--device browser",
        expected=f"one of {', '.join(PROGRAMS)} on the path",
        hint=f"install Chromium, or set {VARIABLE} to its program",
    )


def chromium_version(program: Path) -> str:
    """The name and version that the program prints.

    Raises:
        InputError: The program prints no version of Chromium, or cannot be run.
    """
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"cannot be run: {error}", subject=program, expected="Chromium") from error
    match = re.search(r"(Chromium|Google Chrome|HeadlessChrome)[^\d]*([\d.]+)", done.stdout)
    if match is None:
        raise InputError("is not Chromium", subject=program, found=(done.stdout + done.stderr).strip() or "no version")
    return f"{match[1]} {match[2]}"


@dataclass(frozen=True)
class Chromium:
    """A running Chromium."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def complaint(self) -> str:
        """The last line that Chromium wrote; empty if it wrote none."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def has_ended(self) -> bool:
        """Whether Chromium has ended."""
        return self.process.poll() is not None

    def peak_memory(self) -> int | None:
        """The peak main memory of the page's process in bytes; None if the system does not provide it."""
        peaks = [_peak_memory(folder) for folder in Path("/proc").glob("[0-9]*") if self._is_page(folder)]
        return max((peak for peak in peaks if peak is not None), default=None)

    def _is_page(self, folder: Path) -> bool:
        """Whether a folder of ``/proc`` belongs to a page of this Chromium, which leads the page's process group."""
        try:
            is_renderer = b"--type=renderer" in (folder / "cmdline").read_bytes()
            return is_renderer and os.getpgid(int(folder.name)) == self.process.pid
        except OSError:  # it ended meanwhile
            return False


def _peak_memory(folder: Path) -> int | None:
    try:
        match = re.search(r"^VmHWM:\s*(\d+) kB", (folder / "status").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:  # it ended meanwhile
        return None
    return None if match is None else int(match[1]) * 1024


@contextmanager
def chromium(program: Path, url: str, flags: Sequence[str]) -> Iterator[Chromium]:
    """Runs Chromium with one page until the context is left; then Chromium is ended and its files are deleted.

    Raises:
        InputError: The program cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="edgekit-browser-", dir=_short_folder()) as folder:
        log = Path(folder) / "log"
        files = Path(folder) / "files"
        files.mkdir()
        # Chromium's sandbox does not work for root, the usual user in a container; the page is EdgeKit's own.
        sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [str(program), *QUIET, *sandbox, *flags, f"--user-data-dir={files / 'profile'}", url]
        places = dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"), str(files))
        with log.open("wb") as stream:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    start_new_session=True,
                    env={**os.environ, **places},
                )
            except OSError as error:
                raise InputError(f"cannot be started: {error.strerror}", subject=program) from error
        try:
            yield Chromium(process, log)
        finally:
            _end(process)


def _short_folder() -> str:
    """The folder for temporary files; ``/tmp`` if its path is too long for the sockets that Chromium creates in it."""
    folder = tempfile.gettempdir()
    return folder if len(folder) <= LONGEST_FOLDER or not Path("/tmp").is_dir() else "/tmp"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends Chromium and every process of its group."""
    process.terminate()
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):  # all of them ended by themselves
            os.killpg(process.pid, signal.SIGKILL)

"""Installs what ``--device qemu:arm64`` and ``--isa`` run with: ``python tests/install_qemu.py``.

QEMU and an arm64 Python come out of Debian 13's packages, the runtimes out of their own arm64 wheels, in the versions
that are installed here. Everything lies in one folder; the system is left as it is. Needs the network, and pip.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from edgekit.devices.qemu import PYTHON, RECORD, X86_PROGRAM, qemu_folder
from edgekit.errors import EdgeKitError, InputError, RequirementError

MIRROR_VARIABLE = "EDGEKIT_DEBIAN_MIRROR"
"""Environment variable that names a mirror of Debian's; without it, what this machine's own packages come from."""
SUITE = "trixie"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Debian calls the machines that its QEMU runs on here."""
EMULATORS = ("./usr/bin/qemu-aarch64", f"./usr/bin/{X86_PROGRAM}")
SYSROOT_PACKAGES = (
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libstdc++6",
    f"python{PYTHON}-minimal",
    "zlib1g",
)
WHEELS = ("numpy", "onnxruntime", "openvino")
GLIBC_MINORS = range(17, 42)
"""The versions 2.x of glibc that a wheel may be made for: the suite has the last of them."""
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60


def mirror() -> str:
    """Where Debian's packages are downloaded from.

    Raises:
        InputError: No mirror is named, and apt knows none.
    """
    address = os.environ.get(MIRROR_VARIABLE) or _mirror_of_apt()
    if not address:
        raise InputError(
            "it is not known where to get Debian's packages from",
            subject=MIRROR_VARIABLE,
            expected="the address of a mirror",
            hint=f"set {MIRROR_VARIABLE} to one; Debian's site lists them",
        )
    return address.rstrip("/")


@cache
def _mirror_of_apt() -> str:
    if shutil.which("apt-get") is None:
        return ""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return next((address for address in listed if address.rstrip("/").endswith("/debian")), "")


def install(folder: Path) -> bool:
    """Installs everything into ``folder``; returns False where it is there already, in these versions.

    Raises:
        InputError: Debian has no QEMU for this machine, or no mirror is known.
        RequirementError: Something cannot be downloaded.
    """
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        raise InputError(
            "QEMU's user mode is on Linux only",
            expected=" or ".join(ARCHITECTURES),
            found=f"{sys.platform}, {platform.machine()}",
        )
    wheels = {name: importlib.metadata.version(name) for name in WHEELS}
    wanted = {"suite": SUITE, "wheels": wheels}
    if folder.is_dir() and _record(folder).get("wanted") == wanted:
        missing = [emulator for emulator in EMULATORS if not (folder / emulator).is_file()]
        if missing:  # installed when there was one emulator
            unpack(["qemu-user"], ARCHITECTURES[platform.machine()], folder, *missing)
        return bool(missing)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        unfinished = Path(scratch) / folder.name
        sysroot = unfinished / "sysroot"
        sysroot.mkdir(parents=True)
        (sysroot / "lib").symlink_to("usr/lib")  # where a program of Debian's says that its loader is
        versions = {
            **unpack(["qemu-user"], ARCHITECTURES[platform.machine()], unfinished, *EMULATORS),
            **unpack(SYSROOT_PACKAGES, "arm64", sysroot, "./usr"),
        }
        _install_wheels(wheels, unfinished / "site")
        (unfinished / RECORD).write_text(json.dumps({"wanted": wanted, "packages": versions}, indent=2))
        if folder.is_dir():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    return True


def _record(folder: Path) -> dict[str, Any]:
    file = folder / RECORD
    record: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    return record


def unpack(packages: Sequence[str], architecture: str, target: Path, *wanted: str) -> dict[str, str]:
    """Unpacks some files of Debian packages, or all in one folder of them; returns the packages' versions."""
    index = lzma.decompress(_download(f"dists/{SUITE}/main/binary-{architecture}/Packages.xz")).decode()
    known = dict(_paragraphs(index, packages))
    for name in packages:
        if name not in known:
            raise RequirementError(f"Debian's suite {SUITE} has no package {name} for {architecture}", subject=mirror())
        archive = _download(known[name]["Filename"])
        if hashlib.sha256(archive).hexdigest() != known[name]["SHA256"]:
            raise RequirementError("arrived changed", subject=f"{mirror()}/{known[name]['Filename']}")
        with tarfile.open(fileobj=io.BytesIO(_data_of(archive))) as files:
            members = [member for member in files if f"{member.name}/".startswith(tuple(f"{at}/" for at in wanted))]
            files.extractall(target, members, filter="tar")
    return {name: known[name]["Version"] for name in packages}


def _paragraphs(index: str, packages: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for paragraph in index.split("\n\n"):
        name = paragraph.partition("\n")[0].removeprefix("Package: ")
        if name in packages:
            yield name, dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line)


def _data_of(package: bytes) -> bytes:
    """The files of a Debian package: the member ``data.tar.*`` of an archive in the format of ``ar``."""
    stream = io.BytesIO(package)
    if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise RequirementError("is no Debian package", subject=mirror())
    for name, size in _ar_members(stream):
        data = stream.read(size + size % 2)
        if name.startswith("data.tar"):
            return data
    raise RequirementError("a Debian package has no files", subject=mirror())


def _ar_members(stream: BinaryIO) -> Iterator[tuple[str, int]]:
    while header := stream.read(_AR_HEADER):
        yield header[:16].decode().strip(), int(header[48:58])


def _download(path: str) -> bytes:
    try:
        with urllib.request.urlopen(f"{mirror()}/{path}", timeout=60) as answer:
            data: bytes = answer.read()
    except OSError as error:
        raise RequirementError(f"cannot be downloaded: {error}", subject=f"{mirror()}/{path}") from error
    return data


def _install_wheels(versions: dict[str, str], target: Path) -> None:
    platforms = [part for minor in GLIBC_MINORS for part in ("--platform", f"manylinux_2_{minor}_aarch64")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", PYTHON, "--implementation", "cp", "--platform", "manylinux2014_aarch64", *platforms]
    requirements = [f"{name}=={version}" for name, version in versions.items()]
    done = subprocess.run(
        [*command, "--target", str(target), *requirements], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RequirementError(
            "pip cannot install the runtimes for arm64", expected=", ".join(requirements), found=done.stderr.strip()
        )


def main() -> int:
    """The program."""
    folder = qemu_folder()
    try:
        installed = install(folder)
    except EdgeKitError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stderr.write(f"{folder}: {'installed' if installed else 'up to date'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What is unpacked out of Debian packages; the installation as a whole is what the tests of the emulator run with."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import subprocess
from pathlib import Path

import pytest

from edgekit.devices import qemu
from edgekit.errors import InputError, RequirementError

from . import install_qemu


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with one package, which Debian's own tool made."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    content, root = tmp_path / "content", tmp_path / "mirror"
    (content / "DEBIAN").mkdir(parents=True)
    (content / "DEBIAN" / "control").write_text(
        "Package: tool\nVersion: 1.2\nArchitecture: arm64\nMaintainer: T <t@example.org>\nDescription: a tool\n"
    )
    for path in ("usr/bin/tool", "usr/bin/tool-more", "usr/lib/libtool.so", "etc/tool.conf"):
        (content / path).parent.mkdir(parents=True, exist_ok=True)
        (content / path).write_text(path)
    index = root / "dists" / install_qemu.SUITE / "main" / "binary-arm64"
    index.mkdir(parents=True)
    subprocess.run(["dpkg-deb", "-Zxz", "--build", content, root / "tool.deb"], capture_output=True, check=True)
    digest = hashlib.sha256((root / "tool.deb").read_bytes()).hexdigest()
    paragraphs = (
        "Package: tool-other\nVersion: 9\nFilename: none.deb\nSHA256: 0",
        f"Package: tool\nVersion: 1.2\nDescription: a tool\n that does more\nFilename: tool.deb\nSHA256: {digest}",
    )
    (index / "Packages.xz").write_bytes(lzma.compress("\n\n".join(paragraphs).encode()))
    monkeypatch.setenv(install_qemu.MIRROR_VARIABLE, root.as_uri())
    return root


def unpacked(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("wanted", "files"),
    [
        ("./usr/bin/tool", ["usr/bin/tool"]),
        ("./usr", ["usr/bin/tool", "usr/bin/tool-more", "usr/lib/libtool.so"]),
    ],
)
def test_what_is_wanted_of_a_package(wanted: str, files: list[str], mirror: Path, tmp_path: Path) -> None:
    assert install_qemu.unpack(["tool"], "arm64", tmp_path / "out", wanted) == {"tool": "1.2"}
    assert unpacked(tmp_path / "out") == files
    assert (tmp_path / "out" / "usr/bin/tool").read_text() == "usr/bin/tool"


def test_a_package_that_is_not_what_the_index_says(mirror: Path, tmp_path: Path) -> None:
    with (mirror / "tool.deb").open("ab") as package:
        package.write(b"x")
    with pytest.raises(RequirementError, match="arrived changed"):
        install_qemu.unpack(["tool"], "arm64", tmp_path / "out", "./usr")
    assert not (tmp_path / "out").exists()


def test_what_is_not_there(mirror: Path, tmp_path: Path) -> None:
    with pytest.raises(RequirementError, match="has no package hammer for arm64"):
        install_qemu.unpack(["hammer"], "arm64", tmp_path / "out", "./usr")
    (mirror / "tool.deb").unlink()
    with pytest.raises(RequirementError, match="cannot be downloaded"):
        install_qemu.unpack(["tool"], "arm64", tmp_path / "out", "./usr")


def test_it_says_so_where_the_network_is_not_there_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(install_qemu.MIRROR_VARIABLE, "http://127.0.0.1:9/")
    monkeypatch.setenv(qemu.FOLDER_VARIABLE, str(tmp_path / "qemu"))
    assert install_qemu.main() == 1
    assert "cannot be downloaded" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_no_mirror_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(install_qemu.MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(install_qemu, "_mirror_of_apt", str)
    with pytest.raises(InputError, match="it is not known where to get Debian's packages from") as caught:
        install_qemu.mirror()
    assert f"hint: set {install_qemu.MIRROR_VARIABLE} to one" in str(caught.value)

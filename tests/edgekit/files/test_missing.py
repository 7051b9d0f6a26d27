"""What is said of a path that leads to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit.files.missing import hint_for_missing
from edgekit.files.regular_file import read_text
from edgekit.stages.load import Load


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Modelle").mkdir()
    (tmp_path / "Modelle" / "netz.ONNX").touch()
    (tmp_path / "Modelle" / "link.onnx").symlink_to("../moved/netz.onnx")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("Modelle\\netz.ONNX", "write / between folders: Modelle/netz.ONNX"),
        (
            "Modelle\netz.ONNX",
            "a backslash in double quotes begins an escape, such as \\n for a line break: write / between folders, or "
            "put the path in single quotes",
        ),
        ("modelle/NETZ.onnx", "capital letters count: Modelle/netz.ONNX is there"),
        ("Modelle/link.onnx", "it is a link to ../moved/netz.onnx, which leads to nothing"),
        ("Modelle/other.onnx", None),
        ("nowhere/netz.onnx", None),
        ("-", "commands read no stdin: write it to a file, and give that"),
        ("https://example.org/netz.onnx", "commands read files, and no addresses: download it, and give the file"),
        ("s3://models/netz.onnx", "commands read files, and no addresses: download it, and give the file"),
    ],
)
def test_how_a_path_was_written_may_be_the_reason(path: str, hint: str | None, project: Path) -> None:
    assert hint_for_missing(Path(path)) == hint
    with pytest.raises(InputError) as refused:
        Load()(Path(path))
    assert (refused.value.message, refused.value.hint) == ("there is no such file", hint)
    with pytest.raises(InputError) as refused:
        read_text(Path(path))
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("content", "found", "hint"),
    [
        ("Tür\nÖl\n".encode("cp1252"), "byte 0xfc in line 1", "save it as UTF-8; many editors call that an encoding"),
        (
            "ja\nnein\nÖl\n".encode("latin-1"),
            "byte 0xd6 in line 3",
            "save it as UTF-8; many editors call that an encoding",
        ),
        (
            "ja\nnein\n".encode("utf-16"),
            "UTF-16",
            "save it as UTF-8: PowerShell's > writes UTF-16, and `Out-File -Encoding utf8` does not",
        ),
    ],
)
def test_a_text_in_another_encoding(content: bytes, found: str, hint: str, tmp_path: Path) -> None:
    """Notepad saves texts in the system's own code page as well, and PowerShell's redirection UTF-16."""
    file = tmp_path / "labels.txt"
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_text(file)
    assert str(refused.value) == (
        f"{file}: cannot be read: it is not in UTF-8\nexpected: a text file in UTF-8\nfound: {found}\nhint: {hint}"
    )

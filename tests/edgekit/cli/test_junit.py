from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from edgekit.cli._junit import error_in_junit, write_junit
from edgekit.errors import InputError


@pytest.mark.parametrize(("signal", "told"), [("ended by SIGTERM", "ended by SIGTERM"), ("", "interrupted")])
def test_a_command_that_was_interrupted_leaves_no_older_file(tmp_path: Path, signal: str, told: str) -> None:
    """A job that is cancelled uploads its reports: the older one said what became of another run."""
    file = tmp_path / "build.xml"
    file.write_text("<testsuites/>")
    with pytest.raises(KeyboardInterrupt), error_in_junit(file, "edgekit build"):
        raise KeyboardInterrupt(signal)
    (error,) = ElementTree.parse(file).getroot().iter("error")
    assert (error.get("message"), error.text) == (told, told)


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt), error_in_junit(None, "edgekit build"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_kind_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "edgekit.toml"
    file.write_text("[defaults]\n")
    with pytest.raises(InputError) as caught, error_in_junit(file, "edgekit gate"):
        pytest.fail("the command began its work")
    assert str(caught.value) == (
        f"{file}: exists and is not an XML file\nhint: choose another name with --junit, or remove it first"
    )
    assert file.read_text() == "[defaults]\n"
    file.write_text('<?xml version="1.0"?><testsuites/>')
    write_junit(file, "<testsuites></testsuites>")
    assert file.read_text() == "<testsuites></testsuites>"

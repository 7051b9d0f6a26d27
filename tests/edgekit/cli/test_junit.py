from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from edgekit.cli._junit import error_in_junit


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

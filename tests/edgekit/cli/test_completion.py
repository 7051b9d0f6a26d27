"""What shells are told when somebody presses the tab key."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def _asked(words: str, shell: str = "bash") -> subprocess.CompletedProcess[str]:
    """Returns the completions that the script run by bash gets; the last word is incomplete."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_EDGEKIT_COMPLETE": f"complete_{shell}"}
    command = [sys.executable, "-m", "edgekit"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | asked, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("edgekit pack", ["package"]),
        ("edgekit package --verify", ["--verify-data"]),
        ("edgekit package model.onnx --target intel-c", ["intel-cpu"]),
        ("edgekit check model.onnx --target ios18", ["ios18"]),
        ("edgekit package model.onnx --also intel-c", ["intel-cpu"]),
        ("edgekit verify bundle --device ss", ["ssh://"]),
        ("edgekit gate --device ad", ["adb:"]),
    ],
)
def test_what_is_offered(words: str, offered: list[str]) -> None:
    finished = _asked(words)
    assert (finished.stdout.split(), finished.stderr, finished.returncode) == (offered, "", 0)


def test_a_shell_that_is_not_known_is_no_fault_of_a_model() -> None:
    finished = _asked("edgekit pack", "nosuch")
    assert (finished.stderr, finished.returncode) == ("Shell nosuch not supported.\n", 1)


def test_the_script_for_bash() -> None:
    command = [sys.executable, "-m", "edgekit", "--show-completion", "bash"]
    plain = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    finished = subprocess.run(command, capture_output=True, text=True, env=plain, timeout=60, check=False)
    assert finished.returncode == 0
    assert "complete -o default -F _edgekit_completion edgekit" in finished.stdout

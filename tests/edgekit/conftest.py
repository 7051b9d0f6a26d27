from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from edgekit.cli import main


@dataclass(frozen=True)
class Finished:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def edgekit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Runs one command line in this process."""

    def run(*arguments: object) -> Finished:
        code = main([str(argument) for argument in arguments])
        return Finished(code, *capsys.readouterr())

    return run

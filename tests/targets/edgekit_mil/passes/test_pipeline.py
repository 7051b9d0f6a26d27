from __future__ import annotations

from typing import Any

import pytest
from coremltools.converters.mil import Builder as mb  # noqa: N813 - the name that every MIL text uses

from edgekit_mil.core.mil import Program
from edgekit_mil.passes.pipeline import CLEANUP, optimize, run


def test_every_pass_is_a_sign_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes over a forest of a thousand trees take longer together than a stage may be silent."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(2,))])
    def program(x: Any) -> Any:
        return mb.relu(x=x)

    signs: list[None] = []
    monkeypatch.setattr("edgekit_mil.passes.pipeline.tell_step", lambda: signs.append(None))

    run(program, *CLEANUP)

    assert len(signs) == len(CLEANUP)


def test_a_program_is_validated_once_after_all_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation walks through all of a program; coremltools' own writer validates it again."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(2,))])
    def program(x: Any) -> Any:
        return mb.relu(x=x)

    called: list[str] = []
    monkeypatch.setattr(Program, "validate", lambda self: called.append("validate"))
    monkeypatch.setattr("edgekit_mil.passes.pipeline.tell_step", lambda: called.append("pass"))

    optimize(program, lambda operation: True)

    assert called.count("validate") == 1
    assert called[-1] == "validate"

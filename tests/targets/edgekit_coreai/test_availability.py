from __future__ import annotations

import platform

import pytest

from edgekit.errors import InputError
from edgekit_coreai import availability
from edgekit_coreai.profiles import PROFILES
from edgekit_coreai.target import CoreAITarget


def test_a_system_that_has_wheels_is_not_told_that_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "is_available", lambda: False)
    with pytest.raises(InputError) as raised:
        CoreAITarget().require_installed(PROFILES[0])
    assert str(raised.value) == (
        "coreai-core: Apple's Core AI is not installed\n"
        "expected: the package coreai-core, which has wheels for Linux on x86-64 and for macOS\n"
        f"found: none, on {platform.system()} {platform.machine()}\n"
        "hint: pip install 'coreai-core==1.0.0b3'"
    )

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOWER = 'f (string[2] x) => (string[2] y) {{ y = StringNormalizer <case_change_action = "LOWER", locale = "{0}"> (x) }}'


@pytest.mark.parametrize(
    "command",
    [("package", "--target", "intel-cpu"), ("package", "--target", "web"), ("quantize", "--scheme", "float16")],
)
def test_a_model_with_a_locale_that_the_system_lacks(
    command: tuple[str, ...], edgekit: Callable[..., Any], onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    """What scikit-learn's exporter writes, in a container without locales: no device is to blame."""
    verb, *options = command
    model = onnx_file(LOWER.format("xx_YY.UTF-8"))
    finished = edgekit(verb, model, *options, "-o", tmp_path / "out", "-q")
    assert finished.code == 1
    assert "changes texts by the locale xx_YY.UTF-8, which this system does not have\n" in finished.err
    assert finished.err.endswith(
        "hint: install the locale here (on Debian: `apt-get install locales` and "
        "`localedef -i xx_YY -f UTF-8 xx_YY.UTF-8`), or export the model with the locale C\n"
    )
    assert finished.err.count("localedef") == 1
    assert "extract" not in finished.err


def test_the_locale_c_is_everywhere(
    edgekit: Callable[..., Any], onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    model = onnx_file(LOWER.format("C"))
    assert edgekit("package", model, "--target", "web", "-o", tmp_path / "out", "-q").code == 0

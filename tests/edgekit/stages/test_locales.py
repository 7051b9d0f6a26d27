from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgekit import load
from edgekit.execution.locales import name_known_locales

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


def test_a_locale_that_changes_letters_the_same_way_takes_the_place_of_one_that_the_system_lacks(
    edgekit: Callable[..., Any], onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    model = onnx_file(LOWER.format("en_ZZ.UTF-8"))
    finished = edgekit("package", model, "--target", "web", "-o", tmp_path / "out", "-q")
    assert (finished.code, finished.err.count("warning: node 'y' (StringNormalizer)")) == (0, 1)
    assert (
        "warning: node 'y' (StringNormalizer) changes texts by the locale en_ZZ.UTF-8, which this system does not "
        "have: C.UTF-8 is used instead, which changes letters the same way; a bundle that keeps the node needs "
        "C.UTF-8 on its device\n"
    ) in finished.err
    assert edgekit("verify", tmp_path / "out", "-q").code == 0
    texts = np.array(["ÄRGER İ", "Straße"])
    lowered = load(tmp_path / "out").run({"x": texts})["y"]
    assert list(lowered) == ["ärger i", "straße"]  # UnicodeData.txt: U+0130's simple lower case is i


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_locale_that_the_system_has_stays(locale: str) -> None:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {LOWER.format(locale)}')
    before = proto.SerializeToString()
    assert name_known_locales(proto) == []
    assert proto.SerializeToString() == before

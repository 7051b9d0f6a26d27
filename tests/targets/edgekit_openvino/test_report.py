from __future__ import annotations

import pytest

from edgekit_openvino.report import last_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Exception from src/inference/src/cpp/core.cpp:106:\n"
            "Check 'false' failed at src/frontends/x.cpp:77:\nthe axis is out of range\n\n",
            "the axis is out of range",
        ),
        (
            "Exception from src/inference/src/cpp/core.cpp:106:\n"
            "Check 'shape.size() == 2' failed at src/plugins/intel_cpu/src/node.cpp:12:\n\n",
            "Check 'shape.size() == 2' failed",
        ),
        ("Exception from src/inference/src/cpp/core.cpp:106:\n", "RuntimeError"),
        ("", "RuntimeError"),
    ],
)
def test_the_last_line_that_tells_a_cause(text: str, line: str) -> None:
    assert last_line(RuntimeError(text)) == line

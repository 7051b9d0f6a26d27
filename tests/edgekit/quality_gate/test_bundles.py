from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit.config import Budget, Inconclusive, read_config
from edgekit.quality_gate.bundles import Candidate, Judged, candidates_of

PROJECT = """
[budget]
size = 10
[[bundle]]
name = "one"
model = "one.onnx"
target = "ort"
budget = { size = 20 }
[[bundle]]
name = "two"
model = "two.onnx"
target = "ort"
output = "there"
"""


def test_who_passes(judged: Callable[..., list[Judged]]) -> None:
    assert [one.passed for one in judged()] == [True, False, True, False, True]
    assert [one.exit_code for one in judged()] == [0, 1, 0, 2, 0]
    assert [verdict.budget for verdict in judged()[1].failed] == ["size"]


@pytest.mark.parametrize(
    ("inconclusive", "passed", "doubtful"),
    [(Inconclusive.PASS, True, 0), (Inconclusive.WARN, True, 1), (Inconclusive.FAIL, False, 0)],
)
def test_what_is_not_clear(
    judged: Callable[..., list[Judged]], inconclusive: Inconclusive, passed: bool, doubtful: int
) -> None:
    odd = judged(inconclusive)[2]
    assert (odd.passed, len(odd.doubtful)) == (passed, doubtful)
    assert [verdict["passed"] for verdict in odd.as_record()["verdicts"]] == [True, passed]


def test_a_name_that_several_targets_have_in_common(tmp_path: Path) -> None:
    file = tmp_path / "edgekit.toml"
    file.write_text('[[bundle]]\nname = "many"\nmodel = "m.onnx"\ntargets = ["ort", "ios18"]\n')
    found = candidates_of(read_config(file), [Path("many")], None)
    assert [(one.name, one.path) for one in found] == [
        ("many-ort", tmp_path / "bundles" / "many-ort"),
        ("many-ios18", tmp_path / "bundles" / "many-ios18"),
    ]


def test_what_is_judged(tmp_path: Path) -> None:
    file = tmp_path / "edgekit.toml"
    file.write_text(PROJECT)
    config = read_config(file)
    one = Candidate(tmp_path / "bundles" / "one", "one", Budget(size=20), tmp_path / "one.onnx")
    two = Candidate(tmp_path / "there", "two", Budget(size=10), tmp_path / "two.onnx")
    assert candidates_of(config, [], None) == [one, two]
    assert candidates_of(config, [tmp_path / "there"], None) == [two]
    given = tmp_path / "other.onnx"
    assert candidates_of(config, [tmp_path / "there"], given) == [Candidate(two.path, "two", two.budget, given)]
    unknown = tmp_path / "elsewhere"
    assert candidates_of(config, [unknown], given) == [Candidate(unknown, None, Budget(size=10), given)]
    assert candidates_of(config, [Path("two")], None) == [two]
    assert candidates_of(config, [Path("two"), tmp_path / "there", tmp_path / "bundles" / ".." / "there"], None) == [
        two
    ]
    assert candidates_of(None, [unknown], None) == [Candidate(unknown, None, Budget())]
    assert candidates_of(None, [], None) == []

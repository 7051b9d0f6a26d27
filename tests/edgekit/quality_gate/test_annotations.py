from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit.config import Inconclusive
from edgekit.quality_gate.annotations import annotation_lines
from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.verdict import Outcome, Verdict

PROJECT = '[[bundle]]\nname = "good"\n\n[[bundle]]\n  name = \'bad\'\n[[bundle]]\nname = "odd"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    file = tmp_path / "models" / "edgekit.toml"
    file.parent.mkdir()
    file.write_text(PROJECT)
    return file


def test_remarks_stand_where_the_bundle_is_declared(judged: Callable[..., list[Judged]], project: Path) -> None:
    assert list(annotation_lines(judged(), project)) == [
        "::error file=models/edgekit.toml,line=5,title=bad%3A size::broken: 83.14 kB <& more>; wanted at most 80 kB",
        "::warning file=models/edgekit.toml,line=7,title=odd%3A latency"
        "::inconclusive: 0.500 (0.480 – 0.520); wanted at most 0.50",
        "::error file=models/edgekit.toml,line=1,title=gone"
        "::bundles/gone: has not been built%0Ahint: `edgekit build` builds it",
    ]


def test_bundles_of_several_targets_stand_where_their_common_name_is(
    judged: Callable[..., list[Judged]], project: Path
) -> None:
    project.write_text('[[bundle]]\nname = "good"\n\n[[bundle]]\nname = "many"\ntargets = ["a", "b"]\n')
    (line,) = annotation_lines([judged()[1]], project, {"bad": "many"})
    assert line.startswith("::error file=models/edgekit.toml,line=5,title=bad%3A size::")


def test_what_is_not_clear_is_an_error_or_nothing(judged: Callable[..., list[Judged]], project: Path) -> None:
    def kinds(inconclusive: Inconclusive) -> list[str]:
        return [line.split()[0] for line in annotation_lines([judged(inconclusive)[2]], project)]

    assert kinds(Inconclusive.FAIL) == ["::error"]
    assert kinds(Inconclusive.PASS) == []


def test_without_a_project_file_there_is_no_place() -> None:
    verdict = Verdict("size", "at most 1%", "2, or\r\nmore", Outcome.BROKEN)
    assert list(annotation_lines([Judged(Path("a"), "a,b", (verdict,))], None)) == [
        "::error title=a%2Cb%3A size::broken: 2, or%0D%0Amore; wanted at most 1%25"
    ]


def test_a_project_file_outside_the_workspace(
    judged: Callable[..., list[Judged]], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent / "elsewhere"))
    (line,) = annotation_lines([judged()[1]], project)
    assert line.startswith(f"::error file={project.as_posix()},line=5,")

"""What build tells of the flags that texts name."""

import re
from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit.progress import Progress
from edgekit.project.keys import KEYS, KeysInWarnings, explained_with_keys, project_keys_for

_PAGE = Path(__file__).parents[3] / "docs" / "project-file.md"
_ROW = re.compile(r"^\| `(\w+)` \|.*\| `(--[a-z-]+)` \|$", re.MULTILINE)


def _documented() -> dict[str, str]:
    return {flag: key for key, flag in _ROW.findall(_PAGE.read_text(encoding="utf-8"))}


def test_every_flag_that_the_page_of_the_project_file_names_has_its_key():
    assert _documented() == KEYS


class _Heard(Progress):
    def __init__(self) -> None:
        self.told: list[str] = []

    def warn(self, text: str) -> None:
        self.told.append(text)


def test_warnings_tell_the_keys():
    heard = _Heard()
    KeysInWarnings(heard).warn("--verify-data DIR measures it on others")
    KeysInWarnings(heard).warn("all is well")
    assert heard.told == [
        "--verify-data DIR measures it on others (in the project file --verify-data is `verify_data`)",
        "all is well",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("repeat this choice with --like", "--like is an option of `edgekit package`"),
        ("fix it with --dim n=1 or --shape", "in the project file --dim is `dims`, --shape is `shapes`"),
        ("`edgekit verify BUNDLE --data DIR` repeats it", ""),
        ("--dim n=1 (in a project file dims = { n = 1 })", ""),
        ("--max-dropped is no flag", ""),
    ],
)
def test_what_is_told_of_a_text(text, told):
    assert project_keys_for(text) == told


def test_errors_tell_the_keys_in_their_hint():
    without = explained_with_keys(lambda _: InputError("has no size", subject="--dim n"), ValueError())
    with_hint = explained_with_keys(
        lambda _: InputError("is short", hint="give real samples with --data"), ValueError()
    )
    assert without.hint == "in the project file --dim is `dims`"
    assert with_hint.hint == "give real samples with --data (in the project file --data is `data`)"

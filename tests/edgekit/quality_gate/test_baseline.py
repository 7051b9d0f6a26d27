from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit.quality_gate.baseline import Figures, MachineRatio, read_baseline, write_baseline
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.measuring import Ratio

HERE, THERE = Machine("A", 2, "Linux x86_64"), Machine("B", 8, "Darwin arm64")
MEASURED = Ratio(0.5, 0.49, 0.51, 100, 3.0)
FIRST = Figures("a" * 64, 1000, 0.9, (MachineRatio(THERE, 0.4, 0.39, 0.41),))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    write_baseline(file, {"second": Figures("b" * 64, 7, None), "first": FIRST})
    assert read_baseline(file) == {"first": FIRST, "second": Figures("b" * 64, 7, None)}
    assert list(json.loads(file.read_text())["bundles"]) == ["first", "second"]
    assert file.read_text().endswith("}\n")


def test_figures_of_other_bundles_stay(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    write_baseline(file, {"first": FIRST})
    write_baseline(file, {"second": FIRST})
    assert set(read_baseline(file)) == {"first", "second"}


def test_each_machine_has_a_ratio_of_its_own() -> None:
    both = FIRST.with_ratio(HERE, MEASURED, FIRST)
    assert both.on(THERE) == FIRST.on(THERE)
    assert both.on(HERE) == MachineRatio(HERE, 0.5, 0.49, 0.51)
    again = FIRST.with_ratio(HERE, Ratio(0.6, 0.5, 0.7, 1, 1.0), both)
    assert [known.machine for known in again.latency] == [THERE, HERE]
    assert again.on(HERE) == MachineRatio(HERE, 0.6, 0.5, 0.7)
    assert FIRST.with_ratio(HERE, None, both) == both  # nothing was measured: what was known of the bundle still holds


def test_ratios_of_another_build_are_forgotten() -> None:
    built_anew = Figures("c" * 64, 900, 0.9)
    assert built_anew.with_ratio(HERE, MEASURED, FIRST).latency == (MachineRatio(HERE, 0.5, 0.49, 0.51),)
    assert built_anew.with_ratio(HERE, None, FIRST).latency == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "cannot be read: "),
        ("[]", "is no baseline\nexpected: what schema version 2 describes\nfound: [] is not of type 'object'"),
        ('{"schema_version": 1, "bundles": {}}', "found: schema_version: 2 was expected\nhint: if another version"),
        ('{"schema_version": 2, "bundles": {"a": {}}}', "found: bundles.a: 'fingerprint' is a required property"),
    ],
)
def test_a_file_that_is_no_baseline(tmp_path: Path, text: str, found: str) -> None:
    file = tmp_path / "baseline.json"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(found)):
        read_baseline(file)
    with pytest.raises(InputError, match=re.escape(found)):
        write_baseline(file, {"first": FIRST})
    assert file.read_text() == text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as failure:
        read_baseline(tmp_path / "no.json")
    assert str(failure.value) == (
        f"{tmp_path}/no.json: there is no baseline\n"
        f"hint: `edgekit gate --baseline {tmp_path}/no.json --update` writes one"
    )

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from edgekit.comparison.numbers.metrics import OutputComparison
from edgekit.device_check.golden_check import OutputTally, compare, damage, note_by_default

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("error", [0.0, 1e-6, 0.1, 10.0])
def test_it_finds_the_figures_that_the_pipeline_finds(error: float) -> None:
    tally, comparison = OutputTally("y", 20.0, None), OutputComparison("y")
    for _ in range(3):
        golden = RANDOM.standard_normal((2, 7)).astype(np.float32)
        golden[0, 0] = np.nan
        actual = golden + (error * RANDOM.standard_normal((2, 7))).astype(np.float32)
        tally.add(golden, actual)
        comparison.add(golden, actual)
    expected = comparison.result()
    assert expected.sqnr_db is not None
    assert expected.max_abs_error is not None
    assert tally.sqnr_db == pytest.approx(expected.sqnr_db, rel=1e-9)
    assert tally.max_abs_error == pytest.approx(expected.max_abs_error)
    assert tally.passed == (expected.sqnr_db >= 20)


def test_a_hundredth_of_the_amplitude_is_forty_decibels() -> None:
    tally = OutputTally("y", 40.0, None)
    tally.add(np.array([3.0, 4.0]), np.array([3.0, 4.05]))
    assert tally.sqnr_db == pytest.approx(40)  # 25 / 0.0025


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_infinity_and_nan_on_one_side_fail(wrong: float) -> None:
    tally = OutputTally("y", 20.0, None)
    tally.add(np.ones(1000, np.float32), np.where(np.arange(1000) == 7, wrong, 1).astype(np.float32))
    assert not tally.passed
    assert "one side" in str(tally)


def test_another_shape_fails() -> None:
    tally = OutputTally("y", 20.0, None)
    tally.add(np.ones((1, 3)), np.ones((3, 1)))
    assert not tally.passed
    assert "(3, 1) instead of (1, 3)" in str(tally)


def test_an_output_without_signal_must_be_exact() -> None:
    silent = OutputTally("y", 20.0, None)
    silent.add(np.zeros(3), np.zeros(3))
    assert (silent.passed, silent.sqnr_db) == (True, math.inf)
    silent.add(np.zeros(3), np.full(3, 1e-9))
    assert (silent.passed, silent.as_record()["sqnr_db"]) == (False, "-inf")


def test_integers_are_judged_by_their_unequal_elements() -> None:
    tally = OutputTally("y", None, 0.25)
    tally.add(np.arange(4), np.array([0, 1, 2, 9]))
    assert tally.passed
    tally.add(np.arange(1), np.array([1]))
    assert not tally.passed


def test_every_sample_of_a_bundle_is_run_in_the_manifests_order(tmp_path: Path) -> None:
    manifest = {
        "inputs": [{"name": "a"}, {"name": "b"}],
        "outputs": [{"name": "difference"}],
        "golden": {"samples": 2, "outputs": [{"name": "difference", "floor_db": 60, "max_mismatch": None}]},
    }
    for sample in range(2):
        for kind, arrays in (("inputs", [5.0 + sample, 3.0]), ("outputs", [2.0 + sample])):
            folder = tmp_path / "golden" / str(sample) / kind
            folder.mkdir(parents=True)
            for position, value in enumerate(arrays):
                np.save(folder / f"{position}.npy", np.array([value], np.float32))
    manifest = json.loads(json.dumps(manifest))
    (right,) = compare(lambda inputs: [inputs[0] - inputs[1]], manifest, tmp_path)
    assert right.passed
    (wrong,) = compare(lambda inputs: [inputs[0] * 0 + 2], manifest, tmp_path)
    assert not wrong.passed


def test_the_weights_of_a_model_that_is_a_folder_have_to_be_the_same(tmp_path: Path) -> None:
    """Tools that open such a model alone write its description anew."""
    files = {"m.package/weights/weight.bin": b"weights", "m.package/description": b"a, b", "report.md": b"text"}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    records = [{"path": name, "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()]
    manifest = {"model": {"main": "m.package", "files": ["m.package"], "alternatives": []}, "files": records}
    assert damage(manifest, tmp_path) == []
    (tmp_path / "m.package/description").write_bytes(b"b, a")
    (tmp_path / "report.md").unlink()
    assert damage(manifest, tmp_path) == []
    (tmp_path / "m.package/weights/weight.bin").write_bytes(b"wEights")
    (told,) = damage(manifest, tmp_path)
    assert told.startswith("m.package/weights/weight.bin: is not the file that was packaged: SHA-256 ")
    (tmp_path / "m.package/description").unlink()
    assert "m.package/description: is not there" in damage(manifest, tmp_path)


def test_what_an_app_gets_that_sets_nothing_is_told_where_it_is_wrong() -> None:
    right, wrong = OutputTally("right", 20.0, None), OutputTally("wrong", 20.0, None)
    right.add(np.array([3.0, 4.0]), np.array([3.0, 4.05]))
    wrong.add(np.array([3.0, 4.0]), np.array([3.0, 9.0]))
    manifest = {"model": {"app_settings": {"PRECISION": "full"}}}
    assert note_by_default([right], "bf16", manifest) == ""
    assert note_by_default([right, wrong], "bf16", manifest) == (
        "note: an app has to set PRECISION=full: without it, in bf16, "
        "wrong: max abs error 5, SQNR 0.0 dB (at least 20.0 dB)\n"
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<net>\n</net>\n", []),
        (
            b"<net>\r\n</net>\r\n",
            [
                "model.xml: has CRLF line ends in place of LF, as git with core.autocrlf writes them; "
                "`* -text` in .gitattributes keeps them"
            ],
        ),
    ],
)
def test_line_ends_that_git_converted_are_told(content: bytes, told: list[str], tmp_path: Path) -> None:
    (tmp_path / "model.xml").write_bytes(content)
    record = {"path": "model.xml", "sha256": hashlib.sha256(b"<net>\n</net>\n").hexdigest()}
    assert damage({"model": {"files": ["model.xml"]}, "files": [record]}, tmp_path) == told

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import edgekit
from edgekit.errors import InputError
from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.verdict import Outcome


@pytest.fixture
def recorded(digits: Path, tmp_path: Path) -> Path:
    """Six samples of digits with what ONNX Runtime computes on them."""
    folder = tmp_path / "recorded"
    folder.mkdir()
    session = onnxruntime.InferenceSession(digits, providers=["CPUExecutionProvider"])
    given, made = session.get_inputs()[0], session.get_outputs()[0]
    rng = np.random.default_rng(5)
    for number in range(6):
        x = rng.random([size if isinstance(size, int) else 1 for size in given.shape], np.float32)
        outputs = {f"output:{made.name}": session.run([made.name], {given.name: x})[0]}
        np.savez(folder / f"{number}.npz", **{given.name: x}, **outputs)
    return folder


def spoil(folder: Path) -> None:
    """Halves the recorded outputs, as if the export lacked the last factor of two."""
    for file in folder.iterdir():
        with np.load(file) as arrays:
            spoiled = {name: arrays[name] * (0.5 if name.startswith("output:") else 1) for name in arrays.files}
        np.savez(file, **{name: array.astype(np.float32) for name, array in spoiled.items()})


def judged(bundle: Path, data: Path, *, config: Path | None = None, model: Path | None = None) -> Judged:
    (one,) = edgekit.gate(bundle, data=data, config=config, model=model).bundles
    return one


def test_recorded_outputs_are_what_a_bundle_is_held_against(packaged_digits: Path, recorded: Path) -> None:
    (verdict,) = judged(packaged_digits, recorded).verdicts
    assert (verdict.budget, verdict.outcome) == ("outputs on samples", Outcome.KEPT)
    assert verdict.limit == "the outputs recorded with the samples"
    assert verdict.found.endswith("of 6 samples")
    spoil(recorded)
    (verdict,) = judged(packaged_digits, recorded).verdicts
    assert verdict.outcome is Outcome.BROKEN
    assert "is not accurate enough" in verdict.found


def test_the_export_is_blamed_where_it_does_not_compute_what_was_recorded(
    packaged_digits: Path, digits: Path, recorded: Path
) -> None:
    (verdict,) = judged(packaged_digits, recorded, model=digits).verdicts
    assert verdict.outcome is Outcome.KEPT
    assert verdict.limit.startswith("ONNX Runtime")
    spoil(recorded)
    (verdict,) = judged(packaged_digits, recorded, model=digits).verdicts
    assert verdict.outcome is Outcome.BROKEN
    assert "the fault is in the export, not in the target" in verdict.found


def test_labels_need_a_budget(packaged_digits: Path, recorded: Path, tmp_path: Path) -> None:
    labelled = tmp_path / "labelled"
    for file in recorded.iterdir():
        with np.load(file) as arrays:
            inputs = {name: arrays[name] for name in arrays.files if not name.startswith("output:")}
            (scores,) = (arrays[name] for name in arrays.files if name.startswith("output:"))
        place = labelled / str(int(scores.argmax()))
        place.mkdir(parents=True, exist_ok=True)
        np.savez(place / file.name, **inputs)
    alone = judged(packaged_digits, labelled)
    assert isinstance(alone.error, InputError)
    assert alone.error.message == "the samples have labels only, and there is no budget for them"
    assert "set `accuracy` in the table [budget]" in str(alone.error.hint)
    project = tmp_path / "edgekit.toml"
    project.write_text("[budget]\naccuracy = 0.9\n")
    verdicts = judged(packaged_digits, labelled, config=project).verdicts
    counted = next(verdict for verdict in verdicts if verdict.budget == "accuracy on samples")
    assert (counted.limit, counted.found) == ("at least 90.00%", "100.00% of 6 samples")
    assert counted.outcome is Outcome.KEPT


def test_pictures_become_the_input_as_the_project_says(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    """The project file beside the samples, of another project, was read instead."""
    text = "f (float[1, 3, 1, 2] x) => (float[1, 6] y) { y = Flatten (x) }"
    bundle = edgekit.package(onnx_file(text), "onnxruntime", tmp_path / "bundle")
    data = tmp_path / "elsewhere" / "data"
    (data / "2").mkdir(parents=True)
    Image.new("RGB", (2, 1), "white").save(data / "2" / "white.png")
    table = '[preprocessing]\nkind = "image"\nscale = "1/255"\nmean = {}\n'
    (data.parent / "edgekit.toml").write_text(table.format([-1, 0, 0]))  # the greatest channel is the first
    project = tmp_path / "edgekit.toml"
    project.write_text(f"{table.format([0, -1, 0])}[budget]\naccuracy = 1.0\n")
    verdicts = judged(bundle.path, data, config=project).verdicts
    assert [each.found for each in verdicts if each.budget == "accuracy on samples"] == ["100.00% of 1 samples"]
    unsaid = tmp_path / "other.toml"
    unsaid.write_text("[budget]\naccuracy = 1.0\n")
    verdicts = judged(bundle.path, data, config=unsaid).verdicts
    assert [each.found for each in verdicts if each.budget == "accuracy on samples"] == ["0.00% of 1 samples"]


def test_samples_that_nothing_is_known_of(packaged_digits: Path, recorded: Path) -> None:
    for file in recorded.iterdir():
        with np.load(file) as arrays:
            inputs = {name: arrays[name] for name in arrays.files if not name.startswith("output:")}
        np.savez(file, **inputs)
    error = judged(packaged_digits, recorded).error
    assert error is not None
    assert "no labels and no recorded outputs" in error.message

from pathlib import Path

import pytest

from edgekit import fingerprint as module
from edgekit.fingerprint import data_files, fingerprint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("content")
    return tmp_path / "file"


def test_it_is_the_same_for_the_same(file: Path) -> None:
    assert fingerprint({"a": file}, {"x": 1, "y": 2}) == fingerprint({"a": file}, {"y": 2, "x": 1})


def test_it_changes_with_everything_that_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint({"a": file}, {"x": 1})
    others = {fingerprint({"b": file}, {"x": 1}), fingerprint({"a": file}, {"x": 2})}
    file.write_text("other content")
    others.add(fingerprint({"a": file}, {"x": 1}))
    file.write_text("content")
    assert fingerprint({"a": file}, {"x": 1}) == before
    monkeypatch.setattr(module, "version", lambda package: f"99.{len(package)}")
    others.add(fingerprint({"a": file}, {"x": 1}))
    assert len(others) == 4
    assert before not in others


def test_versions_of_the_runtimes_count() -> None:
    assert {"edgekit", "onnxruntime", "openvino", "coremltools", "numpy"} <= module._versions().keys()


def test_data_go_by_their_path_inside(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "a.png").touch()
    (tmp_path / "labels.csv").touch()
    assert data_files(tmp_path) == {"1/a.png": tmp_path / "1" / "a.png", "labels.csv": tmp_path / "labels.csv"}


def test_packages_that_bring_plugins_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages with plugins of every kind count, though the list of installed packages is read once."""
    for kind in ("targets", "devices", "quantizers", "rewrites", "witnesses"):
        folder = tmp_path / f"acme_{kind}-1.5.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-{kind}\nVersion: 1.5\nRequires-Dist: numpy>=1\n"
            "Requires-Dist: acme-absent\nRequires-Dist: acme-optional; extra == 'more'\n"
        )
        (folder / "entry_points.txt").write_text(f"[edgekit.{kind}]\nacme = acme:Plugin\n")
    before = module._versions()
    monkeypatch.syspath_prepend(tmp_path)
    added = dict(module._versions().items() - before.items())
    assert added == {
        "acme-targets": "1.5",
        "acme-devices": "1.5",
        "acme-quantizers": "1.5",
        "acme-rewrites": "1.5",
        "acme-witnesses": "1.5",
        "acme-absent": "none",
    }

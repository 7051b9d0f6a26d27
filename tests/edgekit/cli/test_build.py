from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunEdgeKit = Callable[..., Any]

PROJECT = """
[[bundle]]
name = "first"
model = "model.onnx"
target = "onnxruntime"

[[bundle]]
name = "second"
model = "model.onnx"
target = "intel-cpu"
shapes = { x = [2, 3] }
output = "elsewhere/second"
"""
EXP = "f (float[N, 3] x) => (float[N, 3] y) { y = Exp(x) }"


@pytest.fixture
def project(tmp_path: Path, onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx_file(EXP)
    config = tmp_path / "edgekit.toml"
    config.write_text(PROJECT.replace('"onnxruntime"', '"onnxruntime"\ndims = { N = 1 }'))
    monkeypatch.chdir(tmp_path)
    return config


def skipped(edgekit: RunEdgeKit, *options: str) -> list[bool]:
    finished = edgekit("build", "--json", *options)
    assert finished.code == 0
    return [bundle["skipped"] for bundle in finished.json["bundles"]]


def test_bundles_are_built_once(edgekit: RunEdgeKit, project: Path) -> None:
    finished = edgekit("build")
    assert finished.code == 0
    assert finished.out.count("built") >= 2
    assert "bundles/first" in finished.out
    assert (project.parent / "bundles" / "first" / "manifest.json").is_file()
    assert (project.parent / "elsewhere" / "second" / "model.xml").is_file()
    assert skipped(edgekit) == [True, True]
    assert "up to date" in edgekit("build").out
    assert skipped(edgekit, "--force") == [False, False]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda root: (root / "model.onnx").write_bytes((root / "model.onnx").read_bytes() + b"\x32\x00"),
            [False, False],
        ),
        (
            lambda root: (root / "edgekit.toml").write_text(
                (root / "edgekit.toml").read_text().replace("2, 3", "4, 3")
            ),
            [True, False],
        ),
        (lambda root: (root / "bundles" / "first" / "report.md").unlink(), [False, True]),
        (lambda root: (root / "elsewhere" / "second" / "manifest.json").write_text("{}"), None),
    ],
    ids=["model", "option", "bundle", "not a bundle any more"],
)
def test_what_has_changed_is_built_again(
    edgekit: RunEdgeKit, project: Path, change: Callable[[Path], Any], expected: list[bool] | None
) -> None:
    assert skipped(edgekit) == [False, False]
    change(project.parent)
    if expected is None:
        finished = edgekit("build", "--quiet")
        assert finished.code == 2
        assert "exists and is not a bundle" in finished.err
    else:
        assert skipped(edgekit) == expected


def test_changed_data(edgekit: RunEdgeKit, project: Path) -> None:
    import numpy as np

    data = project.parent / "data"
    data.mkdir()
    np.savez(data / "0.npz", x=np.ones((1, 3), np.float32))
    project.write_text(
        '[[bundle]]\nname = "one"\nmodel = "model.onnx"\ntarget = "ort"\ndims = { N = 1 }\n'
        'data = "data"\nquantize = "none"\n'
    )
    assert skipped(edgekit) == [False]
    assert skipped(edgekit) == [True]
    np.savez(data / "0.npz", x=np.zeros((1, 3), np.float32))
    assert skipped(edgekit) == [False]


def test_a_project_somewhere_else(edgekit: RunEdgeKit, project: Path, tmp_path_factory: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert skipped(edgekit, "--config", str(project)) == [False, False]
    finished = edgekit("build", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: there is no edgekit.toml here or in a folder above\nhint: `--config FILE` names one\n"
    )


def test_the_bundles_before_a_failure_are_there(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text(project.read_text().replace("intel-cpu", "toaster"))
    finished = edgekit("build", "--quiet")
    assert finished.code == 2
    assert "there is no target 'toaster'" in finished.err
    assert (project.parent / "bundles" / "first" / "manifest.json").is_file()


def test_a_project_without_bundles(edgekit: RunEdgeKit, project: Path) -> None:
    project.write_text("")
    finished = edgekit("build", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: edgekit.toml: declares no bundle\n"
        "expected: [[bundle]] with name, model and target\n"
        'hint: for instance name = "digits-ios", model = "digits.onnx", target = "ios18"\n'
    ).replace("edgekit.toml", str(project))


def test_a_measure_of_the_projects_own(edgekit: RunEdgeKit, project: Path, tmp_path_factory: Any) -> None:
    import numpy as np

    name = f"scores_{project.parent.name}"
    module = project.parent / f"{name}.py"
    module.write_text("def mean(run, samples):\n    return sum(run(s.feeds)['y'].mean() for s in samples)\n")
    data = project.parent / "data"
    data.mkdir()
    np.savez(data / "0.npz", x=np.ones((1, 3), np.float32))
    project.write_text(
        '[[bundle]]\nname = "one"\nmodel = "model.onnx"\ntarget = "ort"\ndims = { N = 1 }\n'
        f'data = "data"\nquantize = "none"\nmetric = "{name}:mean"\n'
    )
    assert skipped(edgekit) == [False]
    assert skipped(edgekit) == [True]
    module.write_text(module.read_text() + "# changed\n")
    assert skipped(edgekit) == [False]

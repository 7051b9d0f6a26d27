"""What is published: workflows that GitHub takes, and a wheel that works without the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import edgekit

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "sample_apps" / "digits"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def run(*command: object, folder: Path = ROOT, **variables: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.github-actions", [ROOT / "action.yml"]),
        (
            "vendor.github-issue-forms",
            [ROOT / ".github" / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "feature.yml")],
        ),
    ],
)
def test_github_s_schemas_hold(schema: str, files: list[Path]) -> None:
    pytest.importorskip("check_jsonschema")
    assert files
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files)


def test_what_workflows_make_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for workflow in WORKFLOWS:
        for made in re.findall(r"run: make (.+)", workflow.read_text()):
            asked = re.sub(r"[A-Z]+=(\$\{\{.*?\}\}|\S+)", "", made)  # variables
            assert set(asked.split()) <= targets, workflow


def test_the_lowest_versions_that_are_tried_are_the_lower_bounds() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = dict(requirement.split(">=") for requirement in required)
    assert tried.keys() == bounds.keys()
    assert [name for name, bound in bounds.items() if not f"{tried[name]}.".startswith(f"{bound}.")] == []


def test_pre_commit_has_the_pinned_versions() -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    revisions = {one["repo"].rpartition("/")[2].removesuffix("-pre-commit"): one["rev"] for one in hooks}
    assert {name: revision.removeprefix("v") for name, revision in revisions.items()} == {
        name: pinned[name] for name in revisions
    }


def test_what_hints_install_is_what_the_extras_say() -> None:
    """Hints name the packages themselves: the name of this one belongs to another project on PyPI."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    told = {name: extras[name][0].partition(";")[0].strip() for name in ("qnn", "coreai", "cluster")}
    sources = "".join(file.read_text() for folder in ("edgekit", "targets") for file in (ROOT / folder).rglob("*.py"))
    assert [name for name, requirement in told.items() if requirement not in sources] == []


def test_nothing_tells_to_install_another_project() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "sample_apps").rglob("*.md")]
    files += [file for folder in ("edgekit", "quantize", "targets") for file in (ROOT / folder).rglob("*.py")]
    command = re.compile(r"pip install [^\n#`]*(?<![\w/.+-])edgekit(\[|\b(?![\w/.@-]))")
    found = {str(file.relative_to(ROOT)): match[0] for file in files if (match := command.search(file.read_text()))}
    assert found == {}


def test_the_version_stands_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "edgekit/__init__.py"
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"\n## {edgekit.__version__}\n" in changelog
    assert "\n## Unreleased\n" in changelog


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir())
    (made,) = folder.glob("*.whl")
    assert (folder / f"edgekit-{edgekit.__version__}.tar.gz").is_file()
    return made


@pytest.mark.slow
def test_the_wheel_packages_the_digits_by_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.startswith(("tests/", "docs/", "sample_apps/"))]
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel)
    # The dependencies are those of this environment: 1 GB that need not be installed twice. Its own EdgeKit comes later
    # on the path, and a .pth file in a folder that is itself named by one is not read.
    shared = [folder for folder in sys.path if folder.endswith("-packages")] or [sysconfig.get_path("purelib")]
    (site / "shared.pth").write_text("\n".join(shared) + "\n")
    where = run(
        python,
        "-c",
        "import edgekit, edgekit_quantize; print(edgekit.__file__, edgekit_quantize.__file__)",
        folder=tmp_path,
    )
    assert all(Path(place).is_relative_to(site) for place in where.split())
    options = ["--dim", "batch=1", "--data", DIGITS / "samples" / "calibration", "--labels", DIGITS / "labels.txt"]
    for target in ("ios18", "intel-cpu"):
        model = [DIGITS / "digits_torchscript.onnx", "--target", target, "--quantize", "int8"]
        run(python, "-m", "edgekit", "package", *model, *options, "-o", tmp_path / target, folder=tmp_path)
    picture = DIGITS / "samples" / "test" / "000.png"
    script = f"import edgekit; print(edgekit.load('intel-cpu')({str(picture)!r})[0].label)"
    assert run(python, "-c", script, folder=tmp_path).strip() == "8"

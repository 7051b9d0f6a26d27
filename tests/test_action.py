"""The composite action at the root, its scripts executed as GitHub's runner executes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
DEFAULTS = {name: described["default"] for name, described in ACTION["inputs"].items()}
AFTER_THE_BUILD = "${{ !cancelled() && steps.install.outcome != 'failure' }}"
"""Whatever became of the build, what is there is judged."""
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}

PROJECT = """
[[bundle]]
name = "exp"
model = "model.onnx"
target = "onnxruntime"
dims = { N = 1 }
[budget]
size = "%s"
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="GitHub's runner executes the scripts with bash")


def expanded(text: str, inputs: Mapping[str, str]) -> str:
    """The text with its ``${{ … }}`` replaced, as far as the action uses them."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "github.action_path":
            return str(ROOT)
        return inputs[match[1].removeprefix("inputs.")]

    return re.sub(r"\$\{\{ ([a-z._-]+) \}\}", value, text)


def wanted(step: Mapping[str, Any], inputs: Mapping[str, str]) -> bool:
    """What the step's condition says."""
    if step.get("if") == AFTER_THE_BUILD:  # no step fails here
        return True
    condition = re.fullmatch(r"inputs\.([a-z-]+) (==|!=) '([^']*)'", step.get("if", "inputs.build != ''"))
    assert condition is not None
    return (inputs[condition[1]] == condition[3]) is (condition[2] == "==")


def execute(step: Mapping[str, Any], workspace: Path, inputs: Mapping[str, str], **variables: str) -> Any:
    """Runs a step's script as GitHub does with ``shell: bash``."""
    script = workspace / "step.sh"
    script.write_text(step["run"])
    environment = {name: expanded(text, inputs) for name, text in step.get("env", {}).items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
        cwd=workspace / expanded(step.get("working-directory", "."), inputs),
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(workspace),
            "GITHUB_STEP_SUMMARY": str(workspace / "summary.md"),
            **environment,
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with a project in a folder whose name has a space."""
    import onnx
    from onnx.parser import parse_model

    folder = tmp_path / "my models"
    folder.mkdir()
    graph = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 3] x) => (float[N, 3] y) { y = Exp(x) }'
    onnx.save(parse_model(graph), folder / "model.onnx")
    (folder / "edgekit.toml").write_text(PROJECT % "1 kB")
    return tmp_path


def test_every_input_is_described_and_used_and_every_one_that_is_used_is_there() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert all(described["description"].endswith(".") for described in ACTION["inputs"].values())


def test_scripts_take_inputs_from_the_environment_alone() -> None:
    """An input that stood in a script would be executed: GitHub pastes it in as text."""
    for step in STEPS.values():
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        assert set(re.findall(r"\$\{?([A-Z_]+)", step["run"])) == set(step["env"])


def test_the_defaults_leave_out_no_step() -> None:
    assert list(STEPS) == ["Install EdgeKit", "Build", "Gate"]
    assert all(wanted(step, DEFAULTS) for step in ACTION["runs"]["steps"])
    left_out = {**DEFAULTS, "build": "false", "install": "false", "python-version": ""}
    assert [step["name"] for step in ACTION["runs"]["steps"] if wanted(step, left_out)] == ["Gate"]


def test_a_project_is_built_and_judged(workspace: Path) -> None:
    inputs = {**DEFAULTS, "working-directory": "my models", "jobs": "1"}
    built = execute(STEPS["Build"], workspace, inputs)
    assert built.returncode == 0, built.stderr
    assert (workspace / "my models" / "bundles" / "exp" / "manifest.json").is_file()
    judged = execute(STEPS["Gate"], workspace, inputs)
    assert judged.returncode == 0, judged.stderr
    assert ElementTree.parse(workspace / "my models" / "edgekit-gate.xml").getroot().get("failures") == "0"
    assert "✅ EdgeKit gate: 1 bundle passed" in (workspace / "summary.md").read_text()
    (workspace / "my models" / "edgekit-gate.xml").unlink()
    assert execute(STEPS["Gate"], workspace, {**inputs, "junit": ""}).returncode == 0
    assert [file.name for file in workspace.rglob("*.xml")] == []

    (workspace / "my models" / "edgekit.toml").write_text(PROJECT % "10 B")
    from_above = {**inputs, "working-directory": ".", "config": "my models/edgekit.toml", "junit": "out/gate.xml"}
    broken = execute(STEPS["Gate"], workspace, from_above)
    assert broken.returncode == 1
    assert "::error file=my models/edgekit.toml,line=3,title=exp%3A size::broken: 71 B; wanted" in broken.stderr
    assert ElementTree.parse(workspace / "out" / "gate.xml").getroot().get("failures") == "1"

    shutil.copytree(workspace / "my models" / "bundles", workspace / "the main" / "bundles")
    compared = {**from_above, "against": "the main/bundles", "time-limit": "0.1"}
    assert "size growth" in execute(STEPS["Gate"], workspace, compared).stdout
    compared = {**from_above, "baseline": "the main/no.json"}
    assert "the main/no.json: there is no baseline" in execute(STEPS["Gate"], workspace, compared).stderr


def test_what_was_built_is_judged_though_another_bundle_was_not(workspace: Path) -> None:
    """The build tells by itself what failed: the most frequent regression is one that it refuses."""
    inputs = {**DEFAULTS, "working-directory": "my models", "jobs": "1"}
    bad = '[[bundle]]\nname = "bad"\nmodel = "gone.onnx"\ntargets = ["onnxruntime"]\n'
    (workspace / "my models" / "edgekit.toml").write_text(f"{bad}{PROJECT % '1 kB'}")
    built = execute(STEPS["Build"], workspace, inputs)
    assert built.returncode == 2
    (told,) = [line for line in built.stderr.splitlines() if line.startswith("::error ")]
    assert told.startswith("::error file=my models/edgekit.toml,line=2,title=bad-onnxruntime%3A build::")
    assert "gone.onnx: " in told
    assert STEPS["Gate"]["if"] == AFTER_THE_BUILD
    judged = execute(STEPS["Gate"], workspace, inputs)
    assert judged.returncode == 2
    suites = ElementTree.parse(workspace / "my models" / "edgekit-gate.xml").getroot()
    assert (suites.get("errors"), suites.get("failures")) == ("1", "0")
    summary = (workspace / "summary.md").read_text()
    assert summary.startswith("## ❌ EdgeKit build: 1 of 2 bundles failed\n\n    bad-onnxruntime: ")
    assert "❌ EdgeKit gate: 1 of 2 bundles failed" in summary


@pytest.mark.slow
def test_edgekit_is_installed_from_the_action_itself(workspace: Path) -> None:
    """Into an environment of its own, which borrows what EdgeKit requires: that would take minutes to install."""
    environment = workspace / "environment"
    venv.create(environment, with_pip=True)
    place = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    (place / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    binaries = environment / Path(sysconfig.get_path("scripts")).name
    installed = execute(
        STEPS["Install EdgeKit"], workspace, DEFAULTS, PATH=f"{binaries}{os.pathsep}{os.environ['PATH']}"
    )
    assert installed.returncode == 0, installed.stderr
    assert (place / "edgekit" / "cli" / "gate.py").is_file()
    version = subprocess.run([binaries / "edgekit", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("edgekit ")


def test_the_page_tells_every_input_and_its_examples_are_workflows() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert told == list(ACTION["inputs"])
    examples = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    steps = [step for example in examples for job in example.get("jobs", {}).values() for step in job["steps"]]
    own = [step for step in steps if step["uses"].startswith("OWNER/edgekit@")]
    assert len(own) == 3
    for step in own:
        assert set(step["with"]) <= set(ACTION["inputs"])
        assert all(isinstance(value, str) for value in step["with"].values())

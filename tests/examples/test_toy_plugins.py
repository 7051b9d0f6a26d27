"""An installed package with one plugin of each kind drives every command, and a fault in it is its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

pytestmark = pytest.mark.xdist_group("toy-plugins")  # one installation, one bundle
EXAMPLE = Path(__file__).parents[2] / "examples" / "edgekit_toy"
GRAPH = """<ir_version: 8, opset_import: ["": 17]>
toy (float[N, 4] x) => (float[N, 3] y)
<float[4, 3] w = {0.5, -1.0, 0.25, 2.0, 0.125, -0.75, 1.5, 0.5, -0.5, 0.1, 0.9, -0.3}> {
    h = Celu<alpha = 0.5>(x)
    y = MatMul(h, w)
}"""


@dataclass(frozen=True)
class Plugins:
    """An installation of the example, or of a changed copy."""

    site: Path
    folder: Path

    def __call__(self, *arguments: object, code: int = 0) -> str:
        """Runs a command line in a process that sees the plugins; what it printed on both streams."""
        done = self.process(*arguments)
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + done.stderr

    def json(self, *arguments: object, code: int = 0) -> Any:
        """Runs a command line with ``--json``."""
        done = self.process(*arguments, "--json")
        assert done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    def process(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "edgekit", *map(str, arguments)]
        path = os.pathsep.join([str(self.site), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )


def install(source: Path, site: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Plugins:
    folder = tmp_path_factory.mktemp("toy")
    install(Path(shutil.copytree(EXAMPLE, folder / "source")), folder / "site")
    onnx.save(onnx.parser.parse_model(GRAPH), folder / "toy.onnx")
    return Plugins(folder / "site", folder)


@pytest.fixture
def changed_plugins(plugins: Plugins, tmp_path: Path) -> Callable[..., Plugins]:
    """A copy of the installation with texts in its files replaced: ``{file: (text, in its place)}``."""

    def make(changes: dict[str, tuple[str, str]]) -> Plugins:
        shutil.copytree(plugins.site, tmp_path / "site", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(plugins.folder / "toy.onnx", tmp_path)
        for name, (text, replacement) in changes.items():
            file = tmp_path / "site" / "edgekit_toy" / name
            before = file.read_text(encoding="utf-8")
            assert text in before
            file.write_text(before.replace(text, replacement), encoding="utf-8")
        return Plugins(tmp_path / "site", tmp_path)

    return make


@pytest.fixture(scope="session")
def packaged(plugins: Plugins) -> Plugins:
    """With a bundle ``b`` that the toy's own quantizer and rewrite had a part in."""
    plugins(
        *("package", "toy.onnx", "--target", "toy", "--dim", "N=2", "-o", "b"),
        *("--quantizer", "toy", "--quantize", "toy-int8"),
    )
    return plugins


def test_they_are_listed(plugins: Plugins) -> None:
    record = plugins.json("targets")
    assert "toy-device" in [target["name"] for target in record["targets"]]
    assert "toy:desk" in record["devices"]
    assert record["broken"] == []
    assert "(edgekit, toy)" in " ".join(plugins("package", "--help").split())


def test_the_commands_that_need_no_plugin_go_on(plugins: Plugins) -> None:
    assert plugins.json("inspect", "toy.onnx")["inputs"][0]["name"] == "x"
    plugins("fix", "toy.onnx", "--dim", "N=2", "-o", "fixed.onnx")
    plugins("extract", "fixed.onnx", "--outputs", "h", "-o", "part.onnx")


def test_check_says_what_its_rewrite_does(plugins: Plugins) -> None:
    record = plugins.json("check", "toy.onnx", "--target", "toy", "--dim", "N=2")
    assert "Celu as Exp (toy)" in json.dumps(record)


def test_package_uses_all_of_them(packaged: Plugins) -> None:
    manifest = json.loads((packaged.folder / "b" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["options"]["quantizer"] == "toy"
    assert manifest["accuracy"]["executed_by"].startswith("onnx.reference ")
    built = onnx.load(packaged.folder / "b" / "model.onnx")
    assert {"Cast", "Exp"} <= {node.op_type for node in built.graph.node}
    assert "Celu" not in {node.op_type for node in built.graph.node}
    assert "Celu as Exp (toy)" in json.dumps(manifest["stages"])


def test_its_check_runs_by_itself_and_for_a_host(packaged: Plugins) -> None:
    check = [sys.executable, "check.py"]
    done = subprocess.run(check, cwd=packaged.folder / "b", capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "the device computes what the original model computes"
    assert packaged.json("verify", "b", "--device", "local")["executed_by"].startswith("onnx.reference ")


def test_check_knows_the_unit(plugins: Plugins) -> None:
    plugins("fix", "toy.onnx", "--dim", "N=2", "-o", "fixed.onnx")
    assert "CPU: " in plugins("check", "fixed.onnx", "--target", "toy")
    assert "unit is known" not in plugins("check", "fixed.onnx", "--target", "toy")


def test_verify_and_bench_on_its_device(packaged: Plugins) -> None:
    assert packaged.json("verify", "b", "--device", "toy:desk")["executed_by"].endswith(", on the toy")
    assert packaged.json("verify", "b")["verified"]
    (candidate,) = packaged.json("bench", "b", "--device", "toy:desk")["candidates"]
    assert candidate["executed_by"].endswith(", on the toy")
    assert "there is one toy only" in packaged("verify", "b", "--device", "toy:shelf", code=2)


def test_report_gate_and_build(packaged: Plugins) -> None:
    packaged("report", "b", "-o", "report.html")
    (packaged.folder / "edgekit.toml").write_text(
        '[[bundle]]\nname = "again"\nmodel = "toy.onnx"\ntarget = "toy"\nquantizer = "toy"\nquantize = "toy-int8"\n'
        "dims = { N = 2 }\n[bundle.budget]\nsize = 100_000\n"
    )
    assert "again" in packaged("build")
    packaged("gate")


def test_quantize(plugins: Plugins) -> None:
    options = ("--quantizer", "toy", "--scheme", "toy-int8", "-o", "small.onnx", "--dim", "N=2")
    assert plugins.json("quantize", "toy.onnx", *options)["stored"] == ["w"]
    assert "expected: toy-int8\n" in plugins(
        "quantize", "toy.onnx", "--quantizer", "toy", "--scheme", "int8", "-o", "small.onnx", code=2
    )
    assert "--quantizer: there is no quantizer 'toys'" in plugins(
        "quantize", "toy.onnx", "--quantizer", "toys", "--scheme", "int8-weights", "-o", "small.onnx", code=2
    )


@pytest.mark.parametrize(
    ("file", "text", "fault", "command"),
    [
        ("target.py", "main = folder", "main = {}['model'] or folder", ("package", "toy.onnx", "--target", "toy")),
        ("device.py", "start = time", "start = {}['clock'] or time", ("verify", "{bundle}", "--device", "toy:desk")),
        ("quantizer.py", "stored = []", "stored = {}['w']", ("quantize", "toy.onnx", "--quantizer", "toy")),
        ("rewrites.py", "x = node.inputs", "x = {}['x'] or node.inputs", ("check", "toy.onnx", "--target", "toy")),
    ],
)
def test_a_fault_is_blamed_on_the_plugin(
    changed_plugins: Callable[..., Plugins],
    packaged: Plugins,
    file: str,
    text: str,
    fault: str,
    command: tuple[str, ...],
) -> None:
    broken = changed_plugins({file: (text, fault)})
    arguments = [part.format(bundle=packaged.folder / "b") for part in command]
    if command[0] != "verify":
        arguments += ["--dim", "N=2"]
    if command[0] == "quantize":
        arguments += ["--scheme", "toy-int8", "-o", "small.onnx"]
    said = broken(*arguments, code=3)
    assert "a fault of the plugin edgekit-toy: KeyError" in said
    assert "report it with the command that you ran to who makes edgekit-toy" in said


def test_a_plugin_for_another_version_of_the_contracts(changed_plugins: Callable[..., Plugins]) -> None:
    newer = ("contract_version = 1", "contract_version = 2")
    other = changed_plugins(dict.fromkeys(("target.py", "device.py", "quantizer.py", "rewrites.py"), newer))
    assert [broken["reason"] for broken in other.json("targets")["broken"]] == [
        "is written for version 2 of the target contract, and this EdgeKit has version 1",
        "is written for version 2 of the rewrite contract, and this EdgeKit has version 1",
        "is written for version 2 of the quantizer contract, and this EdgeKit has version 1",
    ]
    said = other("quantize", "toy.onnx", "--quantizer", "toy", "--scheme", "toy-int8", "-o", "small.onnx", code=3)
    assert "edgekit_toy.quantizer:ToyQuantizer: is written for version 2 of the quantizer contract" in said

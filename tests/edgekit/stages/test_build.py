import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest

from edgekit.comparison.floors import Kind
from edgekit.errors import InternalError
from edgekit.model import Model
from edgekit.registry import find_profile
from edgekit.stages.build import Build, Built
from edgekit.target import Artifact, BuildOptions, Profile
from edgekit_onnxruntime.target import ONNXRuntimeTarget


@pytest.fixture
def model(onnx_file: Callable[..., Path]) -> Model:
    path = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }")
    return Model(ir.load(path), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "built").mkdir()
    return tmp_path / "built"


def test_what_was_built(model: Model, folder: Path) -> None:
    target, profile = find_profile("onnxruntime")
    built = Build(target, profile, BuildOptions(), folder, quantized=False)(model)
    assert isinstance(built, Built)
    assert built.kind is Kind.FLOAT32
    assert built.artifact.precision == "float32"
    assert built.artifact.main == folder / "model.onnx"


@pytest.mark.parametrize(
    ("target_name", "quantized", "kind"),
    [("intel-gpu", False, Kind.FLOAT16), ("intel-gpu", True, Kind.QUANTIZED), ("onnxruntime", True, Kind.QUANTIZED)],
)
def test_the_kind_follows_from_what_was_built(
    model: Model, folder: Path, target_name: str, quantized: bool, kind: Kind
) -> None:
    target, profile = find_profile(target_name)
    built = Build(target, profile, BuildOptions(), folder, quantized=quantized)(model)
    assert isinstance(built, Built)
    assert built.kind is kind


def without_file(artifact: Artifact) -> Artifact:
    artifact.main.unlink()
    return artifact


def outside(artifact: Artifact) -> Artifact:
    return replace(artifact, main=artifact.main.rename(artifact.main.parents[1] / "model.onnx"))


def with_other_output(artifact: Artifact) -> Artifact:
    return replace(artifact, outputs=(replace(artifact.outputs[0], name="z"),))


def with_other_type(artifact: Artifact) -> Artifact:
    return replace(artifact, inputs=(replace(artifact.inputs[0], dtype="float16"),))


def with_the_hosts_names(artifact: Artifact) -> Artifact:
    folder = artifact.main.parent
    (folder / "manifest.json").write_text("{}")
    return replace(artifact, main=artifact.main.rename(folder / "graph.json"))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda _: None, "build gives NoneType, not an edgekit.target.Artifact"),
        (with_other_type, "the types of inputs: x is float16, not float32"),
        (
            with_the_hosts_names,
            "a bundle's own files go by the names of files that it wrote: graph.json, manifest.json",
        ),
        (without_file, "files are not where they should be: "),
        (outside, "files are not where they should be: "),
        (with_other_output, "the outputs should be y, and are z"),
    ],
)
def test_a_target_that_breaks_its_contract(
    model: Model, folder: Path, spoil: Callable[[Artifact], Artifact], text: str
) -> None:
    class Careless(ONNXRuntimeTarget):
        def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
            return spoil(super().build(model, profile, folder, options))

    target = Careless()
    subject = re.escape(f"target 'onnxruntime' ({__name__}): the target broke its contract: ")
    with pytest.raises(InternalError, match=subject + text):
        Build(target, target.profiles[0], BuildOptions(), folder, quantized=False)(model)

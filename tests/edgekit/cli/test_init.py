from __future__ import annotations

import tomllib
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from edgekit import api
from edgekit.bundle import read_bundle
from edgekit.config import read_config
from edgekit.errors import InputError
from edgekit.registry import installed_targets
from edgekit.target import Profile

RunEdgeKit = Callable[..., Any]
SEQUENCE = "f (float[batch, steps, 3] x) => (float[batch, steps, 3] y) { y = Exp(x) }"
PICTURE = "f (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { y = Exp(x) }"
SOUND = "f (float[1, 16] x) => (float[1, 16] y) { y = Exp(x) }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path


def test_a_project_that_builds_and_is_judged(edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]) -> None:
    """The sizes come from the samples; a target that is not there does not stop the other one."""
    onnx_file(SEQUENCE)
    for sample in range(2):
        np.savez(folder / "data" / f"{sample}.npz", x=np.full((1, 5, 3), sample, np.float32))
    finished = edgekit("init", "model.onnx", "--data", "data", "--target", "ort", "-o", "ci/edgekit.toml", "--json")
    assert finished.code == 0
    assert finished.json == {
        "config": "ci/edgekit.toml",
        "bundles": ["model-onnxruntime"],
        "open_dimensions": [],
        "left_out": {},
    }
    drafted = api.init("model.onnx", data="data", targets="ort", output="in-python.toml")
    assert drafted.as_record() == {**finished.json, "config": "in-python.toml"}
    config = folder / "ci" / "edgekit.toml"
    assert tomllib.loads(config.read_text())["defaults"] == {
        "model": "../model.onnx",
        "targets": ["onnxruntime"],
        "data": "../data",
        "dims": {"steps": 5},
    }
    config.write_text(config.read_text().replace('["onnxruntime"]', '["nowhere", "onnxruntime"]'))
    finished = edgekit("build", "--config", config, "-q")
    assert finished.code == 2
    assert "model-nowhere" in finished.err
    assert (folder / "ci" / "bundles" / "model-onnxruntime" / "manifest.json").is_file()
    finished = edgekit("gate", "--config", config, "--update", "--json")
    assert finished.code == 2
    assert [(one["name"], one["error"] is None) for one in finished.json["bundles"]] == [
        ("model-nowhere", False),
        ("model-onnxruntime", True),
    ]
    assert (folder / "ci" / "edgekit-baseline.json").is_file()


def test_each_budget_that_is_proposed_can_be_measured(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]
) -> None:
    """With the remarks taken as they stand, the gate asks no latency of a target whose runtime is not here."""
    onnx_file(PICTURE)
    assert edgekit("init", "model.onnx", "--target", "ios18", "--target", "ort", "--target", "web").code == 0
    config = folder / "edgekit.toml"
    proposed = config.read_text().partition("# [budget]")
    config.write_text(proposed[0] + "".join(proposed[1:]).replace("\n# ", "\n").removeprefix("# "))
    budgets = {bundle.name: bundle.budget for bundle in read_config(config).bundles}
    assert {name: budget.latency_ratio for name, budget in budgets.items()} == {
        "model-ios18": None,
        "model-onnxruntime": 1.0,
        "model-web": None,
    }
    assert {budget.size for budget in budgets.values()} == {5_000_000}


@pytest.mark.parametrize("names", [("ort", "onnxruntime"), ("onnxruntime", "onnxruntime"), ("intel", "intel-cpu")])
def test_two_names_of_one_device_are_one_bundle(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path], names: tuple[str, str]
) -> None:
    onnx_file(SOUND)
    finished = edgekit("init", "model.onnx", "--target", names[0], "--target", names[1], "--json")
    assert (finished.code, finished.json["bundles"]) == (0, [f"model-{names[1]}"])
    assert tomllib.loads((folder / "edgekit.toml").read_text())["defaults"]["targets"] == [names[1]]


def test_sizes_that_nothing_tells(edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]) -> None:
    onnx_file(SEQUENCE)
    finished = edgekit("init", "model.onnx")
    assert finished.code == 0
    assert "warning: the size of steps is open: give it in edgekit.toml, in dims" in finished.err
    assert '# The size of steps is open: dims = { "steps" = SIZE }' in (folder / "edgekit.toml").read_text()
    targets = [bundle.target for bundle in read_config(folder / "edgekit.toml").bundles]
    assert targets == [target.profiles[0].name for target in installed_targets().targets]


def test_samples_of_several_sizes_leave_the_size_to_the_target(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]
) -> None:
    onnx_file(SEQUENCE)
    for sample, steps in enumerate((5, 9)):
        np.savez(folder / "data" / f"{sample}.npz", x=np.full((1, steps, 3), sample, np.float32))
    finished = edgekit("init", "model.onnx", "--data", "data", "--target", "ios18", "--json")
    assert (finished.code, finished.json["open_dimensions"]) == (0, [])
    assert "dims" not in tomllib.loads((folder / "edgekit.toml").read_text())["defaults"]
    assert edgekit("build", "-q").code == 0
    assert read_bundle(folder / "bundles" / "model-ios18").open_dims == {"steps": range(5, 10)}


def test_pictures(folder: Path, onnx_file: Callable[..., Path]) -> None:
    onnx_file(PICTURE)
    Image.new("RGB", (20, 10)).save(folder / "data" / "a.png")
    draft = api.init("model.onnx", data="data", targets=["ort"])
    assert draft.path == Path("edgekit.toml")
    assert tomllib.loads(draft.path.read_text())["preprocessing"] == {
        "kind": "image",
        "color": "RGB",
        "scale": "1/255",
        "resize": "stretch",
    }


def test_pictures_of_16_bits_get_no_draft(folder: Path, onnx_file: Callable[..., Path]) -> None:
    """No table [preprocessing] makes an input of them: each bundle of such a project file is refused."""
    onnx_file("f (float[1, 1, 8, 8] x) => (float[1, 1, 8, 8] y) { y = Exp(x) }")
    Image.fromarray(np.full((8, 8), 4000, np.uint16)).save(folder / "data" / "a.tif")
    with pytest.raises(InputError) as failure:
        api.init("model.onnx", data="data", targets=["ort"])
    assert str(failure.value) == (
        "data/a.tif: the picture has more than 8 bits a channel\n"
        "expected: 8 bits a channel\n"
        "found: mode I;16\n"
        "hint: save the samples as .npz files, with the numbers that the training fed the model; with 8 bits only "
        "if it was trained on these"
    )
    assert not (folder / "edgekit.toml").exists()


FREE = "f (float[N, 3, height, width] x) => (float[N, 3, height, width] y) { y = Exp(x) }"


@pytest.mark.parametrize("sizes", [[(10, 20)], [(8, 8), (10, 20), (10, 20)]])
def test_free_height_and_width_are_those_of_most_pictures(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path], sizes: list[tuple[int, int]]
) -> None:
    onnx_file(FREE)
    for number, (height, width) in enumerate(sizes):
        Image.new("RGB", (width, height)).save(folder / "data" / f"{number}.png")
    draft = api.init("model.onnx", data="data", targets=["ort"])
    text = draft.path.read_text()
    assert tomllib.loads(text)["preprocessing"]["size"] == [10, 20]
    assert (draft.open_dims, "dims" in text) == ((), False)
    remark = "# There are pictures of 8×8 to 10×20 (height × width); most have this size.\n"
    assert (remark in text) == (len(sizes) > 1)
    assert edgekit("build", "-q").code == 0
    assert read_bundle(folder / "bundles" / "model-onnxruntime").inputs[0].shape == (1, 3, 10, 20)


def test_the_size_of_a_single_picture_is_not_that_of_the_input(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]
) -> None:
    """Photos that were cut out have a size each; an accidental one would be what is built."""
    onnx_file(FREE)
    for number, size in enumerate([(104, 119), (222, 238), (189, 230), (189, 230)]):
        Image.new("RGB", size).save(folder / "data" / f"{number}.png")
    draft = api.init("model.onnx", data="data", targets=["ort"])
    text = draft.path.read_text()
    assert "size" not in tomllib.loads(text)["preprocessing"]
    assert draft.open_dims == ("height", "width")
    assert (
        "# There are pictures of 119×104 to 238×222 (height × width), and no size is that of most: "
        "size = [HEIGHT, WIDTH], as in the training\n" in text
    )
    finished = edgekit("build", "-q")
    assert finished.code == 2
    assert "hint: size = [HEIGHT, WIDTH] in [preprocessing]" in finished.err
    draft.path.write_text(text.replace('resize = "stretch"', 'resize = "stretch"\nsize = [96, 64]'))
    assert edgekit("build", "-q").code == 0
    assert read_bundle(folder / "bundles" / "model-onnxruntime").inputs[0].shape == (1, 3, 96, 64)


def test_sub_folders_whose_order_nobody_knows_are_remarked(folder: Path, onnx_file: Callable[..., Path]) -> None:
    onnx_file(PICTURE)
    for name in ("circle", "cross", "square"):
        (folder / "data" / name).mkdir()
        Image.new("RGB", (8, 8)).save(folder / "data" / name / "a.png")
    draft = api.init("model.onnx", data="data", targets=["ort"])
    assert (
        '# labels = "labels.txt", a class name a line in the model\'s order; without it\n'
        "# sub-folders are numbered by name, circle 0, cross 1, square 2.\n" in draft.path.read_text()
    )


def test_a_folder_of_more_than_samples_is_refused(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path]
) -> None:
    """A model's own folder, with folders of samples in it: they would count as classes, and the build would fail."""
    model = onnx_file(PICTURE, name="data/model.onnx")
    for part in ("calibration", "test"):
        (folder / "data" / part).mkdir()
        Image.new("RGB", (8, 8)).save(folder / "data" / part / "0.png")
    finished = edgekit("init", model, "--data", "data", "--target", "web")
    assert finished.code == 2
    assert "error: data/model.onnx: the file is not a sample\n" in finished.err
    assert "hint: keep other files outside the data folder\n" in finished.err
    assert not (folder / "edgekit.toml").exists()


def test_what_the_file_states_is_not_typed_again(folder: Path, onnx_model: Callable[..., onnx.ModelProto]) -> None:
    model = onnx_model(PICTURE)
    onnx.helper.set_model_props(model, {"names": "{0: 'a'}", "stride": "32", "task": "detect"})
    onnx.save(model, "model.onnx")
    Image.new("RGB", (20, 10)).save(folder / "data" / "a.png")
    draft = api.init("model.onnx", data="data", targets=["ort"])
    text = draft.path.read_text()
    assert "preprocessing" not in tomllib.loads(text)
    assert (
        "\n# The model's file states how pictures become the input; a table [preprocessing] here counts in its place:\n"
        '# RGB, pixels from 0 to 255 times 0.00392157, resize = "pad" to 8×8 with pad_value = 114.\n' in text
    )


@pytest.mark.parametrize(("task", "told"), [("detect", True), ("pose", True), ("obb", False), ("classify", False)])
def test_a_detector_s_boxes_may_be_suppressed_in_the_model(
    task: str, told: bool, folder: Path, onnx_model: Callable[..., onnx.ModelProto]
) -> None:
    model = onnx_model(PICTURE)
    onnx.helper.set_model_props(model, {"names": "{0: 'a'}", "stride": "32", "task": task})
    onnx.save(model, "model.onnx")
    Image.new("RGB", (20, 10)).save(folder / "data" / "a.png")
    lines = api.init("model.onnx", data="data", targets=["ort"]).path.read_text().splitlines()
    remarks = [line for line in lines if line.startswith('# postprocess = "nms"')]
    assert (
        remarks == ['# postprocess = "nms"  # suppresses boxes in the model, which then gives each object once'][:told]
    )
    if told:
        assert lines[lines.index(remarks[0]) - 1] == 'name = "model"'


def test_sounds(folder: Path, onnx_file: Callable[..., Path]) -> None:
    onnx_file(SOUND)
    with wave.open(str(folder / "data" / "a.wav"), "wb") as sound:
        sound.setparams((2, 2, 16000, 0, "NONE", ""))
        sound.writeframes(b"\0" * 64)
    draft = api.init("model.onnx", data="data", targets=["ort"])
    assert tomllib.loads(draft.path.read_text())["preprocessing"] == {
        "kind": "audio",
        "sample_rate": 16000,
        "fit": "pad-crop",
        "channel": "mix",
    }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-o", "there.toml"], "error: there.toml: exists already\nhint: add a [[bundle]] "),
        (["--target", "toaster"], "toaster"),
        (["--data", "data"], "error: data: the data folder holds no samples\n"),
    ],
)
def test_refused(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path], options: list[str], text: str
) -> None:
    onnx_file(PICTURE)
    (folder / "there.toml").write_text("mine")
    finished = edgekit("init", "model.onnx", *options, "-q")
    assert finished.code == 2
    assert text in finished.err
    assert (folder / "there.toml").read_text() == "mine"
    assert not (folder / "edgekit.toml").exists()


def test_targets_that_nothing_here_builds_for_are_left_out(
    edgekit: RunEdgeKit, folder: Path, onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(profile: Profile) -> None:
        raise InputError("the compiler is not installed", subject=profile.name, hint="pip install compiler")

    target = next(target for target in installed_targets().targets if target.name == "openvino")
    monkeypatch.setattr(target, "require_installed", missing, raising=False)
    onnx_file(SOUND)
    finished = edgekit("init", "model.onnx", "-q")
    assert finished.err == "warning: intel-cpu is left out: the compiler is not installed; pip install compiler\n"
    assert "intel-cpu" not in (folder / "edgekit.toml").read_text()
    named = edgekit("init", "model.onnx", "--target", "intel-cpu", "-o", "named.toml", "-q")
    assert (named.code, named.err) == (0, "")
    packaged = edgekit("package", "model.onnx", "--target", "intel-cpu", "-q")
    assert packaged.code == 2
    assert packaged.err == "error: intel-cpu: the compiler is not installed\nhint: pip install compiler\n"


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("Mein Größen-Modell (v2)", "Mein-Groessen-Modell-v2-web"),
        ("modèle_été", "modele_ete-web"),
        ("Straße.Łódź", "Strasse.Lodz-web"),
        ("模型", "model-web"),
        ("-_.", "model-web"),
    ],
)
def test_a_bundle_is_called_as_its_model_without_letters_beyond_ascii(
    stem: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> f (float[1, 4] x) => (float[1, 4] y) { y = Neg (x) }'
    )
    (tmp_path / f"{stem}.onnx").write_bytes(model.SerializeToString())
    assert api.init(tmp_path / f"{stem}.onnx", targets=["web"]).bundles == (name,)

"""The Python API gives what the commands print, and takes strings wherever it takes paths."""

from __future__ import annotations

import csv
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgekit as api
from edgekit.api_arguments import StrPath
from edgekit.bundle import Bundle
from edgekit.cli import COMMANDS
from edgekit.comparison.custom_metric import Run
from edgekit.data.samples import Samples
from edgekit.errors import InputError, RequirementError

SECONDS_TO_IMPORT = 0.1

RunEdgeKit = Callable[..., Any]
EXP = "f (float[N, 3] x) => (float[N, 3] y) { y = Exp(x) }"


@pytest.fixture
def labels(digits: Path) -> Path:
    return digits.parent / "labels.txt"


@pytest.fixture(scope="module")
def named_digits(tmp_path_factory: pytest.TempPathFactory, digits: Path, labelled_digits: Path) -> Bundle:
    """The sample model for ONNX Runtime, with its classes' names."""
    folder = tmp_path_factory.mktemp("api") / "digits"
    return api.package(
        str(digits),
        "onnxruntime",
        str(folder),
        data=str(labelled_digits),
        quantize="none",
        dims={"batch": 1},
        labels=str(digits.parent / "labels.txt"),
    )


# Importing


def test_importing_is_cheap_and_brings_nothing_heavy() -> None:
    script = (
        "import time, sys; start = time.process_time(); import edgekit; "
        "print(time.process_time() - start, *sys.modules)"
    )

    def measured() -> list[str]:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.split()

    runs = [measured() for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in runs) < SECONDS_TO_IMPORT
    assert not {"numpy", "onnx", "onnx_ir", "onnxruntime", "typer", "rich", "edgekit.api"} & set(runs[0][1:])


def test_nothing_is_printed_where_a_library_remarks_on_the_model(tmp_path: Path) -> None:
    """ONNX's inference fails on the function body of MeanVarianceNormalization, of which onnx_ir logs the traceback."""
    body = "g (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y) { y = MeanVarianceNormalization (x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {body}'), tmp_path / "m.onnx")
    script = "import edgekit, sys; edgekit.package(sys.argv[1], 'intel-cpu', sys.argv[2], quantize='none')"
    arguments = [sys.executable, "-c", script, str(tmp_path / "m.onnx"), str(tmp_path / "bundle")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_every_command_is_a_function_with_its_options() -> None:
    renamed = {"dim": "dims", "shape": "shapes", "state": "states", "option": "options", "bundle": "bundles"}
    renamed["target"] = "targets"  # init takes several
    renamed["isa"] = "device"  # a URL such as isa:avx2
    faces = {
        "as_json",
        "quiet",
        "list_all",
        "sarif",
        "explain",
        "junit",
        "summary",
        "github",
        "max_memory",
        "max_seconds",
    }
    for command in COMMANDS:
        functions = [getattr(api, command.name), *([api.throughput] if command.name == "bench" else [])]
        takes = {name for function in functions for name in inspect.signature(function).parameters}
        for option in inspect.signature(command.function).parameters:
            known = option in takes | faces or renamed.get(option) in takes
            assert known, f"{command.name}: {option} is no argument of edgekit.{command.name}"


def test_numbers_have_the_same_defaults_as_in_the_commands() -> None:
    compared = 0
    for command in COMMANDS:
        function = getattr(api, command.name, None)
        ours = inspect.signature(function).parameters if function is not None else {}
        for name, option in inspect.signature(command.function).parameters.items():
            if name in ours and isinstance(option.default, int | float):
                assert ours[name].default == option.default, f"{command.name}: {name}"
                compared += 1
    assert compared > 5


def test_every_name_is_listed_and_there() -> None:
    assert set(api.__all__) <= set(dir(api))
    for name in api.__all__:
        assert callable(getattr(api, name))


def test_another_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'edgekit' has no attribute 'pack'"):
        api.pack  # type: ignore[attr-defined]  # noqa: B018


# What the commands print


def test_inspect(edgekit: RunEdgeKit, digits: Path) -> None:
    found = api.inspect(str(digits), dims={"batch": 1})
    assert found.as_record() == edgekit("inspect", digits, "--dim", "batch=1", "--json").json
    assert found.macs is not None
    assert [spec.name for spec in found.inputs] == ["image"]
    assert [one.fix for one in api.inspect(digits).dynamic_dimensions] == ["--dim batch=SIZE"]


def test_fix(edgekit: RunEdgeKit, tmp_path: Path, digits: Path) -> None:
    fixed = api.fix(str(digits), str(tmp_path / "a.onnx"), shapes={"image": (1, None, 28, 28)})
    printed = edgekit("fix", digits, "--shape", "image=1,?,28,28", "-o", tmp_path / "b.onnx", "--json").json
    assert fixed.as_record() == {**printed, "output": str(tmp_path / "a.onnx")}
    assert fixed.still_dynamic == ()
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_extract(edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file("f (float[1, 3] x) => (float[1, 3] z) { y = Exp(x) z = Neg(y) }")
    part = api.extract(str(model), str(tmp_path / "a.onnx"), outputs=["y"])
    printed = edgekit("extract", model, "--outputs", "y", "-o", tmp_path / "b.onnx", "--json").json
    assert part.as_record() == {**printed, "output": str(tmp_path / "a.onnx")}
    assert (part.nodes, part.nodes_before) == (1, 2)


def test_check(edgekit: RunEdgeKit, digits: Path, tmp_path: Path) -> None:
    found = api.check(str(digits), "ios18", dims={"batch": 1})
    assert found.as_record() == edgekit("check", digits, "--target", "ios18", "--dim", "batch=1", "--json").json
    assert found.supported
    vendor = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "vendor": 1]>
        g (float[1, 4] x) => (float[1, 4] y) { y = vendor.Secret (x) }"""
    )
    onnx.save(vendor, tmp_path / "vendor.onnx")
    assert not api.check(tmp_path / "vendor.onnx", "onnxruntime").supported


def test_quantize(edgekit: RunEdgeKit, tmp_path: Path, digits: Path) -> None:
    quantized = api.quantize(str(digits), str(tmp_path / "a.onnx"), scheme="int8-weights", dims={"batch": 1})
    options = ["--scheme", "int8-weights", "--dim", "batch=1"]
    printed = edgekit("quantize", digits, *options, "-o", tmp_path / "b.onnx", "--json").json
    assert quantized.as_record() == {**printed, "output": str(tmp_path / "a.onnx")}
    assert quantized.scheme == "int8-weights"
    assert quantized.weight_bytes < quantized.weight_bytes_before / 3


def test_package(edgekit: RunEdgeKit, tmp_path: Path, digits: Path, named_digits: Bundle) -> None:
    options = ["--target", "onnxruntime", "--dim", "batch=1", "--quantize", "none", "-q"]
    assert edgekit("package", digits, *options, "-o", tmp_path / "here").code == 0
    here = json.loads((tmp_path / "here" / "manifest.json").read_text())
    assert named_digits.manifest["model"] == here["model"]
    assert named_digits.manifest["labels"] == list("0123456789")


def test_the_bundle_goes_here_by_default(
    tmp_path: Path, onnx_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx_file(EXP)
    monkeypatch.chdir(tmp_path)
    bundle = api.package(model, "ort", dims={"N": range(1, 9)})
    assert bundle.path == Path("model-onnxruntime")
    assert bundle.open_dims == {"N": range(1, 9)}


def test_verify(edgekit: RunEdgeKit, named_digits: Bundle, labelled_digits: Path) -> None:
    verification = api.verify(str(named_digits.path), data=str(labelled_digits))
    printed = edgekit("verify", named_digits.path, "--data", labelled_digits, "--json").json
    assert {"bundle": str(named_digits.path), "device": "local", **verification.as_record()} == printed


def test_bench(named_digits: Bundle, digits: Path) -> None:
    first, original = api.bench(named_digits, model=str(digits))
    assert first.name == str(named_digits.path)
    assert original.name == str(digits)
    assert first.latency.percentile(50) > 0


def test_gate(edgekit: RunEdgeKit, tmp_path: Path, named_digits: Bundle) -> None:
    (tmp_path / "edgekit.toml").write_text('[budget]\nsize = "10 kB"\n')
    result = api.gate(str(named_digits.path), config=str(tmp_path / "edgekit.toml"))
    finished = edgekit("gate", named_digits.path, "--config", tmp_path / "edgekit.toml", "--json")
    assert result.as_record() == finished.json
    assert (result.passed, result.exit_code) == (False, 1)
    assert [verdict.budget for verdict in result.failed[0].failed] == ["size"]
    assert "<failure" in result.junit()
    assert "size" in result.markdown()


def test_gate_writes_the_baseline(tmp_path: Path, named_digits: Bundle) -> None:
    baseline = tmp_path / "baseline.json"
    result = api.gate(named_digits, baseline=str(baseline), update=True)
    assert result.updated == (named_digits.name,)
    assert api.gate(named_digits.path, baseline=baseline).passed


def test_report(tmp_path: Path, named_digits: Bundle) -> None:
    assert api.report(named_digits, str(tmp_path / "report.html")) == tmp_path / "report.html"
    assert named_digits.name in (tmp_path / "report.html").read_text()


def test_build(tmp_path: Path, digits: Path) -> None:
    declared = f'[[bundle]]\nname = "{{0}}"\nmodel = "{digits}"\ntarget = "ort"\ndims = {{{{ {{1}} = 1 }}}}\n'
    config = tmp_path / "edgekit.toml"
    config.write_text(declared.format("good", "batch") + declared.format("bad", "unknown"))
    good, bad = api.build(str(config), jobs=1)
    assert good.bundle is not None
    assert good.bundle.path == tmp_path / "bundles" / "good"
    assert bad.failure is not None
    assert "no input has a dynamic dimension 'unknown'" in bad.failure.text


def test_targets() -> None:
    assert "ios18" in {profile.name for _, profile in api.targets().profiles()}


# A measure of one's own


def agreement(run: Run, samples: Samples) -> float:
    return float(np.mean([run(sample.feeds)["logits"].argmax() == sample.label for sample in samples]))


def test_a_metric_is_named_or_given_itself(
    tmp_path: Path, digits: Path, labelled_digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, agreement.__module__, sys.modules[__name__])
    bundle = api.package(
        digits,
        "ort",
        tmp_path / "out",
        data=labelled_digits,
        quantize="int8",
        dims={"batch": 1},
        metric=agreement,
        max_drop="10%",
    )
    assert bundle.manifest["options"]["metric"] == f"{agreement.__module__}:agreement"


def test_an_array_of_doubles_is_that_of_floats(named_digits: Bundle) -> None:
    loaded, picture = api.load(named_digits), np.random.default_rng(0).normal(size=(1, 1, 28, 28))
    found, expected = (loaded.run(array)["logits"] for array in (picture, picture.astype(np.float32)))
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(InputError, match="the array's element type is not the model's"):
        loaded.run(picture * 1e39)


def test_a_metric_without_a_name_or_samples(digits: Path, labelled_digits: Path) -> None:
    with pytest.raises(InputError, match="cannot be found by a name") as refused:
        api.package(digits, "ort", data=labelled_digits, metric=lambda run, samples: 1.0)
    assert refused.value.expected == "a function at the top level of a module"
    hint = (
        "write it with def, outside of other functions and classes: other processes and the manifest refer to it "
        "by name"
    )
    assert refused.value.hint == hint
    with pytest.raises(InputError, match="--metric agreement: needs samples to run on"):
        api.package(digits, "ort", metric=agreement)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dims": {"batch": -1}}, "--dim batch=-1: '-1' is not a size\nexpected: a whole number from 1"),
        ({"dims": {"batch": range(4, 1)}}, "--dim batch: has no range of sizes"),
        ({"dims": {"batch": range(-1, 8)}}, "--dim batch=-1..7: '-1' is not a size"),
        ({"dims": {"batch": (2, 2)}}, "--dim batch=2,2: the size 2 is listed twice"),
        ({"dims": {"batch": 1.5}}, "--dim batch: has no size\nexpected: a number, a range, or numbers\nfound: 1.5"),
        ({"dims": ["batch=1"]}, "--dim: is not a mapping\nexpected: a dict, {name: size}\nfound: list ['batch=1']"),
        ({"shapes": {"image": "1,1,28,28"}}, "--shape image: has no shape\nexpected: numbers and None"),
        ({"shapes": {"image": (1, 1, 28, 0)}}, "--shape image: '0' is not a size\nexpected: a whole number from 1"),
        (
            {"labels": ["cat", "dog"]},
            "--labels: is not a path\nexpected: a text or a path object\nfound: list\nhint: write",
        ),
        ({"data": {"image": 1}}, "--data dict: the columns do not have one length\nexpected: a row for each sample"),
        ({"data": 7}, "--data: are not samples\nexpected: a path, a DataFrame, a mapping of arrays by name, an array"),
        ({"also": "ios180"}, "--also: there is no target 'ios180'"),
    ],
)
def test_arguments_of_another_kind(tmp_path: Path, digits: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        api.package(digits, "ort", tmp_path / "out", **arguments)
    assert str(refused.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_open_already(digits: Path) -> None:
    with pytest.raises(InputError, match="MODEL: is not a path\nexpected: a text or a path object\nfound: ModelProto"):
        api.inspect(onnx.load(digits))  # type: ignore[arg-type]


def test_one_name_is_a_text(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { long = Exp (x) y = Neg (long) }")
    extracted = api.extract(model, tmp_path / "cut.onnx", outputs="y", inputs="long")
    assert [spec.name for spec in (*extracted.inputs, *extracted.outputs)] == ["long", "y"]


def test_an_error_is_the_command_s(tmp_path: Path, digits: Path) -> None:
    with pytest.raises(InputError, match="there is no target 'ios181'"):
        api.package(digits, "ios181", tmp_path / "out")
    with pytest.raises(InputError, match="would allow 50% of the samples to be lost"):
        api.package(digits, "ios18", tmp_path / "out", max_drop=0.5)
    assert list(tmp_path.iterdir()) == []


# Running a bundle


def pictures(labelled: Path) -> dict[Path, str]:
    with (labelled / "labels.csv").open() as stream:
        return {labelled / row["file"]: row["label"] for row in csv.DictReader(stream)}


def test_a_picture_gives_labels(digits: Path, named_digits: Bundle) -> None:
    samples = pictures(digits.parent / "samples" / "test")
    loaded = api.load(str(named_digits.path))
    right = [loaded.classify(str(file), top=1)[0].label == label for file, label in list(samples.items())[:50]]
    assert np.mean(right) > 0.95  # the model finds 99.67% of all of them
    file, label = next(iter(samples.items()))
    predictions = loaded(file)
    assert isinstance(predictions, list)
    assert predictions[0].label == label
    assert [one.score for one in predictions] == sorted((one.score for one in predictions), reverse=True)
    assert sorted(one.index for one in predictions) == list(range(10))


@pytest.mark.parametrize("given", [str, Path])
def test_a_file_is_what_the_verification_fed(
    given: Callable[[Path], StrPath], named_digits: Bundle, labelled_digits: Path
) -> None:
    loaded = api.load(named_digits)
    first = sorted(pictures(labelled_digits))[0]
    golden, _ = next(named_digits.golden())
    np.testing.assert_array_equal(loaded.prepare(str(given(first)))["image"], golden["image"])


def test_arrays_give_outputs(named_digits: Bundle) -> None:
    loaded = api.load(named_digits)
    feeds, outputs = next(named_digits.golden())
    for sample in (feeds, feeds["image"], feeds["image"].tolist()):
        found = loaded(sample)
        assert isinstance(found, dict)
        np.testing.assert_allclose(found["logits"], outputs["logits"], rtol=1e-4, atol=1e-4)
    assert loaded.executed_by.startswith("ONNX Runtime ")
    assert [str(spec) for spec in loaded.inputs] == ["image: float32 1×1×28×28"]
    assert loaded.labels == tuple("0123456789")


def test_a_sample_file_of_arrays(tmp_path: Path, named_digits: Bundle) -> None:
    feeds, outputs = next(named_digits.golden())
    np.savez(tmp_path / "sample.npz", **feeds, label=np.int64(3))
    found = api.load(named_digits)(tmp_path / "sample.npz")
    assert isinstance(found, dict)
    np.testing.assert_allclose(found["logits"], outputs["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("sample", "message", "hint"),
    [
        (np.zeros((1, 28, 28), np.float32), "the array's shape is not the model's", "array[numpy.newaxis]"),
        (np.zeros((1, 1, 28, 28), "f2"), "the array's element type is not the model's", "give array.astype('float32')"),
        ({"picture": np.zeros(1)}, "the arrays are not named as the model's inputs", None),
        ({}, "the arrays are not named as the model's inputs", None),
    ],
)
def test_an_array_that_does_not_fit(named_digits: Bundle, sample: Any, message: str, hint: str | None) -> None:
    with pytest.raises(InputError, match=message) as refused:
        api.load(named_digits)(sample)
    assert (refused.value.hint or "").endswith(hint or "")
    assert "image" in str(refused.value)


def test_a_bundle_that_cannot_read_files(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    bundle = api.package(onnx_file(EXP), "ort", tmp_path / "out", dims={"N": "1,2"})
    loaded = api.load(bundle)
    with pytest.raises(InputError, match="does not say how a file becomes its input"):
        loaded("cat.png")
    assert list(loaded.run(np.zeros((2, 3), np.float32))) == ["y"]
    with pytest.raises(InputError, match="dimension 'N' does not take that size") as refused:
        loaded.run(np.zeros((3, 3), np.float32))
    assert (refused.value.expected, refused.value.found) == ("1,2", "3")
    assert refused.value.hint == "package the model again with --dim N=1,2,3"
    with pytest.raises(InputError, match="no output of the model tells a class"):
        loaded.classify(np.zeros((2, 3), np.float32))


def test_a_bundle_that_is_damaged(bundle: Path) -> None:
    (bundle / "report.md").write_text("changed")
    with pytest.raises(RequirementError, match="is changed"):
        api.load(bundle)


def test_a_model_with_states_goes_on_where_it_was(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file("f (float[1, 2] x, float[1, 2] h) => (float[1, 2] y, float[1, 2] g) { g = Add(x, h) y = Neg(g) }")
    loaded = api.load(api.package(model, "ios18", tmp_path / "out", states={"h": "g"}))
    ones = np.ones((1, 2), np.float32)
    assert [float(loaded.run(ones)["y"][0, 0]) for _ in range(3)] == [-1, -2, -3]
    loaded.restart()
    assert float(loaded.run({"x": ones})["y"][0, 0]) == -1

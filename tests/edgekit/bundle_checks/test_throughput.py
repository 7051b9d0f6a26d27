"""Inferences at the same time, by the runtimes themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit import api
from edgekit.bundle import read_bundle
from edgekit.bundle_checks import throughput
from edgekit.bundle_checks.throughput import ThroughputCandidate, bench_throughput
from edgekit.device import Throughput
from edgekit.errors import InputError, RequirementError

DigitsBundle = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "TURN_SECONDS", 0.05)


def test_samples_a_second_are_counted_from_turns() -> None:
    # 4 inferences of 5 samples in 100 ms are 200 samples a second, 2 in 100 ms are 100
    turns = [Throughput((50.0,) * count, 100.0, 1.0, None, {}) for count in (4, 4, 4, 2, 4)]
    other = [Throughput((50.0,) * 8, 100.0, 1.0, None, {}) for _ in turns]
    first, second = (ThroughputCandidate("", "", 5, tuple(made)) for made in (turns, other))

    assert first.samples_per_second == pytest.approx(200)
    assert first.interval == pytest.approx((100, 200))
    assert second.ratio_to(first) == pytest.approx(2)
    assert second.ratio_interval_to(first) == pytest.approx((2, 4))
    record = first.as_record(first)
    assert record["inferences_per_second"] == pytest.approx(40)
    assert (record["runs"], record["p50_ms"]) == (18, 50.0)


@pytest.mark.parametrize(("profile", "runtime"), [("intel-cpu", "OpenVINO"), ("onnxruntime", "ONNX Runtime")])
def test_streams_are_what_was_asked_for(digits_bundle: DigitsBundle, profile: str, runtime: str) -> None:
    bundle = read_bundle(digits_bundle(f"digits-{profile}", "none"))

    (candidate,) = bench_throughput(bundle, None, 2)

    assert candidate.executed_by.startswith(runtime)
    assert candidate.turns[0].settings["streams"] == "2"
    assert int(candidate.turns[0].settings["requests"]) >= 2
    assert all(turn.elapsed_ms >= 50 and turn.milliseconds for turn in candidate.turns)
    # no more is done at once than is in flight
    busy = sum(map(sum, (turn.milliseconds for turn in candidate.turns)))
    elapsed = sum(turn.elapsed_ms for turn in candidate.turns)
    assert busy <= 1.05 * int(candidate.turns[0].settings["requests"]) * elapsed


def test_a_model_of_fixed_shapes_is_given_a_batch(digits_bundle: DigitsBundle) -> None:
    (candidate,) = bench_throughput(read_bundle(digits_bundle("digits-intel-cpu", "none")), None, None, 4)

    assert candidate.batch == 4
    inferences = sum(len(turn.milliseconds) for turn in candidate.turns)
    elapsed = sum(turn.elapsed_ms for turn in candidate.turns)
    assert candidate.samples_per_second == pytest.approx(4 * inferences / elapsed * 1e3, rel=1)


def test_the_runtime_chooses(digits_bundle: DigitsBundle) -> None:
    (candidate,) = bench_throughput(read_bundle(digits_bundle("digits-onnxruntime", "none")), None, None)

    assert candidate.turns[0].settings["streams"] == str(len(os.sched_getaffinity(0)))


def test_an_open_batch_is_taken(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file("f (float[N, 3] x) => (float[N, 3] y) { y = Exp(x) }")
    bundle = api.package(model, "onnxruntime", tmp_path / "open", dims={"N": range(1, 9)})

    (candidate,) = bench_throughput(bundle, None, 1, 8)

    assert candidate.batch == 8


def test_a_state_whose_samples_are_counted_in_its_second_dimension_is_told(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    """The hidden state of ONNX's GRU is directions x batch x size."""
    weights = {name: np.zeros((1, 6, size), np.float32) for name, size in (("w", 3), ("r", 2))}
    text = (
        "f (float[N, 1, 3] x, float[1, N, 2] h) => (float[1, 1, N, 2] y, float[1, N, 2] n)"
        " { t = Transpose <perm = [1, 0, 2]> (x)  y, n = GRU <hidden_size = 2> (t, w, r, , , h) }"
    )
    bundle = api.package(onnx_file(text, **weights), "intel-cpu", tmp_path / "bundle")
    with pytest.raises(RequirementError) as refused:
        bench_throughput(bundle, None, 1, 4)
    assert refused.value.message == (
        "the model does not run on 4 samples beside one another in the first dimension of inputs: x 4×1×3, h 4×1×2"
    )
    assert refused.value.subject == str(bundle.path)
    assert refused.value.found is not None
    assert refused.value.hint == (
        "an input may count samples in another dimension, as states of recurrent layers do, or a node may hold the "
        "size 1 that --dim gave: package with --dim NAME=1..8, or leave --batch out"
    )
    (alone,) = bench_throughput(bundle, None, 2)
    assert alone.batch == 1


def test_refused(digits_bundle: DigitsBundle, tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    fixed = read_bundle(digits_bundle("digits-onnxruntime", "none"))
    with pytest.raises(InputError) as refused:
        bench_throughput(fixed, None, 1, 2)
    assert refused.value.subject == "--batch 2"
    assert "is fixed to one size, and onnxruntime runs it as it is" in refused.value.message
    assert refused.value.hint == "package it with the batch left open: `--dim NAME=1..2`"

    with pytest.raises(RequirementError, match="is executed by a stand-in here, whose throughput says nothing"):
        bench_throughput(read_bundle(digits_bundle("digits-ios18", "none")), None, 1)

    mixes = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { s = CumSum(x, axis)  y = Exp(s) }", axis=np.array(0))
    mixed = api.package(mixes, "intel-cpu", tmp_path / "mixed")
    with pytest.raises(RequirementError, match="the output 'y' differs between 3 equal samples"):
        bench_throughput(mixed, None, 1, 3)

    sums = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = ReduceSum(x, axis) }", axis=np.array([0]))
    summed = api.package(sums, "intel-cpu", tmp_path / "summed")
    with pytest.raises(RequirementError, match="the output 'y' does not have the shape for 3 samples"):
        bench_throughput(summed, None, 1, 3)

    for streams in ("0", "two", -1, "", 1025):
        with pytest.raises(InputError, match="is not a number of streams") as refused:
            api.throughput(fixed, streams=streams)
        assert refused.value.expected == "1 to 1024, or auto"
    with pytest.raises(InputError, match="is not a number of samples"):
        api.throughput(fixed, batch=0)
    with pytest.raises(InputError, match="this device runs one inference after another"):
        api.throughput(fixed, streams=2, device="isa:avx2")
    with pytest.raises(InputError, match="is the bundle itself"):
        api.throughput(fixed, streams=2, against=fixed)

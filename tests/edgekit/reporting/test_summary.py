import math
from typing import Any

import pytest

from edgekit.reporting.accuracy_texts import (
    accuracy_text,
    class_texts,
    data_text,
    meaning_text,
    sizes_texts,
    worst_db,
    worst_head_text,
    worst_output_text,
)
from edgekit.reporting.summary import (
    error_texts,
    expansion_texts,
    if_slower,
    instruction_texts,
    latency_text,
    poor_fit_texts,
    probability_texts,
    size_text,
    speedup_text,
    warnings,
)
from edgekit.units import bytes_text, decibel_text, duration_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (84_590, "84.59 kB"), (2_500_000, "2.5 MB"), (10**12, "1000 GB")],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(("value", "text"), [(41.26, "41.3 dB"), ("inf", "exact"), ("-inf", "nothing right")])
def test_decibels(value: float | str, text: str) -> None:
    assert decibel_text(value) == text


@pytest.mark.parametrize(
    ("microseconds", "text"), [(0.05, "0.05 µs"), (999.4, "999 µs"), (999.9, "1 ms"), (2921.0, "2.92 ms")]
)
def test_durations(microseconds: float, text: str) -> None:
    assert duration_text(microseconds) == text


def output(name: str, worst: float | str | None, mismatch: float = 0.0) -> dict[str, Any]:
    return {"name": name, "sqnr_db": worst, "worst_sample_db": worst, "mismatch": mismatch}


@pytest.mark.parametrize(
    ("scheme", "kind", "size", "told"),
    [
        ("auto", "quantized", 1240, "1.24 kB, 1.24 times the original's 1 kB; in float it is larger still"),
        ("int8", "quantized", 1240, "1.24 kB, 1.24 times the original's 1 kB: quantization made it no smaller"),
        ("auto", "float16", 1240, "1.24 kB, 1.24 times the original's 1 kB"),
        ("auto", "quantized", 500, "500 B, 0.50 times the original's 1 kB"),
    ],
)
def test_a_size_beyond_the_original_is_explained(scheme: str, kind: str, size: int, told: str) -> None:
    """``auto`` ships no quantized form that is as large as the device's form in float; other schemes do."""
    sizes = {"bytes": size, "source_bytes": 1000, "ratio": size / 1000}
    assert size_text({"size": sizes, "model": {"kind": kind}, "options": {"quantize": scheme}}) == told


def test_the_worst_output_is_that_of_the_worst_sample() -> None:
    accuracy: dict[str, Any] = {
        "outputs": [output("a", "inf"), output("b", 51.0), output("c", 90.0)],
        "self_agreement_db": {},
    }
    assert worst_db(accuracy) == 51.0
    assert worst_output_text(accuracy) == "b: SQNR 51.0 dB, 51.0 dB on its worst sample"
    accuracy["self_agreement_db"] = {"b": 54.0}
    assert worst_output_text(accuracy).endswith("; two executions of the original agree to 54.0 dB")


def test_the_signal_of_an_output_that_tells_boxes_is_said_not_to_count() -> None:
    meaning = {"kind": "boxes", "outputs": ["rows"], "count": 24, "wrong": 0}
    accuracy: dict[str, Any] = {
        "outputs": [output("rows", 8.8), output("features", 60.0)],
        "self_agreement_db": {},
        "meaning": meaning,
        "floors": {"sqnr_db": 20.0, "agreement": 0.95},
    }
    signal = "rows: SQNR 8.8 dB, 8.8 dB on its worst sample"
    assert worst_output_text(accuracy) == f"{signal}; judged by its boxes"
    accuracy["floors"] = {"sqnr_db": 5.0, "agreement": 0.95, "asked": True}  # --floor: the signal alone counts
    assert worst_output_text(accuracy) == signal
    accuracy["floors"] = {"sqnr_db": 20.0, "agreement": 0.95}
    accuracy["meaning"] = {**meaning, "count": 4}  # too few boxes to judge by
    assert worst_output_text(accuracy) == signal


def test_outputs_that_are_equal_are_told_so() -> None:
    accuracy: dict[str, Any] = {"outputs": [output("mask", "inf"), output("label", None)], "self_agreement_db": {}}
    assert worst_output_text(accuracy) == "mask: equal on all samples"
    accuracy["outputs"] = [output("label", None)]
    assert worst_output_text(accuracy) == "label: equal on all samples"


@pytest.mark.parametrize(
    ("kind", "count", "text"),
    [
        ("samples", 1, "1 sample"),
        ("samples", 3, "3 samples"),
        ("seeded", 1, "1 random input from a fixed seed"),
        ("seeded", 4, "4 random inputs from a fixed seed"),
    ],
)
def test_what_was_compared_on(kind: str, count: int, text: str) -> None:
    assert data_text({"data": {"kind": kind, "samples": count}}) == text


def test_an_output_that_is_too_small_to_compare_is_not_the_worst() -> None:
    outputs = [output("boxes", 51.0), output("scores", "-inf")]
    assert worst_db({"outputs": outputs, "vanished": ["scores"]}) == 51.0
    assert worst_db({"outputs": outputs[1:], "vanished": ["scores"]}) is None


def test_outputs_without_floats_are_told_by_what_differs() -> None:
    accuracy = {"outputs": [output("a", None), output("b", None, 0.25)], "self_agreement_db": {}}
    assert worst_db(accuracy) is None
    assert worst_output_text(accuracy) == "b: 25.00% of the elements differ"


def test_integers_that_differ_are_told_beside_the_worst_floats() -> None:
    outputs = [output("audio", 35.6), output("codes", None, 0.04375), output("more", None, 0.01)]
    accuracy: dict[str, Any] = {"outputs": outputs, "self_agreement_db": {}}
    worst = "audio: SQNR 35.6 dB, 35.6 dB on its worst sample"
    assert worst_output_text(accuracy) == f"{worst}; codes: 4.38% of the elements differ"
    accuracy["outputs"] = [output("audio", 35.6), output("label", None, 0.0)]
    assert worst_output_text(accuracy) == worst


def test_a_picture_of_8_bit_integers_is_told_by_how_much_it_differs() -> None:
    picture = {**output("p", None, 0.25), "picture_db": 39.0, "max_abs_error": 15.0}
    accuracy: dict[str, Any] = {"outputs": [picture], "self_agreement_db": {}}
    text = "p: 25.00% of the elements differ, by at most 15 (SQNR 39.0 dB)"
    assert worst_output_text(accuracy) == text
    accuracy["pooled_agreement_db"] = {"p": 38.0}
    assert worst_output_text(accuracy) == f"{text}; two executions of the original agree to 38.0 dB"


def test_of_many_sizes_the_worst_is_told() -> None:
    def at(size: int, decibels: float) -> dict[str, object]:
        output = {"name": "y", "sqnr_db": decibels, "worst_sample_db": decibels - 1, "mismatch": 0.0}
        return {"sizes": {"N": size}, "outputs": [output]}

    few: dict[str, Any] = {"self_agreement_db": {}, "sizes": [at(1, 60.0), at(8, 50.0)]}
    assert sizes_texts(few) == [
        "N=1: y: SQNR 60.0 dB, 59.0 dB on its worst sample",
        "N=8: y: SQNR 50.0 dB, 49.0 dB on its worst sample",
    ]
    many: dict[str, Any] = {"self_agreement_db": {}, "sizes": [at(size, 60.0 - (size == 5)) for size in range(1, 9)]}
    assert sizes_texts(many) == ["N=5: y: SQNR 59.0 dB, 58.0 dB on its worst sample, the worst of 8"]
    vanished = {**at(9, -math.inf), "vanished": ["y"]}
    assert sizes_texts({**few, "sizes": [vanished]}) == ["N=9: y: too small on these inputs to compare"]
    assert sizes_texts({**many, "sizes": [*many["sizes"], vanished]}) == [
        "N=5: y: SQNR 59.0 dB, 58.0 dB on its worst sample, the worst of 9"
    ]
    assert sizes_texts({"self_agreement_db": {}}) == []


def grown(profile: str, ratio: float, *rewrites: tuple[str, int]) -> dict[str, Any]:
    record = {"rewrites": [{"op_type": op_type, "nodes": nodes} for op_type, nodes in rewrites]}
    return {
        "target": {"profile": profile},
        "size": {"bytes": round(2000 * ratio), "source_bytes": 2000, "ratio": ratio},
        "stages": [{"name": "pre-check", "seconds": 1.0, "record": record}],
    }


def test_what_made_a_build_much_larger_is_told() -> None:
    trees = ("ai.onnx.ml.TreeEnsembleRegressor", 21)
    main = grown("intel-cpu", 6.1, ("Mish", 1), trees, ("ai.onnx.ml.Scaler", 1), ("Mish", 2))
    assert expansion_texts(main) == [
        "ai.onnx.ml.TreeEnsembleRegressor into 21 nodes, Mish into 3 nodes, ai.onnx.ml.Scaler into 1 node"
    ]
    assert warnings({**main, "also": [grown("ios18", 2.0, trees)]}) == [
        "on intel-cpu the model takes 6.1 times as much space as the original (12.2 kB, not 2 kB): operators that the "
        "device does not take are expanded, ai.onnx.ml.TreeEnsembleRegressor into 21 nodes, Mish into 3 nodes, "
        "ai.onnx.ml.Scaler into 1 node",
        "on ios18 the model takes 2 times as much space as the original (4 kB, not 2 kB): operators that the device "
        "does not take are expanded, ai.onnx.ml.TreeEnsembleRegressor into 21 nodes",
    ]


def slowed(
    build: dict[str, Any], ratio: float, interval: tuple[float, float], of_device: bool = True
) -> dict[str, Any]:
    return {**build, "latency": {"ratio": ratio, "ratio_interval": list(interval), "of_device": of_device}}


def test_what_made_a_build_much_slower_is_told() -> None:
    trees = ("ai.onnx.ml.TreeEnsembleRegressor", 21)
    small = grown("intel-cpu", 0.5, trees)
    assert warnings(slowed(small, 5.05, (5.0, 5.2))) == [
        "on intel-cpu an inference takes 5.05 times as long as the original's: operators that the device does not take "
        "are expanded, ai.onnx.ml.TreeEnsembleRegressor into 21 nodes"
    ]
    assert warnings(slowed(grown("intel-cpu", 2.0, trees), 44.1, (43.0, 45.0))) == [
        "on intel-cpu the model takes 2 times as much space as the original (4 kB, not 2 kB) and an inference takes "
        "44.1 times as long as the original's: operators that the device does not take are expanded, "
        "ai.onnx.ml.TreeEnsembleRegressor into 21 nodes"
    ]
    for told in (
        slowed(small, 1.2, (1.1, 1.3)),
        slowed(small, 5.0, (2.0, 9.0)),
        slowed(small, 124.0, (120.0, 130.0), of_device=False),
    ):
        assert warnings(told) == []


@pytest.mark.parametrize("build", [grown("intel-cpu", 1.4, ("Mish", 1)), grown("intel-cpu", 4.0)])
def test_nothing_is_told_of_a_build_that_is_as_small_or_holds_what_the_model_has(build: dict[str, Any]) -> None:
    assert expansion_texts(build) == []
    assert warnings(build) == []


@pytest.mark.parametrize(
    ("fit", "partitions", "texts"),
    [
        (
            "poor",
            3,
            [
                "XNNPACK could execute 8% of the nodes in 3 parts: a poor fit; `edgekit check` shows which nodes run "
                "elsewhere, and why"
            ],
        ),
        (
            "poor",
            None,
            [
                "XNNPACK could execute 8% of the nodes: a poor fit; `edgekit check` shows which nodes run elsewhere, "
                "and why"
            ],
        ),
        ("good", 1, []),
        ("unknown", None, []),
    ],
)
def test_a_poor_fit_is_told(fit: str, partitions: int | None, texts: list[str]) -> None:
    record = {"accelerator": "XNNPACK", "accelerator_share": 0.08, "partitions": partitions, "fit": fit}
    assert poor_fit_texts({"stages": [{"name": "check operators", "record": record}]}) == texts


def test_the_class_that_keeps_the_least_is_told() -> None:
    worst = {"number": 3, "places": 40, "kept": 36, "overlap": 36 / 42, "told": True}
    outputs = [
        {"name": "map", "agreement": 0.995, "decisions": 2000, "worst_class": worst},
        {"name": "guess", "agreement": 0.995, "decisions": 2000, "worst_class": {**worst, "told": False}},
        {"name": "numbers", "agreement": None, "decisions": None},
        {"name": "all", "agreement": 1.0, "decisions": 60, "worst_class": {**worst, "kept": 40, "overlap": 1.0}},
    ]
    assert class_texts({"floors": {"agreement": None}, "outputs": outputs}) == [
        "map: 1990 of 2000 decisions equal; the least alike is class 3, 36 of 40 places kept, overlap 0.86",
        "all: 60 of 60 decisions equal",
    ]


@pytest.mark.parametrize(("floor", "named", "is_told"), [(None, True, True), (0.95, False, True), (None, False, False)])
def test_the_map_that_keeps_the_least_is_told(floor: float | None, named: bool, is_told: bool) -> None:
    worst = {"number": 2, "places": 40, "kept": 36, "overlap": 36 / 42, "told": named, "is_map": True}
    outputs = [{"name": "masks", "agreement": None, "decisions": None, "worst_class": worst}]
    text = "masks: worst for values above 0.5: map 2, 36 of 40 places kept, overlap 0.86"
    assert class_texts({"floors": {"agreement": floor}, "outputs": outputs}) == [text] * is_told


def test_the_channel_that_keeps_the_least_is_told() -> None:
    worst = {"number": 2, "places": 40, "kept": 36, "overlap": 36 / 42, "told": False}
    outputs = [{"name": "logits", "agreement": None, "decisions": None, "worst_class": worst}]
    assert class_texts({"floors": {"agreement": 0.95}, "outputs": outputs}) == [
        "logits: worst where one channel is clearly the largest: channel 2, 36 of 40 places kept, overlap 0.86"
    ]


@pytest.mark.parametrize(
    ("floor", "told"),
    [(0.95, ["logits: 1723 of 1729 decisions equal", "digit: 31 of 32 decisions equal"]), (None, [])],
)
def test_decisions_are_told_where_a_sample_has_several_and_of_classes_by_the_graph(
    floor: float | None, told: list[str]
) -> None:
    alone = [{"name": "pooled", "agreement": 0.9, "decisions": 60, "samples": 60}]
    assert class_texts({"floors": {"agreement": floor}, "outputs": alone}) == []
    outputs = [
        {"name": "logits", "agreement": 1723 / 1729, "decisions": 1729, "samples": 60},
        {"name": "digit", "agreement": 31 / 32, "decisions": 32, "samples": 32, "tells_classes": True},
        {"name": "numbers", "agreement": None, "decisions": None, "samples": 60},
    ]
    assert class_texts({"floors": {"agreement": floor}, "outputs": outputs}) == told


def test_scores_of_boxes_tell_no_decisions() -> None:
    outputs = [
        {"name": "scores8", "agreement": 0.94, "decisions": 60800, "samples": 32},
        {"name": "tags", "agreement": 63 / 64, "decisions": 64, "samples": 32},
    ]
    meaning = {"kind": "boxes", "outputs": ["scores8", "boxes8"]}
    accuracy = {"floors": {"agreement": 0.95}, "outputs": outputs}
    assert class_texts({**accuracy, "meaning": meaning}) == ["tags: 63 of 64 decisions equal"]
    assert class_texts(accuracy) == ["scores8: 57152 of 60800 decisions equal", "tags: 63 of 64 decisions equal"]


@pytest.mark.parametrize(
    ("heads", "told"),
    [
        (2, ["char0: 32 of 32 decisions equal", "char1: 31 of 32 decisions equal"]),
        (9, ["char1: 31 of 32 decisions equal"]),
    ],
)
def test_each_of_several_heads_is_told_and_of_many_the_worst(heads: int, told: list[str]) -> None:
    outputs = [
        {"name": f"char{at}", "agreement": 31 / 32 if at == 1 else 1.0, "decisions": 32, "samples": 32}
        for at in range(heads)
    ]
    vectors = {"name": "vectors", "agreement": 1.0, "decisions": 32, "samples": 32}
    meaning = {"kind": "embeddings", "outputs": ["vectors"]}
    accuracy = {"floors": {"agreement": 0.95}, "meaning": meaning, "outputs": [*outputs, vectors]}
    assert class_texts(accuracy) == told
    assert worst_head_text(accuracy) == f"of {heads} heads, the worst is char1: 31 of 32 decisions equal"
    assert accuracy_text({**accuracy, "task": None}) == "decisions 96.88%"
    one = {"outputs": outputs[:1], "task": None}
    assert (worst_head_text(one), accuracy_text(one)) == ("", "")


@pytest.mark.parametrize(
    ("scores", "kind", "told"),
    [
        ("probabilities", "quantized", ["prob: a probability is off by 0.086 at most"]),
        ("independent", "float16", ["prob: a probability is off by 0.086 at most"]),
        ("probabilities", "float32", []),
        ("logits", "quantized", []),
    ],
)
def test_how_far_a_probability_is_off(scores: str, kind: str, told: list[str]) -> None:
    outputs = [{"name": "label", "max_abs_error": 1.0}, {"name": "prob", "max_abs_error": 0.08561}]
    classes = {"output": "prob", "scores": scores}
    assert probability_texts({"classes": classes, "model": {"kind": kind}, "accuracy": {"outputs": outputs}}) == told
    assert probability_texts({"model": {"kind": kind}, "accuracy": {"outputs": outputs}}) == []


@pytest.mark.parametrize(
    ("meaning", "text"),
    [
        ({"kind": "boxes", "count": 21, "wrong": 1, "agreement": 20 / 21}, "verified with avx2 (20 of 21 boxes)"),
        ({"kind": "boxes", "count": 0, "wrong": 0, "agreement": 1.0}, "verified with avx2 (1.7 dB)"),
        ({"kind": "embeddings", "count": 8, "wrong": 0, "agreement": 1.0}, "verified with avx2 (1.7 dB)"),
        (None, "verified with avx2 (1.7 dB)"),
    ],
)
def test_an_instruction_set_is_told_by_what_is_counted(meaning: dict[str, Any] | None, text: str) -> None:
    """The signal of a detector's rows says nothing: rows of nearly equal scores change places."""
    found = {"task": None, "data": {"samples": 16}, "outputs": [{"sqnr_db": 7.0, "worst_sample_db": 1.7}]}
    record = found if meaning is None else {**found, "meaning": meaning}
    assert instruction_texts({"instruction_sets": {"verified": {"avx2": record}, "not_executed": {}}}) == [text]


def test_instruction_sets_that_one_reason_kept_from_being_executed_are_one_line() -> None:
    kept = {"avx2": "an emulator alone executes it", "avx512": "no switch", "vnni": "no switch"}
    assert instruction_texts({"instruction_sets": {"verified": {}, "not_executed": kept}}) == [
        "not executed with avx2: an emulator alone executes it",
        "not executed with avx512, vnni: no switch",
    ]


def test_errors_of_several_quantities_are_numbered() -> None:
    def error(most: float) -> dict[str, float]:
        return {"mean": most / 2, "most": most, "deviation": 3.0}

    outputs = [{"name": "pose", "errors": [error(2.0), error(4.0)]}, {"name": "load", "errors": [error(1.0)]}]
    assert error_texts({"accuracy": {"outputs": outputs}, "stages": []}) == [
        "pose: [0] 1 on average, 2 at most, of ±3; [1] 2 on average, 4 at most, of ±3",
        "load: 0.5 on average, 1 at most, of ±3",
    ]


def test_by_how_much_a_curve_is_off_in_all() -> None:
    curve = {"name": "quantiles", "is_curve": True, "centred_db": 47.92, "max_abs_error": 0.3738}
    exact = {"name": "day", "is_curve": True, "centred_db": "inf", "max_abs_error": 0.0}
    field = {"name": "flow", "is_field": True, "centred_db": 31.5, "max_abs_error": 0.25}
    assert error_texts({"accuracy": {"outputs": [curve, exact, field]}, "stages": []}) == [
        "quantiles: 0.374 at most, SQNR 47.9 dB for what varies between samples",
        "day: 0 at most, SQNR exact for what varies between samples",
        "flow: 0.25 at most, SQNR 31.5 dB for what varies between places",
    ]


@pytest.mark.parametrize(
    ("accuracy", "told"),
    [
        ({"task": {"built": 0.995}, "meaning": {"kind": "boxes", "agreement": 1.0}}, "99.50%"),
        ({"task": None, "meaning": {"kind": "boxes", "agreement": 0.975}}, "boxes 97.50%"),
        ({"task": None, "meaning": {"kind": "embeddings", "agreement": 0.99724}}, "embeddings 99.72%"),
        ({"task": None, "meaning": None}, ""),
        ({"task": None}, ""),
    ],
)
def test_the_accuracy_of_a_bundle_in_a_few_words(accuracy: dict[str, Any], told: str) -> None:
    """The column of a detector was empty, though its boxes had been compared."""
    assert accuracy_text(accuracy) == told


@pytest.mark.parametrize(
    ("scheme", "ratio", "of_device", "is_told"),
    [
        ("int8", 1.78, True, True),
        ("auto", 1.78, True, False),
        ("int8", 1.01, True, False),
        ("int8", 1.78, False, False),
    ],
)
def test_integers_that_were_asked_for_and_are_slower_are_told(
    scheme: str, ratio: float, of_device: bool, is_told: bool
) -> None:
    manifest = {
        "latency": {"ratio": ratio, "of_device": of_device},
        "model": {"kind": "quantized"},
        "options": {"quantize": scheme},
    }
    assert if_slower(manifest) == ("; slower than float, which `--quantize auto` avoids" if is_told else "")


@pytest.mark.parametrize(
    ("interval", "told"),
    [
        ([3.02, 259.7], "; unsteady: 3.02 to 259.70 times the original's"),
        ([85.0, 93.0], ""),
        (None, ""),
    ],
)
def test_a_latency_whose_ratio_says_little_is_told_with_its_interval(interval: list[float] | None, told: str) -> None:
    """Twenty runs beside other work took from 0.11 to 567 ms."""
    latency: dict[str, Any] = {
        "of_device": True,
        "ratio": 89.34,
        "built": {"runs": 20, "p50_ms": 8.37, "p90_ms": 209.0874, "p99_ms": 560.0},
        "reference": {"runs": 20, "p50_ms": 0.0937},
    }
    if interval is not None:
        latency["ratio_interval"] = interval
    text = "P50 8.37 ms, P90 209 ms, P99 560 ms; 89.34 times the original's P50 0.0937 ms"
    assert latency_text(latency) == text + told
    manifest = {"latency": latency, "model": {"kind": "quantized"}, "options": {"quantize": "int8"}}
    assert bool(if_slower(manifest)) is not bool(told)


def test_a_latency_of_few_runs_is_told_as_such() -> None:
    latency = {
        "of_device": True,
        "ratio": 40.86,
        "built": {"runs": 1, "p50_ms": 5570.0, "p90_ms": 5570.0, "p99_ms": 5570.0},
        "reference": {"runs": 1, "p50_ms": 136.0},
    }
    text = "P50 5.57 s, P90 5.57 s, P99 5.57 s; 40.86 times the original's P50 136 ms; "
    assert latency_text(latency) == f"{text}1 run each, too few to rule out that other programs slowed them down"


@pytest.mark.parametrize(
    ("interval", "told"),
    [([6.9, 25.21], "; unsteady: 6.90 to 25.21 times"), ([20.0, 29.9], ""), (None, "")],
)
def test_a_candidate_whose_turns_differ_is_told_with_the_interval(interval: list[float] | None, told: str) -> None:
    trial = {"latency_ms": 1.0, "float_latency_ms": 25.21, "speedup_interval": interval}
    assert speedup_text(trial) == "25.21 times as fast as float on this machine" + told
    assert speedup_text({"latency_ms": None, "float_latency_ms": None}) is None


def test_boxes_are_counted_in_both_models() -> None:
    """Nine faces that both models find are 18 boxes; a text has the characters of the original."""
    faces = {"count": 18, "wrong": 0, "of_original": 9, "overlap": 1.0, "read_as": "corners"}
    assert meaning_text(faces) == "18 of 18 equal, counted in both models, 1.00 overlap on average (corners)"
    text = {"count": 40, "wrong": 1, "of_original": None, "overlap": None, "read_as": "CTC"}
    assert meaning_text(text) == "39 of 40 equal (CTC)"

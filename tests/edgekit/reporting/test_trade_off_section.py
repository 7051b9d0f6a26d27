import re
from typing import Any

from edgekit.reporting.trade_off_section import trade_off

FLOATING = {"metric": "agreement", "float_value": 1.0, "float_latency_ms": 10.0, "float_weight_bytes": 4000}


def manifest(*trials: dict[str, Any], failed: str | None = None) -> dict[str, Any]:
    """A manifest with these candidates, as a quantizer with a budget of 1 % records them."""
    curve = [{"sqnr_db": 30.0, "integer_layers": 3, **FLOATING, **trial} for trial in trials]
    kept = ("candidate", "metric", "value", "float_value", "sqnr_db", "latency_ms", "float_latency_ms", "weight_bytes")
    candidates = [{key: trial[key] for key in (*kept, "fate", "reason") if key in trial} for trial in curve]
    if failed is not None:
        candidates.append({"candidate": failed, "fate": "failed", "reason": "cannot be loaded"})
    stages = [{"name": "quantize", "seconds": 1.0, "record": {"max_drop": 0.01, "curve": curve}}]
    return {"candidates": candidates, "stages": stages}


GOOD = {"candidate": "integers", "fate": "ships", "reason": "", "value": 0.995, "drop": 0.005, "latency_ms": 4.0}
BAD = {"candidate": "palettes", "fate": "refused", "reason": "50% lost", "value": 0.5, "drop": 0.5, "latency_ms": 5.0}


def test_each_candidate_is_a_row_with_its_outcome_and_reason() -> None:
    shown = trade_off(manifest({**GOOD, "weight_bytes": 1000}, {**BAD, "weight_bytes": 500}, failed="<b>float16</b>"))
    assert [row["style"] for row in shown["rows"]] == ["chosen", "refused", "refused"]
    assert [row["cells"] for row in shown["rows"]] == [
        ("1", "integers", "ships", "agreement 99.50%", "0.50%", "30.0 dB", "4 ms, ×0.40", "1 kB", ""),
        ("2", "palettes", "refused", "agreement 50.00%", "50.00%", "30.0 dB", "5 ms, ×0.50", "500 B", "50% lost"),
        ("3", "<b>float16</b>", "failed", "", "", "", "", "", "cannot be loaded"),
    ]
    assert shown["notes"] == [
        (
            "F is the float model; the line joins the candidates that no other one beats in both quality and time or "
            "size."
        ),
        "The budget allows a loss of 1.00%.",
        "Candidates that lose more than 4 times the budget are drawn at the lower edge.",
    ]


def test_the_charts_show_time_and_size_beside_the_float_model() -> None:
    shown = trade_off(manifest({**GOOD, "weight_bytes": 1000}, {**BAD, "weight_bytes": 500}))
    assert len(shown["charts"]) == 2
    for chart in shown["charts"]:
        dots = dict(re.findall(r'<text class="dot \w+" x="([\d.]+)" y="[\d.]+">(\w)</text>', chart))
        places = {label: float(left) for left, label in dots.items()}
        assert places.keys() == {"F", "1", "2"}
        assert places["1"] < places["F"] > places["2"]
        assert 'class="budget"' in chart


def test_without_times_there_is_one_chart_and_without_candidates_a_sentence() -> None:
    untimed = {key: value for key, value in GOOD.items() if key != "latency_ms"}
    assert len(trade_off(manifest({**untimed, "weight_bytes": 1000}))["charts"]) == 1
    nothing = trade_off({"stages": []})
    assert (nothing["charts"], nothing["rows"]) == ([], [])
    assert nothing["notes"] == [
        "No candidates were tried: the model was not quantized, or the scheme has only one form."
    ]


def test_what_keeping_sums_from_saturation_costs_stands_beside_the_candidates() -> None:
    given = manifest({**GOOD, "weight_bytes": 1000})
    settings = {"OpenVINO, 1 thread": 0.999, "OpenVINO, isa:avx2": 0.32}
    free = {**FLOATING, "candidate": "integers, unrestricted", "value": 0.32, "drop": 0.68, "sqnr_db": 3.0}
    given["stages"][0]["record"]["unrestricted"] = {
        **free,
        "latency_ms": 4.0,
        "weight_bytes": 1000,
        "settings": settings,
    }

    *_, row = trade_off(given)["rows"]

    assert row["style"] == "spare"
    assert row["cells"][1:4] == ("integers, unrestricted", "compared", "agreement 32.00%")
    assert row["cells"][-1] == (
        "for comparison: sums of products may saturate on processors without VNNI; 32.00% with OpenVINO, isa:avx2"
    )


def test_an_output_with_a_budget_of_its_own_is_told_by_its_own_figures() -> None:
    """1 % of the decisions may be lost and 0.3 % of the signal: half of the first is drawn as half of the second."""
    heads = {"cls": {"kept": 0.995, "decisions": 800}, "box": {"kept": 0.999, "decisions": None}}
    trial = {**GOOD, "metric": "explained", "drop": 0.0015, "head": "cls", "heads": heads, "weight_bytes": 1000}
    shown = trade_off(manifest(trial))
    assert shown["rows"][0]["cells"][3:5] == ("agreement 99.50%", "0.50% of cls")
    assert shown["notes"][-1] == (
        "An output that decides, such as by its classes, has a budget of its own: its loss is drawn as the same share "
        "of the chart's budget."
    )
    signal = trade_off(manifest({**trial, "head": "box", "value": 0.999}))
    assert signal["rows"][0]["cells"][3:5] == ("explained 99.90%", "0.10% of box")

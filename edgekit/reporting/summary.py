"""Summarizes a bundle in a few lines: what it is, its size, accuracy and latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from edgekit.features.class_scores import EMBEDDINGS
from edgekit.reporting.accuracy_texts import (
    class_texts,
    data_text,
    meaning_text,
    padding_texts,
    sizes_texts,
    task_text,
    worst_db,
    worst_output_text,
)
from edgekit.timing.latency import LEAST_TURNS
from edgekit.units import bytes_text, decibel_text, time_text

Manifest = Mapping[str, Any]

MUCH_MORE = 1.5
"""From this multiple of the original's size or latency on, the operators that made a build grow or slow are named."""
STAND_IN = "of a stand-in on the machine that packaged it: says nothing about the device"

UNSTEADY = 1.5
"""A ratio is unsteady if the upper end of its confidence interval is at least this multiple of the lower end."""
_SLOWER = 1.05
"""Above this multiple of the original's latency a form counts as slower: timings of the same form differ by as much."""
_MOST_ERRORS = 4
"""Most numbers of an output whose errors are shown; the manifest has all."""


def summary_rows(manifest: Manifest) -> list[tuple[str, str]]:
    """What a bundle is and how good it is, as rows of label and text."""
    accuracy, latency, target = manifest["accuracy"], manifest["latency"], manifest["target"]
    rows = [
        ("model", f"{manifest['name']} ({manifest['source']['files'][0]['path']})"),
        ("target", f"{target['profile']}: {target['description']}"),
        ("built as", built_as(manifest)),
        *(("not quantized", text) for text in _why_in_float(manifest)),
        ("size", size_text(manifest)),
        *(("expanded", text) for text in expansion_texts(manifest)),
    ]
    rows += [("keeps", f"{state['name']}, replaced by {state['replaced_by']}") for state in manifest.get("states", ())]
    if accuracy["task"] is not None:
        rows.append(("accuracy", task_text(accuracy)))
    rows += [("measured", text) for text in evaluation_texts(manifest)]
    if accuracy.get("meaning") is not None:
        rows.append((accuracy["meaning"]["kind"], meaning_text(accuracy["meaning"])))
    rows += [("classes", text) for text in class_texts(accuracy)]
    rows += [
        ("worst output", worst_output_text(accuracy)),
        *(("off by", text) for text in [*error_texts(manifest), *probability_texts(manifest)]),
        *(("at sizes", text) for text in sizes_texts(accuracy)),
        ("compared on", data_text(accuracy)),
        *(("not judged", text) for text in padding_texts(accuracy)),
        *(("fed back", text) for text in fed_back_texts(manifest)),
        ("executed by", accuracy["executed_by"]),
        *(("and by", text) for text in witness_texts(manifest)),
        *(("simulated", text) for text in simulation_texts(manifest)),
        *(("instructions", text) for text in instruction_texts(manifest)),
        ("latency", latency_text(latency) + if_slower(manifest)),
        *(("accelerator", text) for text in poor_fit_texts(manifest)),
        *(("also", further_text(build)) for build in manifest.get("also", ())),
    ]
    return rows


def evaluation_texts(build: Mapping[str, Any]) -> list[str]:
    """The results of the project's own evaluation function for both models; empty without such a function."""
    found = stage_record(build, "verify").get("evaluation")
    return [] if found is None else [f"{found['metric']} {found['built']:.5g}, the original's {found['reference']:.5g}"]


def error_texts(manifest: Manifest) -> list[str]:
    """The errors of outputs that are quantities, in their own units, one text per output; states are left out."""
    record = stage_record(manifest, "verify").get("fed_back")
    states = () if record is None else record["states"].values()
    return [
        f"{output['name']}: {_curve_text(output) if _is_large(output) else _errors_text(output['errors'])}"
        for output in manifest["accuracy"]["outputs"]
        if (output.get("errors") or _is_large(output)) and output["name"] not in states
    ]


def _is_large(output: Mapping[str, Any]) -> bool:
    """Whether an output has too many numbers to show one by one: a curve, a table or a field."""
    return bool(output.get("is_curve") or output.get("is_field"))


def _errors_text(errors: Sequence[Mapping[str, float]]) -> str:
    more = "; …" if len(errors) > _MOST_ERRORS else ""
    return _numbered(list(map(_error_text, errors[:_MOST_ERRORS])), len(errors)) + more


def _curve_text(output: Mapping[str, Any]) -> str:
    """The error of a curve, a table or a field, whose numbers are too many to show one by one."""
    varies, between = decibel_text(output["centred_db"]), "places" if output.get("is_field") else "samples"
    return f"{output['max_abs_error']:.3g} at most, SQNR {varies} for what varies between {between}"


def probability_texts(manifest: Manifest) -> list[str]:
    """The largest error of a class's probability, for builds in less than float32; thresholds depend on it."""
    classes = manifest.get("classes") or {}
    if classes.get("scores") not in ("probabilities", "independent") or manifest["model"]["kind"] == "float32":
        return []
    scale = classes.get("scale", 1.0)
    return [
        f"{output['name']}: a probability is off by {output['max_abs_error'] * scale:.2g} at most"
        for output in manifest["accuracy"]["outputs"]
        if output["name"] == classes["output"] and output["max_abs_error"] is not None
    ]


def _numbered(texts: Sequence[str], count: int) -> str:
    """The texts of an output's first numbers, each after its index from 0; without an index if there is only one."""
    return "; ".join(texts if count == 1 else (f"[{place}] {text}" for place, text in enumerate(texts)))


def _error_text(error: Mapping[str, float]) -> str:
    return f"{error['mean']:.3g} on average, {error['most']:.3g} at most, of ±{error['deviation']:.3g}"


def poor_fit_texts(manifest: Manifest) -> list[str]:
    """What share of the nodes the accelerator runs, if it is so small that the accelerator may gain nothing."""
    record = stage_record(manifest, "check operators")
    if record.get("fit") != "poor":
        return []
    partitions = record.get("partitions")
    parts = "" if partitions is None else f" in {partitions} part{'s' if partitions != 1 else ''}"
    return [
        f"{record['accelerator']} could execute {record['accelerator_share']:.0%} of the nodes{parts}: a poor fit; "
        "`edgekit check` shows which nodes run elsewhere, and why"
    ]


def fed_back_texts(build: Mapping[str, Any]) -> list[str]:
    """How near the build stays to the original when its states are fed back; empty for a model without states."""
    record = stage_record(build, "verify").get("fed_back")
    return [] if record is None else [fed_back_text(record)]


def fed_back_text(record: Mapping[str, Any]) -> str:
    """The SQNR of the worst output when states are fed back, the number of steps, and which states."""
    fed = ", ".join(f"{name} by {output!r}" for name, output in record["states"].items())
    return f"{record['output']}: SQNR {decibel_text(float(record['sqnr_db']))} over {record['steps']} steps, {fed}"


def witness_texts(build: Mapping[str, Any]) -> list[str]:
    """What a second runtime computes; empty if none executed the build."""
    record = stage_record(build, "witness")
    if "executed_by" not in record:
        return []
    figures = [float(output["sqnr_db"]) for output in record["against_runtime"] if output["sqnr_db"] is not None]
    near = f", to {decibel_text(min(figures))} as the first" if figures else ""
    parting = record["parting"]
    parts = "" if parting is None else f"; they part at {parting['op_type']} {parting['operation']!r}"
    return [f"{record['executed_by']}{near}{parts}"]


def further_text(build: Mapping[str, Any]) -> str:
    """What a build for a further device is and how good it is."""
    size, accuracy = build["size"]["bytes"], build["accuracy"]
    return (
        f"{build['target']['profile']}: {build['model']['main']}, {build['model']['kind']}, {bytes_text(size)}; "
        f"{worst_output_text(accuracy)}; executed by {accuracy['executed_by']}"
    )


def summary_record(manifest: Manifest) -> dict[str, Any]:
    """The summary of a bundle as plain data, for ``--json``."""
    return {
        "name": manifest["name"],
        "edgekit": manifest["edgekit"],
        "fingerprint": manifest["fingerprint"],
        "source": manifest["source"],
        **_build_record(manifest),
        "quantization": scheme(manifest),
        "latency": manifest["latency"],
        "seconds": round(sum(stage["seconds"] for stage in _all_stages(manifest)), 3),
        "warnings": warnings(manifest),
        "also": [_build_record(build) for build in manifest.get("also", ())],
    }


def _build_record(build: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of the build for one device, as plain data."""
    accuracy = build["accuracy"]
    return {
        "target": build["target"]["profile"],
        "kind": build["model"]["kind"],
        "size": build["size"],
        "accuracy": {
            "executed_by": accuracy["executed_by"],
            "data": accuracy["data"],
            "worst_db": worst_db(accuracy),
            "floors": accuracy["floors"],
            "outputs": accuracy["outputs"],
            "task": accuracy["task"],
            "meaning": accuracy.get("meaning"),
            "self_agreement_db": accuracy.get("self_agreement_db", {}),
            "vanished": list(accuracy.get("vanished", ())),
            "ranked": accuracy.get("ranked"),
            "accepted": list(accuracy.get("accepted", ())),
            "sizes": list(accuracy.get("sizes", ())),
        },
        "instruction_sets": build.get("instruction_sets"),
    }


def _all_stages(manifest: Manifest) -> list[Mapping[str, Any]]:
    """The stages of all builds."""
    return [stage for build in (manifest, *manifest.get("also", ())) for stage in build["stages"]]


def warnings(manifest: Manifest) -> list[str]:
    """The stages' warnings, each once, and what made a build much larger or slower than the original."""
    texts = dict.fromkeys(text for stage in _all_stages(manifest) for text in stage["record"].get("warnings", ()))
    return [*texts, *(text for build in (manifest, *manifest.get("also", ())) for text in _growth_texts(build))]


def expansion_texts(build: Mapping[str, Any]) -> list[str]:
    """Which operators were expanded into how many nodes, if the build is much larger or slower than the original."""
    nodes: Counter[str] = Counter()
    for rewrite in stage_record(build, "pre-check").get("rewrites", ()):
        nodes[rewrite["op_type"]] += rewrite["nodes"]
    if not nodes or not (_is_much_larger(build) or _is_much_slower(build)):
        return []
    return [", ".join(f"{op_type} into {count} node{'s' * (count != 1)}" for op_type, count in nodes.most_common())]


def _is_much_larger(build: Mapping[str, Any]) -> bool:
    return bool(build["size"]["ratio"] >= MUCH_MORE)


def _is_much_slower(build: Mapping[str, Any]) -> bool:
    """Whether a build is much slower than the original, by a steady measurement on the device."""
    latency = build.get("latency")
    if latency is None or not latency["of_device"]:
        return False
    return latency["ratio"] >= MUCH_MORE and unsteady_ratio(latency) is None


def _growth_texts(build: Mapping[str, Any]) -> list[str]:
    size, found = build["size"], []
    if _is_much_larger(build):
        found.append(
            f"the model takes {size['ratio']:.3g} times as much space as the original "
            f"({bytes_text(size['bytes'])}, not {bytes_text(size['source_bytes'])})"
        )
    if _is_much_slower(build):
        found.append(f"an inference takes {build['latency']['ratio']:.3g} times as long as the original's")
    return [
        f"on {build['target']['profile']} {' and '.join(found)}: operators that the device does not take are "
        f"expanded, {text}"
        for text in expansion_texts(build)
    ]


def simulation_texts(build: Mapping[str, Any]) -> list[str]:
    """What a simulator of the device computes; empty if none executed the build."""
    record = stage_record(build, "simulate")
    if "executed_by" not in record:
        return []
    samples = record["data"]["samples"]
    count = f"{samples} sample{'s' * (samples != 1)}"
    return [f"{worst_output_text(record)}, on {count}; executed by {record['executed_by']}"]


def stage_record(manifest: Manifest, name: str) -> Mapping[str, Any]:
    """The record of the stage's last run; empty if it did not run."""
    records = [stage["record"] for stage in manifest["stages"] if stage["name"] == name]
    return records[-1] if records else {}


def scheme(manifest: Manifest) -> str:
    """The quantization scheme that was used."""
    return str(stage_record(manifest, "quantize").get("scheme", "none"))


def built_as(manifest: Manifest) -> str:
    """Kind and quantization scheme."""
    kind = manifest["model"]["kind"]
    return f"{kind} ({scheme(manifest)})" if kind == "quantized" else str(kind)


def _why_in_float(manifest: Manifest) -> list[str]:
    """The reason why a model that was to be quantized ships in float; empty if there is none."""
    reason = stage_record(manifest, "quantize").get("reason")
    return [] if reason is None or manifest["model"]["kind"] == "quantized" else [str(reason)]


def size_text(manifest: Manifest) -> str:
    """The size, and its ratio to the original's."""
    size = manifest["size"]
    text = f"{bytes_text(size['bytes'])}, {size['ratio']:.2f} times the original's {bytes_text(size['source_bytes'])}"
    if manifest["model"]["kind"] != "quantized" or size["ratio"] < 1:
        return text
    if manifest["options"]["quantize"] == "auto":  # auto takes no form that is as large as float
        return f"{text}; in float it is larger still"
    return f"{text}: quantization made it no smaller"


def instruction_texts(manifest: Manifest) -> list[str]:
    """The instruction sets with which a build was verified, with the accuracy, and those that were not executed."""
    sets = manifest.get("instruction_sets")
    if sets is None:
        return []
    found = [f"{name} ({_instruction_figure(record)})" for name, record in sets["verified"].items()]
    texts = [f"verified with {', '.join(found)}"] if found else []
    by_reason: dict[str, list[str]] = {}
    for name, why in sets["not_executed"].items():
        by_reason.setdefault(why, []).append(name)
    return [*texts, *(f"not executed with {', '.join(names)}: {why}" for why, names in by_reason.items())]


def _instruction_figure(record: Mapping[str, Any]) -> str:
    """The accuracy with an instruction set in a few words: labels, boxes or texts, else the worst output's SQNR."""
    if record["task"] is not None:
        return f"{record['task']['built']:.2%} of {record['data']['samples']}"
    meaning = record.get("meaning")
    if meaning is not None and meaning["kind"] != EMBEDDINGS and meaning["count"]:
        return f"{meaning['count'] - meaning['wrong']} of {meaning['count']} {meaning['kind']}"
    worst = worst_db(record)
    return "integer outputs" if worst is None else decibel_text(worst)


def latency_text(latency: Mapping[str, Any]) -> str:
    """The P50, P90 and P99 latency, and the ratio of the P50 to the original's."""
    built, reference = latency["built"], latency["reference"]
    text = (
        f"P50 {time_text(built['p50_ms'])}, P90 {time_text(built['p90_ms'])}, P99 {time_text(built['p99_ms'])}; "
        f"{latency['ratio']:.2f} times the original's P50 {time_text(reference['p50_ms'])}"
    )
    if not latency["of_device"]:
        return f"{text}; {STAND_IN}"
    interval = unsteady_ratio(latency)
    if interval is not None:
        return f"{text}; unsteady: {interval}"
    runs = min(built["runs"], reference["runs"])
    few = (
        f"{text}; {runs} {'run' if runs == 1 else 'runs'} each, too few to rule out that other programs slowed "
        "them down"
    )
    return text if runs >= LEAST_TURNS else few


def unsteady_ratio(latency: Mapping[str, Any]) -> str | None:
    """The interval of the ratio to the original, if it is unsteady; None if it is steady, or the interval unknown."""
    interval = unsteady_text(latency.get("ratio_interval"))
    return None if interval is None else f"{interval} times the original's"


def speedup_text(trial: Mapping[str, Any]) -> str | None:
    """How much faster than the float model a candidate is, by a record's trial; None if they were not timed."""
    if not trial["latency_ms"] or not trial["float_latency_ms"]:
        return None
    text = f"{trial['float_latency_ms'] / trial['latency_ms']:.2f} times as fast as float on this machine"
    interval = unsteady_text(trial.get("speedup_interval"))
    return text if interval is None else f"{text}; unsteady: {interval} times"


def unsteady_text(interval: Sequence[float] | None) -> str | None:
    """The text of a confidence interval of times, if it is unsteady; None if it is steady, or ``interval`` is None."""
    if interval is None or interval[1] < UNSTEADY * interval[0]:
        return None
    return f"{interval[0]:.2f} to {interval[1]:.2f}"


def if_slower(manifest: Manifest) -> str:
    """A hint if the requested quantized form is slower than float on the device's runtime; else an empty text."""
    latency = manifest["latency"]
    chosen = manifest["model"]["kind"] == "quantized" and manifest["options"]["quantize"] != "auto"
    if not chosen or not latency["of_device"] or latency["ratio"] <= _SLOWER or unsteady_ratio(latency) is not None:
        return ""
    return "; slower than float, which `--quantize auto` avoids"

"""Compares two bundles in one table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from edgekit.reporting.accuracy_texts import worst_db
from edgekit.reporting.judgement import HEADLINES, judge
from edgekit.reporting.summary import Manifest, built_as
from edgekit.units import bytes_text, decibel_text, time_text

_DIGITS = 12
"""How many digits of a SHA-256 sum are shown, which is enough to tell files apart."""
COMPARISON_HEAD = ("", "A", "B", "A relative to B")


def identity_rows(manifest: Manifest) -> list[tuple[str, str]]:
    """Rows that distinguish a bundle from others of the same name: its source, fingerprint and version of EdgeKit."""
    source = manifest["source"]["files"][0]
    return [
        ("made from", f"{source['path']}, SHA-256 {source['sha256'][:_DIGITS]}…"),
        ("fingerprint", f"{manifest['fingerprint'][:_DIGITS]}…"),
        ("made by", f"EdgeKit {manifest['edgekit']}"),
    ]


def comparison_rows(first: Manifest, second: Manifest) -> Iterator[Sequence[str]]:
    """Rows of a label, A's figure, B's figure, and their relation, if that has a meaning.

    The first rows show what the bundles were made from, and the options that differ.
    """
    both = (first, second)
    yield from _origins(first, second)
    yield "verdict", *(HEADLINES[judge(manifest)[0]] for manifest in both), ""
    yield "target", *(str(manifest["target"]["profile"]) for manifest in both), ""
    yield "built as", *(built_as(manifest) for manifest in both), ""
    sizes = [manifest["size"]["bytes"] for manifest in both]
    yield "size", *map(bytes_text, sizes), f"×{sizes[0] / sizes[1]:.2f}"
    yield _latency(first, second)
    tasks = [manifest["accuracy"]["task"] for manifest in both]
    if all(task is not None for task in tasks):
        shares = [task["built"] for task in tasks]
        difference = f"{(shares[0] - shares[1]) * 100:+.2f} points"
        yield "labels found", *(f"{share:.2%}" for share in shares), difference
    worst = [worst_db(manifest["accuracy"]) for manifest in both]
    decibels = [figure for figure in worst if figure is not None]
    if len(decibels) == 2:
        finite = not {"inf", "-inf"} & set(map(str, decibels))
        difference = f"{float(decibels[0]) - float(decibels[1]):+.1f} dB" if finite else ""
        yield "worst sample's SQNR", *map(decibel_text, decibels), difference


def _origins(first: Manifest, second: Manifest) -> Iterator[Sequence[str]]:
    """Rows about what both bundles were made from, and which options and declarations differ."""
    texts = [dict(identity_rows(manifest)) for manifest in (first, second)]
    sources = [[file["sha256"] for file in manifest["source"]["files"]] for manifest in (first, second)]
    alike = {
        "made from": "the same model" if sources[0] == sources[1] else "another model",
        "fingerprint": "the same model, samples, options and versions"
        if first["fingerprint"] == second["fingerprint"]
        else "the model, samples, options or versions differ",
        "made by": "",
    }
    for label, relation in alike.items():
        yield label, texts[0][label], texts[1][label], relation
    keys = sorted({*first["options"], *second["options"]})
    asked = [(key, first["options"].get(key), second["options"].get(key)) for key in keys]
    beside = [(key, first[key], second[key]) for key in ("labels", "preprocessing", "inputs", "outputs")]
    for key, value, of_second in asked:
        if value != of_second:
            yield f"asked for: {key}", json.dumps(value), json.dumps(of_second), ""
    for key, value, of_second in beside:
        if value != of_second:
            yield key, "", "", "differ"


def _latency(first: Manifest, second: Manifest) -> Sequence[str]:
    """The row of latencies, each with its ratio to the original; compared only if the same runtime executed both."""
    label = "P50 latency, times the original's"
    ratios = [manifest["latency"]["ratio"] for manifest in (first, second)]
    comparable = first["latency"]["executed_by"] == second["latency"]["executed_by"]
    texts = [
        f"{time_text(manifest['latency']['built']['p50_ms'])}, {ratio:.2f}"
        for manifest, ratio in zip((first, second), ratios, strict=True)
    ]
    return label, *texts, f"×{ratios[0] / ratios[1]:.2f}" if comparable else ""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.bundle import read_bundle
from edgekit.processes import supervision

from .gate_outcomes import outcomes, size_of

RunEdgeKit = Callable[..., Any]
WriteProject = Callable[[str], None]


PACKAGED = 'dims = { batch = 1 }\nquantize = "none"\n'
"""How the sample model's bundle was packaged."""


def test_a_budget_that_is_kept(edgekit: RunEdgeKit, packaged_digits: Path, digits: Path, project: WriteProject) -> None:
    project('[budget]\nsize = "1 MB"\naccuracy = 0.95\naccuracy_drop = "1%"\nsqnr_db = 50\nlatency_ratio = 100\n')
    finished = edgekit("gate", packaged_digits, "--model", digits)
    assert finished.code == 0
    for budget in ("size", "accuracy", "accuracy drop", "worst output", "latency"):
        (line,) = [line for line in finished.out.splitlines() if line.startswith(f"  {budget}  ")]
        assert line.rstrip().endswith("ok")


def test_a_budget_that_is_broken(edgekit: RunEdgeKit, packaged_digits: Path, project: WriteProject) -> None:
    project('[budget]\nsize = "10 kB"\naccuracy = 0.95\n')
    finished = edgekit("gate", packaged_digits)
    assert finished.code == 1
    assert [line.split()[-1] for line in finished.out.splitlines() if "at " in line] == ["FAILED", "ok"]
    assert f"error: {packaged_digits}: breaks its budget: size " in finished.err


def test_json_of_both(edgekit: RunEdgeKit, packaged_digits: Path, project: WriteProject) -> None:
    project('[budget]\nsize = "10 kB"\n')
    finished = edgekit("gate", packaged_digits, "--json")
    assert finished.code == 1
    assert finished.json["passed"] is False
    assert set(finished.json["machine"]) == {"cpu", "processors", "system"}
    (bundle,) = finished.json["bundles"]
    assert (bundle["bundle"], bundle["name"], bundle["passed"]) == (str(packaged_digits), "digits_torchscript", False)
    (verdict,) = bundle["verdicts"]
    assert {**verdict, "found": ""} == {
        "budget": "size",
        "limit": "at most 10 kB",
        "found": "",
        "outcome": "broken",
        "figure": {
            "key": "size",
            "unit": "bytes",
            "limit": 10_000,
            "value": json.loads((packaged_digits / "manifest.json").read_text())["size"]["bytes"],
            "lower": None,
            "upper": None,
        },
        "passed": False,
    }


def test_the_bundle_s_own_budget_comes_first(edgekit: RunEdgeKit, bundle: Path, project: WriteProject) -> None:
    project(
        '[budget]\nsize = 1\n[[bundle]]\nname = "d"\nmodel = "d.onnx"\ntarget = "ort"\noutput = "digits"\n'
        "[bundle.budget]\nsize = 1000000\n"
    )
    assert edgekit("gate", bundle).code == 0


def test_a_name_finds_the_declared_bundle(
    edgekit: RunEdgeKit, bundle: Path, exp_bundles: Path, project: WriteProject
) -> None:
    shutil.copytree(exp_bundles / "exp", bundle.parent / "bundles" / "small")
    declared = '[[bundle]]\nname = "{0}"\nmodel = "m.onnx"\ntarget = "onnxruntime"\noutput = "{1}"\n'
    project('[budget]\nsize = "10 kB"\n' + declared.format("small", "bundles/small") + declared.format("d", "digits"))
    finished = edgekit("gate", "small", "d", "--json")
    assert [(one["bundle"], one["passed"]) for one in finished.json["bundles"]] == [
        (str(bundle.parent / "bundles" / "small"), True),
        (str(bundle), False),
    ]
    (bundle.parent / "small").mkdir()  # a folder that is no bundle, such as one of samples
    assert edgekit("gate", "small").code == 0


def test_a_bundle_that_is_not_as_declared(
    edgekit: RunEdgeKit, bundle: Path, digits: Path, project: WriteProject
) -> None:
    """An older one of the same model: of other options, for another target, or of a model that is not at hand."""
    declared = f'[budget]\nsize = "1 MB"\n[[bundle]]\nname = "d"\nmodel = "{digits}"\noutput = "digits"\n'
    same = f'{declared}target = "onnxruntime"\n{PACKAGED}'
    project(same)
    finished = edgekit("gate", "--json")
    assert (finished.code, outcomes(finished)) == (0, {"size": "kept"})

    project(same.replace('"none"', '"int8"'))
    finished = edgekit("gate", "-q")
    assert finished.code == 0
    differs = 'quantize was "none", and "int8" is declared: `edgekit build` builds it again'
    assert f"warning: {bundle}: declaration differs: {differs}\n" in finished.err
    project(same.replace('"none"', '"int8"') + '[gate]\ninconclusive = "fail"\n')
    assert edgekit("gate", "-q").code == 1

    project(same.replace('"onnxruntime"', '"intel-cpu"'))
    finished = edgekit("gate", "-q")
    assert finished.code == 2
    assert finished.err == (
        f"error: {bundle}: was built for another target\nexpected: intel-cpu, as the project file declares it\n"
        "found: onnxruntime\nhint: `edgekit build` builds it again\n"
    )
    project(same.replace(str(digits), "gone.onnx"))
    finished = edgekit("gate", "--json")
    assert (finished.code, outcomes(finished)) == (0, {"size": "kept", "declaration": "not compared"})
    told = f"{bundle.parent}/gone.onnx is not there, so it cannot be checked whether the bundle is made from it"
    assert finished.json["bundles"][0]["verdicts"][1]["found"] == told


def test_all_bundles_of_the_project_are_judged(
    edgekit: RunEdgeKit, bundle: Path, exp_bundles: Path, project: WriteProject
) -> None:
    shutil.copytree(exp_bundles / "exp", bundle.parent / "exp")
    declared = '[[bundle]]\nname = "{0}"\nmodel = "m.onnx"\ntarget = "ort"\noutput = "{0}"\n'
    project('[budget]\nsize = "10 kB"\n' + "".join(map(declared.format, ("digits", "exp", "gone"))))
    file = bundle.parent / "edgekit.toml"
    file.write_text(file.read_text().replace('output = "digits"\n', f'output = "digits"\n{PACKAGED}'))
    finished = edgekit("gate", "--json")
    assert finished.code == 2
    assert [(one["name"], one["passed"]) for one in finished.json["bundles"]] == [
        ("digits", False),
        ("exp", True),
        ("gone", False),
    ]
    assert finished.json["bundles"][2]["error"] == {
        "type": "InputError",
        "message": "has not been built",
        "subject": str(bundle.parent / "gone"),
        "hint": "`edgekit build` builds it",
    }
    finished = edgekit("gate", "--quiet")
    assert [line.split()[0] for line in finished.out.splitlines() if "kB" in line or "built" in line] == [
        "digits",
        "exp",
        "gone",
    ]
    assert finished.err.splitlines() == [
        f"error: {bundle}: breaks its budget: size {size_of(bundle)} (at most 10 kB)",
        f"error: {bundle.parent}/gone: has not been built",
        "hint: `edgekit build` builds it",
    ]


@pytest.mark.parametrize(
    "options",
    [["--junit", "g.xml"], ["--summary", "s.md"], ["--update", "--baseline", "b.json"]],
    ids=lambda o: o[0],
)
def test_a_file_that_cannot_be_written_is_told_before_anything_is_judged(
    edgekit: RunEdgeKit, packaged_digits: Path, project: WriteProject, tmp_path: Path, options: list[str]
) -> None:
    project('[budget]\nsize = "1 MB"\n')
    (tmp_path / "file").touch()
    place = tmp_path / "file" / options[-1]
    option = options[-2]
    finished = edgekit("gate", packaged_digits, *options[:-1], place)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == (
        f"error: {place}: cannot be written: not a directory\n"
        f"hint: choose another place with {option}, or make its folder writable\n"
    )


def test_a_bundle_for_a_target_that_does_not_exist(edgekit: RunEdgeKit, project: WriteProject) -> None:
    """It was said not to have been built, and `edgekit build`, which the hint named, does not build it either."""
    project('[[bundle]]\nname = "digits"\nmodel = "m.onnx"\ntarget = "onnxruntim"\n')
    finished = edgekit("gate", "-q")
    assert finished.code == 2
    assert re.search("error: .*edgekit.toml bundle digits target: .*\nexpected: .*onnxruntime", finished.err)
    assert "has not been built" not in finished.err


def test_budgets_on_a_device(edgekit: RunEdgeKit, packaged_digits: Path, project: WriteProject) -> None:
    budget = '[budget]\nlatency_ms = 60000\nmemory = "8 GB"\ndownload = "1 MB"\n'
    project(budget)
    finished = edgekit("gate", packaged_digits, "--json")
    assert finished.code == 0
    assert outcomes(finished) == {"download": "kept", "latency on local": "kept", "memory on local": "kept"}
    project(budget + '[gate]\ndevice = "toaster"\n')
    finished = edgekit("gate", packaged_digits)
    assert finished.code == 2
    assert re.search(
        r"error: .*edgekit\.toml \[gate\] device: there is no such kind of device\nexpected: ", finished.err
    )
    assert edgekit("gate", packaged_digits, "--device", "local").code == 0
    bundle = '[[bundle]]\nname = "own"\nmodel = "m"\ntarget = "onnxruntime"\n'
    bundle += f'output = "{packaged_digits}"\ndevice = "local"\n'
    project(f'[gate]\ndevice = "toaster"\n{bundle}[bundle.budget]\nlatency_ms = 60000\n')
    kept = outcomes(edgekit("gate", packaged_digits, "--json"))
    assert kept == {"outputs on local": "kept", "latency on local": "kept", "declaration": "inconclusive"}
    project(bundle.replace('"local"', '"ssh:pi"'))
    finished = edgekit("gate", packaged_digits)
    assert re.search(r"error: .*edgekit\.toml bundle own device: is not an address of a device\n", finished.err)
    assert "error: --device: is not an address" in edgekit("gate", packaged_digits, "--device", "ssh:pi").err
    finished = edgekit("gate", packaged_digits, packaged_digits, "--results", "results.json")
    assert "--results: tell of one bundle\nexpected: one BUNDLE\nfound: 2" in finished.err


@pytest.mark.parametrize("place", ["bundle", "gate"])
def test_results_take_the_place_of_the_device_that_the_project_names(
    edgekit: RunEdgeKit, packaged_digits: Path, project: WriteProject, tmp_path: Path, place: str
) -> None:
    samples = [
        {
            "milliseconds": 1.5,
            "outputs": [
                {"name": name, "values": base64.b64encode(array.astype("<f8").tobytes()).decode()}
                for name, array in outputs.items()
            ],
        }
        for _, outputs in read_bundle(packaged_digits).golden()
    ]
    manifest = (packaged_digits / "manifest.json").read_text(encoding="utf-8")
    record = {"format": 1, "manifest": manifest, "executed_by": "a phone", "load_ms": 20, "samples": samples}
    (tmp_path / "results.json").write_text(json.dumps(record))
    device = 'device = "ssh://pi@camera"\n'
    project(
        f'[[bundle]]\nname = "own"\nmodel = "m"\ntarget = "onnxruntime"\noutput = "{packaged_digits}"\n{PACKAGED}'
        + (device if place == "bundle" else f"[gate]\n{device}")
        + "[budget]\nlatency_ms = 2\nload_ms = 10\n"
    )
    finished = edgekit("gate", packaged_digits, "--results", "results.json", "--json")
    assert (finished.code, finished.json["bundles"][0]["error"]) == (1, None)
    found = outcomes(finished)
    assert found["outputs on results.json"] == found["latency on results.json"] == "kept"
    assert found["load time on results.json"] == "broken"
    finished = edgekit("gate", packaged_digits, "--results", "results.json", "--device", "ssh://pi@camera")
    assert (finished.code, "--results: results come from a device that is not reached" in finished.err) == (2, True)


@pytest.mark.parametrize("budget", ["", '[budget]\nsize = "1 MB"\n'])
def test_a_named_device_has_to_compute_the_golden_outputs_whatever_the_budget(
    edgekit: RunEdgeKit, bundle: Path, project: WriteProject, budget: str
) -> None:
    project(budget)
    for url, fault in (
        ("toaster:1", "error: --device: there is no such kind of device\n"),
        ("ssh://pi?pyton=/usr/bin/python3", "error: --device: is not an address of a device\n"),
        ("ssh://device.invalid", "error: ssh://device.invalid: "),
    ):
        finished = edgekit("gate", bundle, "--device", url)
        assert (finished.code, fault in finished.err) == (2, True), finished.err
    finished = edgekit("gate", bundle, "--device", "local", "--json")
    assert finished.code == 0
    assert outcomes(finished)["outputs on local"] == "kept"
    assert finished.json["bundles"][0]["verdicts"][-1]["found"].startswith("computed by ONNX Runtime ")
    finished = edgekit("gate", bundle, "--results", "of_no_device.json")
    assert finished.code == 2
    assert "of_no_device.json" in finished.err

    golden = bundle / "golden" / "0" / "outputs" / "0.npy"
    np.save(golden, np.load(golden)[..., ::-1])
    manifest = json.loads((bundle / "manifest.json").read_text())
    (file,) = [each for each in manifest["files"] if each["path"] == "golden/0/outputs/0.npy"]
    file["sha256"], file["bytes"] = hashlib.sha256(golden.read_bytes()).hexdigest(), golden.stat().st_size
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    finished = edgekit("gate", bundle, "--device", "local", "--json")
    assert finished.code == 1
    assert outcomes(finished)["outputs on local"] == "broken"
    found = finished.json["bundles"][0]["verdicts"][-1]["found"]
    assert found.startswith("the bundle does not compute its golden outputs, executed by ONNX Runtime ")


def test_a_device_of_the_project_is_opened_where_a_budget_needs_it_and_refused_where_it_is_none(
    edgekit: RunEdgeKit, packaged_digits: Path, project: WriteProject
) -> None:
    project('[budget]\nsize = "1 MB"\n[gate]\ndevice = "ssh://device.invalid"\n')
    assert edgekit("gate", packaged_digits).code == 0
    project('[budget]\nsize = "1 MB"\n[gate]\ndevice = "toaster"\n')
    finished = edgekit("gate", packaged_digits)
    assert finished.code == 2
    assert "there is no such kind of device" in finished.err


@pytest.mark.parametrize(
    ("inconclusive", "code", "word"), [("pass", 0, ""), ("warn", 0, "warning: "), ("fail", 1, "error: ")]
)
def test_what_is_not_clear_is_what_the_project_says(
    edgekit: RunEdgeKit,
    packaged_digits: Path,
    digits: Path,
    project: WriteProject,
    inconclusive: str,
    code: int,
    word: str,
) -> None:
    """The model is compared with itself, and 14 pairs of turns at least are needed to prove anything."""
    project(f'[budget]\nlatency_ratio = 1\n[gate]\ninconclusive = "{inconclusive}"\ntime_limit = 0.1\n')
    finished = edgekit("gate", packaged_digits, "--model", digits, "--quiet")
    assert finished.code == code
    assert "inconclusive" in finished.out
    assert finished.err.startswith(word)
    assert bool(finished.err) is bool(word)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["digits"], "digits: there is nothing to judge the bundle by\nexpected: a table [budget]"),
        (["digits", "--update"], "--update: needs a file to write\nhint: give --baseline FILE"),
        (
            ["digits", "--baseline", "no.json"],
            "no.json: there is no baseline\nhint: `edgekit gate --baseline no.json --update` writes one",
        ),
        (["digits", "--baseline", "bad.json"], "bad.json: is not a baseline\nexpected: what schema version 3"),
        (
            ["digits", "--baseline", "other.json"],
            "digits_torchscript: the baseline does not know the bundle\nexpected: a bundle's name\n"
            "hint: --update adds it",
        ),
        (
            ["digits", "--baseline", "other.json", "--against", "main"],
            "--against and --baseline: are two things to compare with\nhint: give one of them",
        ),
        (["digits", "--against", "digits"], "--against: is the bundle itself\nfound: digits"),
        (
            ["digits", "--against", "nowhere"],
            "--against: is not there\nexpected: a bundle, or a folder with bundles\nfound: nowhere",
        ),
        (["digits", "--config", "no.toml"], "no.toml: there is no project file"),
        ([], "there is nothing to judge\nexpected: a BUNDLE, or a project file that declares some\nfound: no project"),
        (["nowhere"], "nowhere: is not a bundle"),
        (
            ["digits", "digits", "--model", "m.onnx"],
            "--model: names the original of one bundle\nexpected: one BUNDLE\nfound: 2",
        ),
        (["digits", "--time-limit", "0"], "--time-limit"),
    ],
)
def test_refused(
    edgekit: RunEdgeKit, bundle: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], text: str
) -> None:
    monkeypatch.chdir(bundle.parent)
    (bundle.parent / "bad.json").write_text('{"bundles": {}}')
    (bundle.parent / "other.json").write_text('{"schema_version": 3, "bundles": {}}')
    finished = edgekit("gate", *options, "--quiet")
    assert finished.code == 2
    assert text in finished.err


def test_a_project_without_budgets_judges_nothing(edgekit: RunEdgeKit, bundle: Path, project: WriteProject) -> None:
    del bundle
    project('[[bundle]]\nname = "digits"\nmodel = "m.onnx"\ntarget = "ort"\noutput = "digits"\n')
    finished = edgekit("gate", "--quiet")
    assert finished.code == 2
    assert "edgekit.toml: there is nothing to judge by\nexpected: a table [budget]" in finished.err


def test_a_bundle_that_ended_the_process_fails_alone(
    edgekit: RunEdgeKit, bundle: Path, exp_bundles: Path, project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is then repeated, and knows what ended the process."""
    project('[budget]\nsize = "10 kB"\n')
    ended = {f"judge {bundle}": "makes no progress (expected: a sign of it within 20 s)"}
    monkeypatch.setattr(supervision, "_crashed", ended)
    finished = edgekit("gate", bundle, exp_bundles / "exp", "--json")
    assert finished.code == 1
    first, second = finished.json["bundles"]
    assert first["error"] == {
        "type": "RequirementError",
        "message": "cannot be judged: the process that judged it was ended",
        "subject": str(bundle),
        "found": "makes no progress (expected: a sign of it within 20 s)",
        "hint": "`--max-seconds` and `--max-memory` allow more",
    }
    assert second["passed"]


def test_a_tampered_bundle(edgekit: RunEdgeKit, bundle: Path, project: WriteProject) -> None:
    project("[budget]\nsize = 1000000\n")
    (bundle / "report.md").write_text("all is well")
    finished = edgekit("gate", bundle, "--quiet")
    assert finished.code == 1
    assert "found: report.md is changed" in finished.err


def test_another_model_than_the_bundle_s_is_refused(
    edgekit: RunEdgeKit, packaged_digits: Path, digits: Path, exp_bundles: Path, project: WriteProject
) -> None:
    project("[budget]\nlatency_ratio = 1\n")
    finished = edgekit("gate", packaged_digits, "--model", exp_bundles / "model.onnx", "--quiet")
    assert finished.code == 2
    other, own = (hashlib.sha256(file.read_bytes()).hexdigest() for file in (exp_bundles / "model.onnx", digits))
    assert (
        f"{packaged_digits}: was made from another model\nexpected: {exp_bundles}/model.onnx, SHA-256 {other}\n"
        f"found: made from {digits.name}, SHA-256 {own}\n"
    ) in finished.err
    finished = edgekit("gate", packaged_digits, "--model", "gone.onnx", "--quiet")
    assert finished.code == 2
    assert "gone.onnx: there is no such file" in finished.err


def test_latency_that_cannot_be_measured_does_not_pass(
    edgekit: RunEdgeKit, packaged_digits: Path, exp_bundles: Path, project: WriteProject
) -> None:
    stand_in = (
        "not measured: the device's own runtime is not on this machine (latency_ms is measured on the device: --device)"
    )

    def found(*arguments: object) -> dict[str, str]:
        finished = edgekit("gate", *arguments, "--json")
        assert finished.code == 1
        return {verdict["budget"]: verdict["found"] for verdict in finished.json["bundles"][0]["verdicts"]}

    project("[budget]\nlatency_ratio = 1000\n")
    assert found(exp_bundles / "npu", "--model", exp_bundles / "model.onnx") == {"latency": stand_in}
    assert found(packaged_digits) == {"latency": "not measured: the original is not at hand (--model names it)"}
    project('[budget]\nlatency_growth = "5%"\n')
    assert found(exp_bundles / "npu", "--against", exp_bundles / "exp")["latency growth"] == stand_in


def test_operators_on_the_accelerator(edgekit: RunEdgeKit, exp_bundles: Path, project: WriteProject) -> None:
    project("[budget]\naccelerator_share = 1\npartitions = 1\n")
    finished = edgekit("gate", exp_bundles / "exp", "--json")
    assert finished.code == 0
    found = {verdict["budget"]: verdict["found"] for verdict in finished.json["bundles"][0]["verdicts"]}
    assert found["on the accelerator"].startswith("100.00% on CPU (evidence: ")
    assert found["partitions"].startswith("1 (evidence: ")


def test_a_bundle_that_cannot_be_read_does_not_keep_another_from_being_judged(
    edgekit: RunEdgeKit, packaged_digits: Path, bundle: Path, project: WriteProject
) -> None:
    project('[budget]\nsize = "1 MB"\n')
    (bundle / "manifest.json").write_text('{"schema_version": 1, "edgekit": "0"}')
    finished = edgekit("gate", bundle, packaged_digits, "--json")
    assert finished.code == 2
    assert [one["passed"] for one in finished.json["bundles"]] == [False, True]
    assert finished.json["bundles"][0]["error"]["message"] == "does not fit the manifest"


def test_a_name_that_the_project_does_not_declare(edgekit: RunEdgeKit, project: WriteProject) -> None:
    entry = '[[bundle]]\nname = "{}"\nmodel = "m.onnx"\ntarget = "ort"\n'
    project(entry.format("digits") + entry.format("faces"))
    finished = edgekit("gate", "digit", "--quiet")
    assert finished.code == 2
    assert finished.err == (
        "error: digit: is neither a bundle nor the name of one that the project declares\n"
        "expected: a bundle's folder, or 'digits'\nfound: nothing\n"
    )


def test_budgets_of_growth_without_an_earlier_build_are_not_passed_over(
    edgekit: RunEdgeKit, bundle: Path, project: WriteProject
) -> None:
    growth = 'size_growth = "2%"\naccuracy_fall = "1%"\nagreement_db = 20\nlatency_growth = "5%"\n'
    project('[budget]\nsize = "1 MB"\n' + growth)
    finished = edgekit("gate", bundle, "--json")
    assert finished.code == 0
    rows = {
        one["budget"]: (one["limit"], one["found"], one["outcome"]) for one in finished.json["bundles"][0]["verdicts"]
    }
    missing = ("no earlier build to compare with (--baseline or --against names one)", "inconclusive")
    del rows["size"]
    assert rows == {
        "size growth": ("at most 2.0% above the earlier build's", *missing),
        "accuracy fall": ("at most 1.00% below the earlier build's", *missing),
        "agreement": ("at least 20.0 dB to the earlier build's golden outputs", *missing),
        "latency growth": ("at most 5.0% above the earlier build's", *missing),
    }
    project('[gate]\ninconclusive = "fail"\n[budget]\nsize = "1 MB"\nlatency_growth = "5%"\n')
    assert edgekit("gate", bundle, "-q").code == 1
    written = edgekit("gate", bundle, "--baseline", "b.json", "--update", "--json")
    assert written.code == 0
    assert outcomes(written) == {"size": "kept", "latency growth": "not compared"}
    assert outcomes(edgekit("gate", bundle, "--baseline", "b.json", "--json"))["latency growth"] == "kept"
    project("[budget]\n" + growth)
    finished = edgekit("gate", bundle, "-q")
    assert finished.code == 2
    assert "found: only budgets that need an earlier build in " in finished.err


def test_a_folder_of_declared_bundles_needs_a_project_file(edgekit: RunEdgeKit, packaged_digits: Path) -> None:
    finished = edgekit("gate", packaged_digits, "--output-dir", packaged_digits.parent)
    assert finished.code == 2
    assert finished.err == (
        "error: --output-dir: is of use with a project file only\nhint: give --config FILE, or the bundles alone\n"
    )


def test_the_only_bundle_of_a_project_need_not_be_named(
    edgekit: RunEdgeKit, packaged_digits: Path, digits: Path, project: WriteProject
) -> None:
    bundle = '[[bundle]]\nname = "{}"\nmodel = "gone.onnx"\ntarget = "onnxruntime"\noutput = "{}"\nquantize = "none"\n'
    project("[budget]\nlatency_ratio = 100\n" + bundle.format("own", packaged_digits))
    finished = edgekit("gate", "--model", digits, "--json")
    assert outcomes(finished)["latency"] == "kept"
    project(bundle.format("own", packaged_digits) + bundle.format("other", "there"))
    finished = edgekit("gate", "--model", digits)
    assert "--model: names the original of one bundle\nexpected: one BUNDLE\nfound: 2" in finished.err

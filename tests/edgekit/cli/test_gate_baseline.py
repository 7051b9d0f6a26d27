"""Bundles against an earlier build: a baseline, or another bundle."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .gate_outcomes import outcomes, size_of

RunEdgeKit = Callable[..., Any]
WriteProject = Callable[[str], None]


def test_a_baseline_is_written_and_compared_with(edgekit: RunEdgeKit, bundle: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    document = json.loads(baseline.read_text())
    figures = document["bundles"]["digits_torchscript"]
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert figures["size"] == manifest["size"]["bytes"]
    assert figures["accuracy"] == manifest["accuracy"]["task"]["built"]

    figures["size"] = int(figures["size"] / 1.02)
    baseline.write_text(json.dumps(document))
    finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
    assert finished.code == 1
    assert outcomes(finished) == {
        "baseline": "broken",
        "size growth": "broken",
        "accuracy fall": "kept",
        "latency growth": "kept",
    }

    shutil.rmtree(tmp_path / "baseline-bundles")
    finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
    assert outcomes(finished)["latency growth"] == outcomes(finished)["interface"] == "inconclusive"
    assert "the baseline's bundle is not at hand: " in finished.json["bundles"][0]["verdicts"][-1]["found"]


def test_a_bundle_under_another_name_is_known_by_its_model_and_target(
    edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    """A pull request packages the same file into a folder of its own, which gives the bundle another name."""
    model = onnx_file("f (float[1, 4] x) => (float[1, 4] y) { y = Exp(x) }")

    def package(folder: str, target: str) -> Path:
        assert edgekit("package", model, "--target", target, "-o", tmp_path / folder, "-q").code == 0
        return tmp_path / folder

    baseline = tmp_path / "baseline.json"
    main, other = package("main", "onnxruntime"), package("main-ios", "ios18")
    assert edgekit("gate", main, other, "--baseline", baseline, "--update", "-q").code == 0
    finished = edgekit("gate", package("branch", "onnxruntime"), "--baseline", baseline, "--json")
    assert finished.code == 0
    assert outcomes(finished)["size growth"] == "kept"
    assert edgekit("gate", package("more", "onnxruntime"), "--baseline", baseline, "--update", "-q").code == 0
    finished = edgekit("gate", tmp_path / "branch", "--baseline", baseline, "-q")
    assert finished.code == 2
    assert "branch: the baseline does not know the bundle\nexpected: main, main-ios, more\n" in finished.err


def test_bundles_of_one_name_have_no_baseline(edgekit: RunEdgeKit, bundle: Path, tmp_path: Path) -> None:
    """The figures of one would be written over those of the other, and both be compared with them."""
    copy = shutil.copytree(bundle, tmp_path / "copy")
    baseline = tmp_path / "baseline.json"
    for options in (["--update"], []):
        finished = edgekit("gate", bundle, copy, "--baseline", baseline, "-q", *options)
        assert finished.code == 2
        assert finished.err == (
            f"error: {copy}: two bundles are called 'digits_torchscript'\n"
            "expected: a name of its own for each, by which the baseline knows it\n"
            f"found: {bundle} is called so too\n"
            "hint: package one of them again with --name, or judge each with a baseline of its own\n"
        )
        assert not baseline.exists()


def test_a_model_that_became_slower_fails_whatever_its_own_original_takes(
    edgekit: RunEdgeKit, onnx_model: Callable[..., Any], tmp_path: Path
) -> None:
    """Ten times the layers take ten times as long, and so does the new original."""
    import onnx

    baseline = tmp_path / "baseline.json"

    def package(layers: int) -> Path:
        names = ["x", *(f"h{layer}" for layer in range(1, layers)), "y"]
        chain = " ".join(f"{output} = MatMul({given}, {given})" for given, output in pairwise(names))
        square = "float[96, 96]"
        onnx.save(onnx_model(f"f ({square} x) => ({square} y) {{ {chain} }}"), tmp_path / "model.onnx")
        options = ["--target", "onnxruntime", "-o", tmp_path / "bundle", "--data", tmp_path / "data"]
        assert edgekit("package", tmp_path / "model.onnx", *options, "--quantize", "none", "-q").code == 0
        return tmp_path / "bundle"

    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "sample.npz", x=np.eye(96, dtype=np.float32))
    assert edgekit("gate", package(4), "--baseline", baseline, "--update").code == 0
    finished = edgekit("gate", package(40), "--baseline", baseline, "--json")
    assert finished.code == 1
    assert outcomes(finished)["latency growth"] == "broken"
    (measured,) = finished.json["bundles"][0]["ratios"]
    assert measured["lower"] > 2


def test_a_bundle_that_breaks_its_budget_is_no_baseline(
    edgekit: RunEdgeKit, packaged_digits: Path, project: WriteProject, tmp_path: Path
) -> None:
    project('[budget]\nsize = "10 kB"\n[gate]\nbaseline = "baseline.json"\n')
    assert edgekit("gate", packaged_digits, "--update").code == 1
    assert not (tmp_path / "baseline.json").exists()
    project('[budget]\nsize = "1 MB"\n[gate]\nbaseline = "baseline.json"\n')
    finished = edgekit("gate", packaged_digits, "--update")
    assert finished.code == 0
    assert finished.err.endswith(f"wrote {tmp_path}/baseline.json: digits_torchscript\n")
    assert "size growth" in edgekit("gate", packaged_digits).out

    assert edgekit("gate", packaged_digits, "--update").err.endswith("\ndigits_torchscript: as before\n")
    document = json.loads((tmp_path / "baseline.json").read_text())
    document["bundles"]["digits_torchscript"] |= {"size": 1000, "accuracy": 0.5}
    (tmp_path / "baseline.json").write_text(json.dumps(document))
    told = edgekit("gate", packaged_digits, "--update").err.splitlines()[-1]
    assert told.startswith(f"digits_torchscript: size 1 kB → {size_of(packaged_digits)}, accuracy 50.00% → ")


def test_a_baseline_tells_of_bundles_that_the_project_no_longer_declares(
    edgekit: RunEdgeKit, bundle: Path, project: WriteProject
) -> None:
    """A bundle that was renamed stays in the file under both names."""
    entry = (
        '[[bundle]]\nname = "{0}"\nmodel = "m.onnx"\ntarget = "ort"\noutput = "digits"\n[gate]\nbaseline = "b.json"\n'
    )
    project(entry.format("before"))
    assert "declares no such bundle" not in edgekit("gate", "--update").err
    project(entry.format("after"))
    told = "before: kept, but the project declares no such bundle: delete its entry in b.json if it is gone\n"
    assert f"wrote {bundle.parent}/b.json: after\n{told}" in edgekit("gate", "--update").err
    assert told not in edgekit("gate", bundle, "--update").err
    document = json.loads((bundle.parent / "b.json").read_text())
    del document["bundles"]["before"]
    (bundle.parent / "b.json").write_text(json.dumps(document))
    assert "declares no such bundle" not in edgekit("gate", "--update").err


def test_against_an_earlier_bundle(edgekit: RunEdgeKit, bundle: Path, exp_bundles: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "main" / "digits")
    for against in (tmp_path / "main", tmp_path / "main" / "digits"):
        finished = edgekit("gate", bundle, "--against", against, "--time-limit", 5, "--json")
        assert finished.code == 0
        assert outcomes(finished) == {"size growth": "kept", "accuracy fall": "kept", "latency growth": "kept"}
        assert finished.json["bundles"][0]["ratios"] == []  # the model's files are the same
    finished = edgekit("gate", bundle, "--against", exp_bundles / "exp", "--json")
    assert finished.code == 1
    assert outcomes(finished) == {
        "size growth": "broken",
        "accuracy fall": "not compared",
        "interface": "broken",
        "agreement": "not compared",
        "latency growth": "broken",
    }
    (measured,) = finished.json["bundles"][0]["ratios"]
    assert 1.05 < measured["lower"] < measured["median"] < measured["upper"]


def test_a_bundle_that_is_new_beside_an_earlier_build_is_not_compared(
    edgekit: RunEdgeKit, exp_bundles: Path, tmp_path: Path, project: WriteProject
) -> None:
    shutil.copytree(exp_bundles / "exp", tmp_path / "main" / "exp")
    new = shutil.copytree(exp_bundles / "exp", tmp_path / "new")
    finished = edgekit("gate", exp_bundles / "exp", new, "--against", tmp_path / "main", "--json")
    assert finished.code == 0
    known, unknown = finished.json["bundles"]
    assert [one["outcome"] for one in known["verdicts"] if one["budget"] == "size growth"] == ["kept"]
    (row,) = unknown["verdicts"]
    none = f"no earlier build to compare with: {tmp_path}/main holds no bundle of this name; it is new, or was renamed"
    assert (row["budget"], row["found"], row["outcome"]) == ("earlier build", none, "inconclusive")
    assert (
        f"warning: {new}: earlier build is not clear: {none}"
        in edgekit("gate", new, exp_bundles / "exp", "--against", tmp_path / "main").err
    )

    alone = edgekit("gate", new, "--against", tmp_path / "main")
    assert alone.code == 2
    assert "there is nothing to judge the bundle by\nexpected: " in alone.err
    assert f"found: no bundle of that name in {tmp_path}/main" in alone.err
    project('[gate]\ninconclusive = "fail"\n[budget]\nsize_growth = "1%"\nsize = "1 kB"\n')
    strict = edgekit("gate", new, "--against", tmp_path / "main", "--json")
    assert strict.code == 1
    assert outcomes(strict) == {"size": "kept", "earlier build": "inconclusive", "size growth": "inconclusive"}


def test_what_is_compared_with_has_to_be_there(edgekit: RunEdgeKit, exp_bundles: Path, tmp_path: Path) -> None:
    (tmp_path / "main" / "exp").mkdir(parents=True)
    finished = edgekit("gate", exp_bundles / "exp", "--against", tmp_path / "main")
    assert finished.code == 2
    assert finished.err == (
        f"error: --against: holds no bundle\nexpected: a bundle, or a folder with bundles\nfound: {tmp_path}/main\n"
    )
    damaged = tmp_path / "main" / "exp" / "manifest.json"
    damaged.write_text("{")
    for against in (tmp_path / "main", tmp_path / "main" / "exp"):
        finished = edgekit("gate", exp_bundles / "exp", "--against", against, "-q")
        assert finished.code == 2
        assert f"error: {damaged}: cannot be read" in finished.err


def test_growth_that_nobody_asked_for_is_left_out_where_it_cannot_be_measured(
    edgekit: RunEdgeKit, exp_bundles: Path, tmp_path: Path
) -> None:
    shutil.copytree(exp_bundles / "npu", tmp_path / "npu")
    finished = edgekit("gate", exp_bundles / "npu", "--against", tmp_path, "--json")
    assert finished.code == 0
    assert outcomes(finished) == {"size growth": "kept", "accuracy fall": "not compared", "agreement": "kept"}


def test_labels_beside_scores_are_compared_too(
    edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path, project: WriteProject
) -> None:
    """The scores are the earlier build's, and every one has another label."""

    def package(name: str, first: int) -> Path:
        labels = f"f = Floor(x) l = Cast<to = 7>(f) c = Constant<value_ints = [{first}]>() m = Add(l, c)"
        text = f"f (float[10] x) => (float[10] y, int64[10] m) {{ y = Tanh(x) {labels} }}"
        folder = tmp_path / name / "model"
        assert edgekit("package", onnx_file(text), "--target", "onnxruntime", "-o", folder, "-q").code == 0
        return folder

    earlier, same, other = package("main", 0), package("same", 0), package("other", 1)

    def agreement(bundle: Path) -> dict[str, Any]:
        finished = edgekit("gate", bundle, "--against", earlier, "--time-limit", 0.1, "--json")
        assert finished.code == 0
        return {verdict["budget"]: verdict for verdict in finished.json["bundles"][0]["verdicts"]}["agreement"]

    assert agreement(same)["outcome"] == "kept"
    project('[budget]\nagreement_db = 20\nlatency_growth = "99%"\n')
    assert agreement(other)["outcome"] == "inconclusive"
    assert agreement(other)["found"] == "m: 100.00% of the elements differ"


def test_without_labels_a_model_that_computes_something_else_is_told_of(
    edgekit: RunEdgeKit, onnx_model: Callable[..., Any], tmp_path: Path, project: WriteProject
) -> None:
    """2 · x is x and as much again: the difference has the power of the outputs, 0 dB."""
    import onnx

    def package(factor: str, name: str) -> Path:
        text = f"f (float[1, 3] x) => (float[1, 3] y) {{ a = Constant<value_float = {factor}>() y = Mul(x, a) }}"
        onnx.save(onnx_model(text), tmp_path / "model.onnx")
        options = ["--target", "onnxruntime", "-o", tmp_path / name / "model", "-q"]
        assert edgekit("package", tmp_path / "model.onnx", *options).code == 0
        return tmp_path / name / "model"

    package("1.0", "main")
    near, far = package("1.01", "near"), package("2.0", "far")

    def agreement(bundle: Path, code: int = 0) -> dict[str, Any]:
        finished = edgekit("gate", bundle, "--against", tmp_path / "main", "--time-limit", 0.1, "--json")
        assert finished.code == code
        return {verdict["budget"]: verdict for verdict in finished.json["bundles"][0]["verdicts"]}["agreement"]

    assert agreement(near)["outcome"] == "kept"
    assert agreement(near)["found"] == "y: SQNR 40.0 dB"  # a hundredth of the amplitude
    told = agreement(far)
    assert told["limit"] == f"at least 10.0 dB to {tmp_path}/main/model's golden outputs"
    assert told["found"] == (
        "y: SQNR 0.0 dB: no longer the earlier build's outputs (`agreement_db` in the budget says what is near enough)"
    )
    assert told["outcome"] == "inconclusive"
    assert told["figure"]["value"] == pytest.approx(0, abs=1e-3)
    project('[budget]\nagreement_db = 20\nlatency_growth = "99%"\n')
    assert agreement(far, code=1)["outcome"] == "broken"
    assert agreement(far, code=1)["found"] == "y: SQNR 0.0 dB"


def test_a_damaged_baseline_is_named_with_what_restores_it(edgekit: RunEdgeKit, bundle: Path, tmp_path: Path) -> None:
    """A pointer of Git LFS stands in place of the model; sizes and accuracy are known from the file of figures."""
    baseline = tmp_path / "baseline.json"
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    (kept,) = (tmp_path / "baseline-bundles").iterdir()
    (kept / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    restoring = "restore it from version control, with `git lfs pull` if Git LFS holds it; --update writes it anew"
    for damaged in ("model.onnx is a Git LFS pointer", None):
        finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
        assert finished.code == 1
        verdicts = {verdict["budget"]: verdict for verdict in finished.json["bundles"][0]["verdicts"]}
        assert {name: verdict["outcome"] for name, verdict in verdicts.items()} == {
            "baseline": "broken",
            "size growth": "kept",
            "accuracy fall": "kept",
            "interface": "inconclusive",
            "latency growth": "inconclusive",
        }
        assert (
            verdicts["interface"]["found"] == verdicts["latency growth"]["found"] == "the baseline's bundle is damaged"
        )
        found = verdicts["baseline"]["found"]
        assert found.startswith(f"the baseline's bundle is damaged: {kept}: {damaged or ''}")
        assert found.endswith(f" ({restoring})")
        (kept / "manifest.json").write_text("{")
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    assert edgekit("gate", bundle, "--baseline", baseline).code == 0


def test_a_baseline_whose_file_and_bundle_are_of_different_commits(
    edgekit: RunEdgeKit, bundle: Path, tmp_path: Path
) -> None:
    """A merge that takes the file of one branch and the folder of another: by the file alone any size would pass."""
    baseline = tmp_path / "baseline.json"
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    (kept,) = (tmp_path / "baseline-bundles").iterdir()
    size = size_of(bundle)
    document = json.loads(baseline.read_text())
    figures = document["bundles"]["digits_torchscript"]
    figures |= {"size": 1_000_000_000, "accuracy": None}
    baseline.write_text(json.dumps(document))
    finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
    assert finished.code == 1
    (row,) = [each for each in finished.json["bundles"][0]["verdicts"] if each["budget"] == "baseline"]
    start = figures["fingerprint"][:12]
    assert row["found"] == (
        f"{baseline} has 1 GB, no accuracy, fingerprint {start}…, and {kept} has {size}, accuracy 100.00%, "
        f"fingerprint {start}… (restore both from one commit; --update writes them anew)"
    )
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    assert edgekit("gate", bundle, "--baseline", baseline).code == 0


def test_a_kept_bundle_of_another_version_is_not_called_damaged(
    edgekit: RunEdgeKit, bundle: Path, tmp_path: Path
) -> None:
    """What version control has is the same bundle: nothing but --update helps."""
    baseline = tmp_path / "baseline.json"
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    (kept,) = (tmp_path / "baseline-bundles").iterdir()
    manifest = json.loads((kept / "manifest.json").read_text())
    older = {**manifest, "edgekit": "0.0.9"}
    del older["options"]
    newer = {**manifest, "schema_version": manifest["schema_version"] + 1}
    for document, writer in ((older, "EdgeKit 0.0.9"), (newer, f"schema version {newer['schema_version']}")):
        (kept / "manifest.json").write_text(json.dumps(document))
        finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
        assert finished.code == 1
        verdicts = {verdict["budget"]: verdict for verdict in finished.json["bundles"][0]["verdicts"]}
        why = "another version of EdgeKit wrote the baseline's bundle"
        assert verdicts["interface"]["found"] == verdicts["latency growth"]["found"] == why
        found = verdicts["baseline"]["found"]
        assert found.startswith(f"{why}: {kept} is of {writer}, and cannot be read: ")
        assert found.endswith(" (--update writes it anew)")
        assert "git lfs" not in found
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    assert edgekit("gate", bundle, "--baseline", baseline).code == 0


def test_accuracy_on_other_samples_than_the_earlier_build_is_not_clear(
    edgekit: RunEdgeKit, bundle: Path, tmp_path: Path
) -> None:
    """Shares of different samples cannot be compared: a fall would pass on easier ones."""
    earlier = shutil.copytree(bundle, tmp_path / "main" / bundle.name)
    manifest = json.loads((earlier / "manifest.json").read_text())
    manifest["samples"] = dict.fromkeys(manifest["samples"], "0" * 64)
    (earlier / "manifest.json").write_text(json.dumps(manifest))
    finished = edgekit("gate", bundle, "--against", tmp_path / "main", "--json")
    assert finished.code == 0
    (row,) = [each for each in finished.json["bundles"][0]["verdicts"] if each["budget"] == "accuracy fall"]
    assert row["outcome"] == "inconclusive"
    assert row["found"] == f"100.00%, on other samples than {earlier}'s: the two cannot be compared"

    baseline = tmp_path / "baseline.json"
    assert edgekit("gate", earlier, "--baseline", baseline, "--update").code == 0
    finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
    (row,) = [each for each in finished.json["bundles"][0]["verdicts"] if each["budget"] == "accuracy fall"]
    assert row["found"] == (
        "100.00%, on other samples than the baseline's: the two cannot be compared; --update takes it over"
    )
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
    assert outcomes(finished)["accuracy fall"] == "kept"


def test_a_tampered_earlier_bundle(edgekit: RunEdgeKit, packaged_digits: Path, bundle: Path) -> None:
    (bundle / "report.md").write_text("all is well")
    finished = edgekit("gate", packaged_digits, "--against", bundle, "--quiet")
    assert finished.code == 1
    assert f"{bundle}: the bundle is not as it was written" in finished.err


def test_a_bundle_whose_own_name_is_not_the_declared_one_is_found_as_update_wrote_it(
    edgekit: RunEdgeKit, bundle: Path, project: WriteProject, tmp_path: Path
) -> None:
    """`package` without `--name` puts a bundle of another name where the project declares one."""
    declared = '[[bundle]]\nname = "{}"\nmodel = "gone.onnx"\ntarget = "onnxruntime"\noutput = "{}"\n'
    shutil.copytree(bundle, tmp_path / "there")
    project(
        '[gate]\nbaseline = "b.json"\n' + declared.format("first", bundle.name) + declared.format("second", "there")
    )
    assert edgekit("gate", "--update", "-q").code == 0
    assert set(json.loads((tmp_path / "b.json").read_text())["bundles"]) == {"first", "second"}
    finished = edgekit("gate", "--json")
    assert finished.code == 0
    for judged in finished.json["bundles"]:
        found = {verdict["budget"]: verdict["found"] for verdict in judged["verdicts"]}
        assert found["latency growth"] == "the same model files"


def test_the_working_directory_is_a_bundle_of_its_folder_s_name(
    edgekit: RunEdgeKit, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(bundle, tmp_path / "main" / bundle.name)
    monkeypatch.chdir(bundle)
    finished = edgekit("gate", ".", "--against", tmp_path / "main", "--json")
    assert finished.code == 0
    assert outcomes(finished)["size growth"] == "kept"
    (bundle / "manifest.json").write_text("{}")
    assert edgekit("gate", ".", "--against", tmp_path / "main", "--json").json["bundles"][0]["name"] == bundle.name

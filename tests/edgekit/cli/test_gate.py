import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RunEdgeKit = Callable[..., Any]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the project file that the commands find."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> None:
        (tmp_path / "edgekit.toml").write_text(text)

    return write


def test_a_budget_that_is_kept(edgekit: RunEdgeKit, packaged_digits: Path, project: Callable[[str], None]) -> None:
    project('[budget]\nsize = "1 MB"\naccuracy = 0.95\naccuracy_drop = "1%"\nsqnr_db = 50\nlatency_ratio = 100\n')
    finished = edgekit("gate", packaged_digits)
    assert finished.code == 0
    for budget in ("size", "accuracy", "accuracy drop", "worst output", "latency"):
        (line,) = [line for line in finished.out.splitlines() if line.startswith(f"  {budget}  ")]
        assert line.rstrip().endswith("ok")


def test_a_budget_that_is_broken(edgekit: RunEdgeKit, packaged_digits: Path, project: Callable[[str], None]) -> None:
    project('[budget]\nsize = "10 kB"\naccuracy = 0.95\n')
    finished = edgekit("gate", packaged_digits)
    assert finished.code == 1
    assert [line.split()[-1] for line in finished.out.splitlines() if "at " in line] == ["FAILED", "ok"]
    assert finished.err.startswith(f"error: {packaged_digits}: breaks its budget: size ")


def test_json_of_both(edgekit: RunEdgeKit, packaged_digits: Path, project: Callable[[str], None]) -> None:
    project('[budget]\nsize = "10 kB"\n')
    finished = edgekit("gate", packaged_digits, "--json")
    assert finished.code == 1
    assert finished.json["passed"] is False
    (verdict,) = finished.json["verdicts"]
    assert (verdict["budget"], verdict["limit"], verdict["passed"]) == ("size", "at most 10 kB", False)


def test_the_bundle_s_own_budget_comes_first(edgekit: RunEdgeKit, bundle: Path, project: Callable[[str], None]) -> None:
    project(
        '[budget]\nsize = 1\n[[bundle]]\nname = "d"\nmodel = "d.onnx"\ntarget = "ort"\noutput = "digits"\n'
        "[bundle.budget]\nsize = 1000000\n"
    )
    assert edgekit("gate", bundle).code == 0


def test_a_baseline_is_written_and_compared_with(edgekit: RunEdgeKit, bundle: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    assert edgekit("gate", bundle, "--baseline", baseline, "--update").code == 0
    figures = json.loads(baseline.read_text())["bundles"]["digits_torchscript"]
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert figures == {
        "size": manifest["size"]["bytes"],
        "accuracy": manifest["accuracy"]["task"]["built"],
        "latency_ratio": manifest["latency"]["ratio"],
    }
    finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
    assert finished.code == 0
    assert [verdict["budget"] for verdict in finished.json["verdicts"]] == [
        "size growth",
        "accuracy fall",
        "latency growth",
    ]
    figures["size"] = int(figures["size"] / 1.02)
    baseline.write_text(json.dumps({"schema_version": 1, "bundles": {"digits_torchscript": figures}}))
    finished = edgekit("gate", bundle, "--baseline", baseline, "--json")
    assert finished.code == 1
    assert [verdict["passed"] for verdict in finished.json["verdicts"]] == [False, True, True]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "there is nothing to judge the bundle by"),
        (["--update"], "--update: needs a file to write\nhint: give --baseline FILE"),
        (
            ["--baseline", "no.json"],
            "no.json: there is no baseline\nhint: `edgekit gate BUNDLE --baseline no.json --update` writes one",
        ),
        (["--baseline", "bad.json"], "bad.json: is no baseline\nfound: 'schema_version' is a required property"),
        (
            ["--baseline", "other.json"],
            "other.json: the baseline does not know the bundle\nexpected: a bundle's name\n"
            "found: digits_torchscript\nhint: --update adds it",
        ),
        (["--config", "no.toml"], "no.toml: there is no project file"),
    ],
)
def test_refused(
    edgekit: RunEdgeKit,
    packaged_digits: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"bundles": {}}')
    (tmp_path / "other.json").write_text('{"schema_version": 1, "bundles": {}}')
    finished = edgekit("gate", packaged_digits, *options, "--quiet")
    assert finished.code == 2
    assert text in finished.err


def test_a_tampered_bundle(edgekit: RunEdgeKit, bundle: Path, project: Callable[[str], None]) -> None:
    project("[budget]\nsize = 1000000\n")
    (bundle / "report.md").write_text("all is well")
    finished = edgekit("gate", bundle, "--quiet")
    assert finished.code == 1
    assert "found: report.md is changed" in finished.err


def test_latency_of_a_stand_in_does_not_pass(
    edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path, project: Callable[[str], None]
) -> None:
    model = onnx_file("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }")
    assert edgekit("package", model, "--target", "intel-npu", "-o", tmp_path / "out").code == 0
    project("[budget]\nlatency_ratio = 1000\naccuracy = 0.5\n")
    finished = edgekit("gate", tmp_path / "out", "--json")
    assert finished.code == 1
    assert {verdict["budget"]: verdict["found"] for verdict in finished.json["verdicts"]} == {
        "accuracy": "not measured: the samples had no labels",
        "latency": "of a stand-in on the machine that packaged it: says nothing about the device",
    }

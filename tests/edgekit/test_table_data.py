"""The commands on tables of samples: what they find is what they find in a folder with a file a row."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit import api
from edgekit.cli import main
from edgekit.errors import InputError

WEIGHTS = np.array([[1, -1], [-2, 2], [0.5, 0.25]], np.float32)
ROWS = np.random.default_rng(3).normal(size=(40, 3)).round(3)
SCORES = ROWS @ WEIGHTS
LABELS = SCORES.argmax(1)


@pytest.fixture
def linear(onnx_file: Callable[..., Path]) -> Path:
    return onnx_file("f (float[N, 3] X) => (float[N, 2] scores) { scores = MatMul(X, w) }", w=WEIGHTS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "größe 1.csv"
    lines = [",".join([*map(str, row), str(label)]) for row, label in zip(ROWS, LABELS, strict=True)]
    file.write_text("\n".join(["a,b,c,class", *lines]) + "\n", encoding="utf-8")
    return file


def manifest(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "manifest.json").read_text())
    return found


def test_package_verify_and_gate_on_a_csv_file(tmp_path: Path, linear: Path, table: Path) -> None:
    out, flags = tmp_path / "out", ["--data", str(table), "--label", "class", "--quiet"]
    assert main(["package", str(linear), "--target", "ort", "--quantize", "none", *flags, "-o", str(out)]) == 0
    found = api.verify(out, data=table, label="class")
    assert found.labels is not None
    assert (found.labels.built, found.labels.samples) == (1, 40)
    assert main(["verify", str(out), *flags, "--model", str(linear)]) == 0
    assert manifest(out)["options"]["label"] == "class"  # type: ignore[index]


def test_quantize_on_a_csv_file(tmp_path: Path, linear: Path, table: Path) -> None:
    api.quantize(linear, tmp_path / "int8.onnx", data=table, label="class", scheme="int8-weights")
    with pytest.raises(InputError, match=r"expected: 3 columns for X: float32 .×3\nfound: 4: 'a', 'b', 'c', 'class'"):
        api.quantize(linear, tmp_path / "int8.onnx", data=table)


def test_arrays_and_pairs_in_python(tmp_path: Path, linear: Path) -> None:
    bundle = api.package(
        linear, "ort", tmp_path / "out", data=(ROWS, LABELS), verify_data={"X": ROWS, "label": LABELS}, quantize="none"
    )
    assert bundle.manifest["accuracy"]["task"]["built"] == 1
    predicted = api.load(bundle).predict(ROWS)
    np.testing.assert_allclose(predicted["scores"], SCORES, rtol=1e-5, atol=1e-6)
    assert predicted["scores"].dtype == np.float32


def test_the_label_column_of_the_package_is_no_feature_of_what_is_predicted(
    tmp_path: Path, linear: Path, table: Path
) -> None:
    bundle = api.package(linear, "ort", tmp_path / "out", data=table, label="class", quantize="none")
    np.testing.assert_allclose(api.load(bundle).predict(table)["scores"], SCORES, rtol=1e-5, atol=1e-6)


def test_a_column_called_label_is_no_feature_of_what_is_predicted(tmp_path: Path, linear: Path, table: Path) -> None:
    table.write_text(table.read_text(encoding="utf-8").replace("a,b,c,class", "a,b,c,label", 1), encoding="utf-8")
    loaded = api.load(api.package(linear, "ort", tmp_path / "out", data=table, quantize="none"))
    np.testing.assert_allclose(loaded.predict(table)["scores"], SCORES, rtol=1e-5, atol=1e-6)
    named = dict(zip(("a", "b", "label"), ROWS.T, strict=True))  # three numbers for three features
    np.testing.assert_allclose(loaded.predict(named)["scores"], SCORES, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("write", [str, lambda label: f"{label}.0", lambda label: str(bool(label))])
def test_labels_in_a_text_file_may_be_floats_or_booleans(
    tmp_path: Path, linear: Path, write: Callable[[int], str]
) -> None:
    """As pandas writes a column of labels of these types."""
    lines = [",".join([*map(str, row), write(int(label))]) for row, label in zip(ROWS, LABELS, strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    bundle = api.package(linear, "ort", tmp_path / "out", data=tmp_path / "table.csv", quantize="none")
    assert bundle.manifest["accuracy"]["task"]["built"] == 1


def test_a_changed_table_is_built_again(tmp_path: Path, linear: Path, table: Path) -> None:
    config = tmp_path / "edgekit.toml"
    config.write_text(
        f'[[bundle]]\nname = "b"\nmodel = "{linear.name}"\ntarget = "ort"\ndata = "{table.name}"\nlabel = "class"\n'
        'quantize = "none"\n'
    )
    skipped = [api.build(config)[0].skipped, api.build(config)[0].skipped]
    table.write_text(table.read_text(encoding="utf-8").replace(str(ROWS[0, 0]), "0.125", 1), encoding="utf-8")
    assert [*skipped, api.build(config)[0].skipped] == [False, True, False]


def test_init_names_the_table_and_its_label(tmp_path: Path, linear: Path, table: Path) -> None:
    api.init(linear, data=table, label="class", targets=["ort"], output=tmp_path / "new.toml")
    text = (tmp_path / "new.toml").read_text(encoding="utf-8")
    assert f'data = "{table.name}"\nlabel = "class"\n' in text


def test_a_label_column_of_a_folder(tmp_path: Path, linear: Path) -> None:
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", X=np.zeros((1, 3), np.float32))
    with pytest.raises(InputError, match="--label y: names a column, and there is no table\nexpected: --data FILE"):
        api.package(linear, "ort", tmp_path / "out", data=tmp_path / "data", label="y")
    assert not (tmp_path / "out").exists()


def test_the_gate_counts_the_labels_of_a_table(tmp_path: Path, linear: Path, table: Path) -> None:
    (tmp_path / "edgekit.toml").write_text(
        f'[[bundle]]\nname = "b"\nmodel = "{linear.name}"\ntarget = "ort"\ndata = "{table.name}"\nlabel = "class"\n'
        'quantize = "none"\nbudget = { accuracy = "99%" }\n'
    )
    assert api.build(tmp_path / "edgekit.toml")[0].failure is None
    result = api.gate(config=tmp_path / "edgekit.toml", data=table)
    assert result.passed, result.markdown()


def test_a_regression_tells_its_errors_in_its_unit(
    tmp_path: Path, onnx_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx_file(
        "f (float[N, 3] X) => (float[N, 1] load) { a = MatMul(X, w) load = Add(a, b) }",
        w=np.array([[4], [2], [-1]], np.float32),
        b=np.array([300.3], np.float32),
    )
    np.save(tmp_path / "X.npy", ROWS)
    flags = ["--data", str(tmp_path / "X.npy"), "--quantize", "none", "--precision", "float16"]
    assert main(["package", str(model), "--target", "ios18", *flags, "-o", str(tmp_path / "out"), "--quiet"]) == 0
    output = manifest(tmp_path / "out")["accuracy"]["outputs"][0]  # type: ignore[index]
    (error,) = output["errors"]
    deviation = (ROWS @ [4, 2, -1]).std()
    assert error["deviation"] == pytest.approx(deviation, rel=1e-5)
    assert 0 < error["mean"] <= error["most"] < 0.5  # numbers of 256 to 512 are 0.25 apart in float16
    row = f"load: {error['mean']:.3g} on average, {error['most']:.3g} at most, of ±{deviation:.3g}"
    assert row in " ".join(capsys.readouterr().out.split())


def test_a_bundle_shows_what_it_is(tmp_path: Path, linear: Path) -> None:
    bundle = api.package(linear, "ort", tmp_path / "out")
    size = bundle.manifest["size"]["bytes"]
    assert repr(bundle) == f"Bundle({str(tmp_path / 'out')!r}: onnxruntime, float32, {size:,} bytes)"


def test_an_array_of_rows_of_another_shape_is_told_the_shape_that_fits(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model = onnx_file("f (int64[1] id) => (int64[1] y) { y = Add(id, id) }")
    with pytest.raises(InputError) as failure:
        api.package(model, "onnxruntime", tmp_path / "out", data={"id": np.arange(200)[:, None]})
    assert failure.value.message == "a row does not fit the model's input"
    assert failure.value.hint == "an array's first axis counts samples, so that its shape is 200 here"

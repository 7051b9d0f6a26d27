"""Models that keep tensors in other files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.stages.load import Load

MATMUL = "g (float[N, 4] x) => (float[N, 3] y) { y = MatMul(x, w) }"


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        Load()(path)
    return str(caught.value)


@pytest.fixture
def external(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a model whose weights are in the file of the given name, beside it."""

    def write(location: str) -> Path:
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {MATMUL}')
        tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[4, 3])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, "offset": "16", "length": "48"}.items():
            tensor.external_data.add(key=key, value=value)
        model.graph.initializer.append(tensor)
        path = tmp_path / "models" / "model.onnx"
        path.parent.mkdir()
        path.write_bytes(model.SerializeToString())
        return path

    return write


def weight_file(path: Path) -> np.ndarray:
    weights = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    path.write_bytes(bytes(16) + weights.tobytes())
    return weights


def test_external_tensors_stay_mapped_and_are_right(external: Callable[[str], Path]) -> None:
    path = external("model.data")
    weights = weight_file(path.with_name("model.data"))
    result = Load()(path)
    assert result.record["bytes"] == path.stat().st_size + 64
    assert [file["file"] for file in result.record["external_files"]] == ["model.data"]
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(run(result.model.proto(), x=x)[0], x @ weights, rtol=1e-6)


def test_shapes_in_another_file_are_read(tmp_path: Path) -> None:
    """ONNX Runtime and ONNX's checker read shapes from the model's own file alone."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 6] x) => (float[3, 4] y) { y = Reshape(x, s) }'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3, 4]), "s"))
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    result = Load()(tmp_path / "m.onnx")
    assert result.record["warnings"] == []
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(Reference(result.model).run({"x": x})["y"], x.reshape(3, 4))


def test_a_relative_path_finds_its_external_tensors(
    external: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = external("model.data")
    weight_file(path.with_name("model.data"))
    monkeypatch.chdir(path.parent)
    assert Load()(Path("model.onnx")).model.source == Path("model.onnx")


def test_a_functions_external_tensors_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[1, 4] x) => (float[1, 4] y) { y = own.Shift(x) }
        <domain: "own", opset_import: ["": 17]> Shift (a) => (b) {
            c = Constant <value = float[4] {0, 0, 0, 0}> ()
            b = Add(a, c)
        }
        """
    )
    tensor = model.functions[0].node[0].attribute[0].t
    tensor.CopyFrom(onnx.TensorProto(name="c", data_type=onnx.TensorProto.FLOAT, dims=[4]))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="c.data")
    (tmp_path / "c.data").write_bytes(np.float32([1, 2, 3, 4]).tobytes())
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    loaded = Load()(tmp_path / "model.onnx").model
    np.testing.assert_array_equal(run(loaded.proto(), x=np.zeros((1, 4), np.float32))[0], [[1, 2, 3, 4]])


def test_a_missing_external_file(external: Callable[[str], Path]) -> None:
    path = external("model.data")
    assert refusal(path) == (
        f"{path}: its tensors are in 'model.data', which is missing\n"
        f"expected: {path.with_name('model.data')}\n"
        "hint: copy the data file together with the model"
    )


def test_an_external_file_that_is_cut_short(external: Callable[[str], Path]) -> None:
    path = external("model.data")
    path.with_name("model.data").write_bytes(bytes(20))
    assert refusal(path) == (
        f"{path}: its tensors are in 'model.data', which is cut short\n"
        "expected: 64 bytes\nfound: 20 bytes\nhint: copy the data file again"
    )


@pytest.mark.parametrize("padding", [0, 200], ids=["shorter than the tensors", "longer"])
def test_an_external_file_that_git_lfs_holds(external: Callable[[str], Path], padding: int) -> None:
    path = external("model.data")
    pointer = b"version https://git-lfs.github.com/spec/v1\n" + bytes(padding)
    path.with_name("model.data").write_bytes(pointer)
    assert refusal(path) == (
        f"{path}: its tensors are in 'model.data', which is a Git LFS pointer\n"
        "hint: fetch the file itself with `git lfs pull`"
    )


@pytest.mark.parametrize("location", ["../secret.data", "/etc/passwd", "C:\\secret", "sub/../../secret.data"])
def test_external_files_outside_the_folder_are_refused(external: Callable[[str], Path], location: str) -> None:
    path = external(location)
    weight_file(path.parent.parent / "secret.data")
    assert refusal(path) == (
        f"{path}: keeps tensors outside its own folder, which is refused\n"
        f"found: {location!r}\n"
        "hint: put the data file beside the model, and save the model with that location"
    )


def test_a_link_out_of_the_folder_is_refused(external: Callable[[str], Path]) -> None:
    path = external("model.data")
    weight_file(path.parent.parent / "secret.data")
    path.with_name("model.data").symlink_to("../secret.data")
    assert "keeps tensors outside its own folder, which is refused" in refusal(path)


@pytest.mark.parametrize("make_link", [os.symlink, os.link])
def test_a_link_inside_the_folder_is_refused(
    external: Callable[[str], Path], make_link: Callable[[Path, Path], None]
) -> None:
    path = external("model.data")
    weight_file(path.with_name("real.data"))
    make_link(path.with_name("real.data"), path.with_name("model.data"))
    assert refusal(path) == (
        f"{path}: its tensors are in 'model.data', which is a link to another file; that is refused\n"
        "hint: put a copy of the data file in the link's place"
    )


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (lambda tensor: tensor.dims.__setitem__(0, -4), "has a negative size\nfound: FLOAT -4×3"),
        (
            lambda tensor: tensor.dims.__setitem__(0, 5),
            "has fewer bytes in its file than its shape needs\nexpected: 60 bytes for FLOAT 5×3\nfound: 48 bytes",
        ),
        (
            lambda tensor: setattr(tensor, "data_type", onnx.TensorProto.STRING),
            "is in another file, which cannot hold its element type\nexpected: numbers or booleans\nfound: STRING 4×3",
        ),
        (
            lambda tensor: setattr(tensor, "data_type", 99),
            "is in another file, which cannot hold its element type\nexpected: numbers or booleans\nfound: type 99 4×3",
        ),
    ],
)
def test_an_external_tensor_whose_type_and_shape_do_not_fit_its_bytes(
    external: Callable[[str], Path], change: Callable[[onnx.TensorProto], object], flaw: str
) -> None:
    path = external("model.data")
    weight_file(path.with_name("model.data"))
    model = onnx.load(path, load_external_data=False)
    change(model.graph.initializer[0])
    path.write_bytes(model.SerializeToString())
    assert refusal(path) == f"{path}: tensor 'w' {flaw}\nhint: save the model again"


def test_an_external_file_that_is_shorter_than_a_tensor_of_unstated_length(external: Callable[[str], Path]) -> None:
    path = external("model.data")
    path.with_name("model.data").write_bytes(bytes(16 + 47))
    model = onnx.load(path, load_external_data=False)
    del model.graph.initializer[0].external_data[2]
    path.write_bytes(model.SerializeToString())
    assert "which is cut short\nexpected: 64 bytes\nfound: 63 bytes" in refusal(path)


@pytest.mark.parametrize("location", ["model.data", "model.data/"])
def test_an_external_file_that_is_a_folder_or_named_as_one(external: Callable[[str], Path], location: str) -> None:
    path = external(location)
    if location.endswith("/"):
        weight_file(path.with_name("model.data"))
    else:
        path.with_name("model.data").mkdir()
    assert refusal(path) == (
        f"{path}: its tensors are in {location!r}, which is not a file\nhint: put the data file there"
    )

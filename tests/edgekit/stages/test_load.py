from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.errors import InputError, RequirementError
from edgekit.stages.load import Load

WriteOnnx = Callable[..., Path]

RELU = "g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }"
MATMUL = "g (float[N, 4] x) => (float[N, 3] y) { y = MatMul(x, w) }"


def run(model: onnx.ModelProto | Path, **feeds: np.ndarray) -> list[np.ndarray]:
    data = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)


def refusal(path: Path, kind: type[Exception] = InputError) -> str:
    with pytest.raises(kind) as caught:
        Load()(path)
    return str(caught.value)


def test_a_model_comes_through_with_its_origin_on_record(onnx_file: WriteOnnx) -> None:
    path = onnx_file(MATMUL, w=np.eye(4, 3, dtype=np.float32))
    result = Load()(path)
    assert [str(spec) for spec in result.model.inputs] == ["x: float32 N×4"]
    assert [str(spec) for spec in result.model.outputs] == ["y: float32 N×3"]
    assert result.model.source == path
    assert result.record["bytes"] == path.stat().st_size
    assert result.record["opset"] == 17
    assert result.warnings == ()


def test_nodes_without_a_name_are_called_after_their_output(onnx_file: WriteOnnx) -> None:
    model = Load()(onnx_file(RELU)).model
    assert [node.name for node in model.graph] == ["y"]


def test_weights_that_are_inputs_too_are_weights(onnx_file: WriteOnnx) -> None:
    graph = "g (float[1, 4] x, float[4, 3] w) => (float[1, 3] y) { y = MatMul(x, w) }"
    model = Load()(onnx_file(graph, w=np.eye(4, 3, dtype=np.float32))).model
    assert [spec.name for spec in model.inputs] == ["x"]
    assert [value.name for value in model.graph.inputs] == ["x"]


@pytest.mark.parametrize("ir_version", [3, 9])
def test_a_value_that_samples_feed_is_a_default(onnx_file: WriteOnnx, ir_version: int) -> None:
    graph = "g (float[1, 4] x, float t, float[4] w) => (float[1, 4] y) { z = Mul (x, t) y = Add (z, w) }"
    values = {"t": np.array(2, np.float32), "w": np.ones(4, np.float32)}
    result = Load(["t", "label"])(onnx_file(graph, opset=13, ir_version=ir_version, **values))
    assert [str(spec) for spec in result.model.inputs] == ["x: float32 1×4", "t: float32 scalar"]
    assert result.record["fed_initializers"] == ["t"]
    assert "the file has a value for 't', but the samples have one too: 't' is an input" in result.warnings
    (y,) = run(result.model.proto(), x=np.full((1, 4), 3, np.float32), t=np.array(5, np.float32))
    assert y.tolist() == [[16, 16, 16, 16]]


def test_weights_that_are_no_inputs_any_more_need_a_newer_format(onnx_file: WriteOnnx) -> None:
    graph = "g (float[1, 4] x, float[4, 3] w) => (float[1, 3] y) { y = MatMul(x, w) }"
    model = Load()(onnx_file(graph, opset=13, ir_version=3, w=np.eye(4, 3, dtype=np.float32))).model
    assert onnx.version_converter.convert_version(model.proto(), 14).opset_import[0].version == 14


def test_a_model_of_trees_alone_can_get_standard_operators(tmp_path: Path) -> None:
    """What CatBoost and onnxmltools write imports nothing else."""
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0])
    graph = onnx.helper.make_graph([node], "pure", [info("x", 1, [1, 3])], [info("y", 1, [1, 3])])
    trees = [onnx.helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=trees, ir_version=3), tmp_path / "m.onnx")
    result = Load()(tmp_path / "m.onnx")
    proto = result.model.proto()
    proto.graph.node.add(op_type="Neg", input=["y"], output=["z"])
    onnx.checker.check_model(proto)
    assert onnx.version_converter.convert_version(proto, 21).opset_import
    assert result.record["upgraded_from_opset"] is None


def test_a_mark_that_is_newer_than_onnx_runtime_is_lowered_to_what_it_takes(onnx_file: WriteOnnx) -> None:
    path = onnx_file(RELU, ir_version=onnx.IR_VERSION)
    model = Load()(path).model
    x = np.array([[1, -2, 3, -4]], np.float32)
    np.testing.assert_array_equal(run(model.proto(), x=x)[0], [[1, 0, 3, 0]])
    marked = onnx.load(path)
    marked.ir_version = model.graph_model.ir_version + 1
    with pytest.raises(Exception, match="Unsupported model IR version"):
        run(marked, x=x)


def test_a_mark_that_onnx_runtime_takes_stays(onnx_file: WriteOnnx) -> None:
    assert Load()(onnx_file(RELU, ir_version=8)).model.graph_model.ir_version == 8


def test_functions_are_inlined(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[1, 4] x) => (float[1, 4] y) { y = own.Twice(x) }
        <domain: "own", opset_import: ["": 17]> Twice (a) => (b) { b = Add(a, a) }
        """
    )
    onnx.save(model, tmp_path / "model.onnx")
    result = Load()(tmp_path / "model.onnx")
    assert [node.op_type for node in result.model.graph] == ["Add"]
    assert result.record["inlined_functions"] == 1
    x = np.array([[1, -2, 3, 4]], np.float32)
    np.testing.assert_array_equal(run(result.model.proto(), x=x)[0], 2 * x)


def test_dimensions_without_a_true_name_are_unknown(tmp_path: Path) -> None:
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [-1, 3, "?", "W", None])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [-1, 3, "?", "W", None])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, ir_version=8), tmp_path / "model.onnx")
    assert Load()(tmp_path / "model.onnx").model.inputs[0].shape == (None, 3, None, "W", None)


def test_an_unknown_rank_is_no_flaw(onnx_file: WriteOnnx) -> None:
    path = onnx_file(RELU)
    proto = onnx.load(path)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, path)
    assert [spec.shape for spec in Load()(path).model.inputs] == [None]


@pytest.mark.parametrize("opset", [7, 8])
def test_an_old_operator_set_is_upgraded_and_computes_the_same(onnx_file: WriteOnnx, opset: int) -> None:
    graph = """g (float[1, 2, 6, 6] x) => (float[1, 8] y) {
        c = Conv <kernel_shape = [3, 3]> (x, w)
        n = BatchNormalization (c, scale, bias, mean, var)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (n)
        d = Dropout (p)
        y = Flatten (d)
    }"""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((2, 2, 3, 3)),
        "scale": rng.standard_normal(2),
        "bias": rng.standard_normal(2),
        "mean": rng.standard_normal(2),
        "var": rng.random(2) + 0.5,
    }
    path = onnx_file(graph, opset=opset, ir_version=3, **{name: w.astype(np.float32) for name, w in weights.items()})
    proto = onnx.load(path)  # this old format wants every initializer among the inputs
    proto.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in proto.graph.initializer
    )
    onnx.save(proto, path)
    result = Load()(path)
    assert result.record["upgraded_from_opset"] == opset
    assert result.model.opset == result.record["opset"] == 17
    x = rng.standard_normal((1, 2, 6, 6)).astype(np.float32)
    np.testing.assert_allclose(run(result.model.proto(), x=x)[0], run(path, x=x)[0], rtol=1e-5, atol=1e-6)


def test_an_upgrade_that_computes_something_else_is_refused(onnx_file: WriteOnnx) -> None:
    # Scan lost its batch axis in opset 9, and the converter leaves the node as it is.
    graph = """g (float[1, 3, 2] x) => (float[1, 3, 2] y) {
        y = Scan <num_scan_inputs = 1, body = b (float[2] a) => (float[2] c) { c = Relu(a) }> ("", x)
    }"""
    path = onnx_file(graph, opset=8)
    assert refusal(path, RequirementError) == (
        f"{path}: opset 8 is too old, and the model cannot be upgraded\n"
        "expected: opset 9 or newer\n"
        "found: as opset 9 it computes something else: ONNX Runtime cannot execute it: Invalid rank for input: x "
        "Got: 3 Expected: 2 Please fix either the inputs/outputs or the model.\n"
        "hint: export the model again with a newer opset_version"
    )


# Files that cannot be used


def test_a_missing_file() -> None:
    assert refusal(Path("nowhere.onnx")) == "nowhere.onnx: there is no such file"


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: is not a file\nhint: give the .onnx file itself"


def test_a_folder_with_one_model(tmp_path: Path) -> None:
    """A bundle of this runtime's, say."""
    (tmp_path / "model.onnx").touch()
    assert refusal(tmp_path).endswith(f"hint: give the .onnx file itself, {tmp_path / 'model.onnx'}")


def test_a_folder_of_another_kind(tmp_path: Path) -> None:
    """The two command lines are those of tf2onnx's README and of optimum-onnx's documentation."""
    folder = tmp_path / "a model"
    folder.mkdir()
    (folder / "config.json").touch()
    hint = f"if it is a model of Hugging Face's, export it: optimum-cli export onnx --model '{folder}' 'a model-onnx'"
    assert refusal(folder) == f"{folder}: is not a file\nhint: {hint}"
    (folder / "saved_model.pb").touch()
    hint = f"convert the SavedModel: python -m tf2onnx.convert --saved-model '{folder}' --output model.onnx"
    assert refusal(folder).endswith(f"\nhint: {hint}")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").touch()
    assert refusal(folder).endswith(f"\nhint: give the .onnx file itself, {folder / 'onnx' / 'model.onnx'}")
    for name in "abc":
        (folder / f"{name}.onnx").touch()
    listed = ", ".join(str(folder / f"{name}.onnx") for name in "abc")
    assert refusal(folder).endswith(f"\nhint: give one of its .onnx files: {listed} and 1 more")
    (folder / "manifest.json").touch()
    assert refusal(folder).endswith("\nhint: give the .onnx file that it was made from")


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        # a Core ML model begins as an ONNX model does: with field 1, a version
        ("m.mlmodel", b"\x08\x09\x12\xa0\x04", "\nhint: give the .onnx file that it was made from"),
        (
            "m.safetensors",
            b"\x02\x00\x00\x00\x00\x00\x00\x00{}",
            "\nhint: it holds weights without the model: export the model with torch.onnx.export, or one of Hugging "
            "Face's with `optimum-cli export onnx`",
        ),
        (
            "m.bin",
            b"GGUF\x03\x00\x00\x00",
            " but a GGUF file of weights\nhint: export the model with torch.onnx.export, or one of Hugging Face's with "
            "`optimum-cli export onnx`",
        ),
        ("m.pb", b"\n\x0c\n\x01x\x12", "\nhint: convert it with tf2onnx"),
    ],
)
def test_a_model_of_another_format(tmp_path: Path, name: str, data: bytes, expected: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert refusal(path) == f"{path}: is not an ONNX model{expected}"


def test_an_archive_that_holds_a_model(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("export/Model.ONNX", b"a model")
    assert refusal(tmp_path / "model.zip") == (
        f"{tmp_path / 'model.zip'}: is not an ONNX model but a ZIP archive that holds 'export/Model.ONNX'\n"
        "hint: unpack it first"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("m.joblib", "convert the model with skl2onnx (scikit-learn) or onnxmltools (LightGBM, XGBoost)"),
        ("m.keras", "export the model with model.export(FILE, format='onnx') in Keras 3"),
        ("m.pt", "export the model with torch.onnx.export"),
        ("m.npz", "it holds arrays: give the .onnx file here, and samples with --data"),
    ],
)
def test_a_file_of_another_library(tmp_path: Path, name: str, hint: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04 archive" if name != "m.joblib" else b"\x80\x04 pickle")
    assert f"hint: {hint}" in refusal(path)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is not an ONNX model: the file is empty"),
        (
            b"a text that is no model",
            "is not an ONNX model\nhint: export the model: torch.onnx.export (PyTorch), skl2onnx (scikit-learn), "
            "onnxmltools (LightGBM, XGBoost), model.export(FILE, format='onnx') (Keras 3), tf2onnx (TensorFlow)",
        ),
        (
            b"PK\x03\x04 archive",
            "is not an ONNX model but a ZIP archive, such as a PyTorch checkpoint\n"
            "hint: export the model with torch.onnx.export",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0",
            "is not an ONNX model but a Git LFS pointer\nhint: fetch the file itself with `git lfs pull`",
        ),
        (
            b"\x1c\x00\x00\x00TFL3" + bytes(32),
            "is not an ONNX model but a TensorFlow Lite model\nhint: convert it with tf2onnx",
        ),
        (
            b"<!DOCTYPE html><html></html>",
            "is not an ONNX model but a web page\nhint: download the model again",
        ),
        (
            b'<?xml version="1.0"?>\n<net name="m" version="11">',
            "is not an ONNX model but an XML file, such as a model of another runtime's\n"
            "hint: give the .onnx file that it was made from",
        ),
        (
            gzip.compress(b"a model", mtime=0),
            "is not an ONNX model but a file that gzip compressed\nhint: unpack it first: gzip -d",
        ),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert refusal(path) == f"{path}: {expected}"


def test_a_truncated_file(onnx_file: WriteOnnx) -> None:
    path = onnx_file(MATMUL, w=np.eye(4, 3, dtype=np.float32))
    path.write_bytes(path.read_bytes()[:50])
    assert refusal(path) == (
        f"{path}: is an ONNX model that is damaged or cut short\nfound: 50 bytes\nhint: copy or download it again"
    )


def test_a_file_cut_after_the_graph_lacks_its_opset(onnx_file: WriteOnnx) -> None:
    path = onnx_file(RELU)
    proto = onnx.load(path)
    del proto.opset_import[:]
    onnx.save(proto, path)
    assert refusal(path) == (
        f"{path}: does not say which version of the standard operators it uses\n"
        "hint: the file may be cut short; copy it or export the model again"
    )


def test_an_opset_from_the_future(onnx_file: WriteOnnx) -> None:
    path = onnx_file(RELU, opset=999)
    assert refusal(path) == (
        f"{path}: uses an unknown version of the standard operators\n"
        f"expected: opset 1 to {onnx.defs.onnx_opset_version()}\n"
        "found: opset 999\n"
        "hint: export the model with a known opset_version, or update the onnx package"
    )


def test_a_format_from_the_future(onnx_file: WriteOnnx) -> None:
    path = onnx_file(RELU, ir_version=999)
    assert refusal(path) == (
        f"{path}: is written in a newer version of the ONNX format\n"
        f"expected: IR version 1 to {onnx.IR_VERSION}\n"
        "found: IR version 999\n"
        "hint: update the onnx package"
    )


@pytest.mark.parametrize("domains", [["ai.onnx"], ["", "ai.onnx"], ["ai.onnx", ""]])
def test_both_names_of_the_standard_operators(onnx_file: WriteOnnx, domains: list[str]) -> None:
    path = onnx_file(RELU)
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.domain = domains[-1]
    del proto.opset_import[:]
    versions = [9, 17][-len(domains) :]
    proto.opset_import.extend(map(onnx.helper.make_opsetid, domains, versions))
    onnx.save(proto, path)

    loaded = Load()(path)

    assert loaded.record["opset"] == 17
    found = loaded.model.proto()
    assert [(opset.domain, opset.version) for opset in found.opset_import] == [("", 17)]
    x = np.array([[-1, 0, 1, 2]], np.float32)
    np.testing.assert_array_equal(run(found, x=x), run(path, x=x))


def test_an_operator_that_the_opset_lacks(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[1, 4] x) => (float[1, 4] y) { [n0] y = Gelu(x) }", opset=17)
    assert refusal(path) == (
        f"{path}: node 'n0' is a Gelu, which ONNX does not have in operator set 17\n"
        "hint: export the model again with operator set 20 or newer, which has it"
    )


def test_an_operator_of_the_exporters_own(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[1, 4] x) => (float[1, 4] y) { y = TFL_Convolution2DTransposeBias(x) }", opset=15)
    assert refusal(path) == (
        f"{path}: node 'y' is a TFL_Convolution2DTransposeBias, which ONNX does not have in operator set 15\n"
        "hint: the exporter found no ONNX operator for TFL_Convolution2DTransposeBias: replace it in the model "
        "before you export it"
    )


def test_shapes_that_no_runtime_can_take(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[1, 4] x, float[1, 3] z) => (float[1, 4] y) { [sum] y = Add(x, z) }")
    text = refusal(path)
    assert text.startswith(f"{path}: contradicts itself: ")
    assert "(op_type:Add, node name: sum)" in text
    assert "Incompatible dimensions" in text


def test_a_contradiction_is_told_without_the_nodes_behind_it(onnx_file: WriteOnnx) -> None:
    nodes = "[turn] t = Transpose <perm = [0, 7]> (x) a = Add(t, t) y = Relu(a)"
    text = refusal(onnx_file(f"g (float[2, 3] x) => (float[3, 2] y) {{ {nodes} }}"))
    assert "(op_type:Transpose, node name: turn): [TypeInferenceError] Invalid attribute perm {0, 7}" in text
    assert "op_type:Add" not in text
    assert "op_type:Relu" not in text


def test_wrong_shapes_that_nobody_uses_are_a_warning(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[1, 4] x) => (float[1, 5] y) { y = Relu(x) }")
    result = Load()(path)
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith("shapes in the model contradict each other: ")


def test_a_graph_without_outputs(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(
        onnx.helper.make_model(
            onnx.helper.make_graph(
                [onnx.helper.make_node("Relu", ["x"], ["y"])],
                "g",
                [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])],
                [],
            )
        ).SerializeToString()
    )
    assert refusal(path).startswith(f"{path}: has no outputs: nothing that it computes is returned")


def test_graphs_that_are_nested_more_deeply_than_protobuf_reads(tmp_path: Path) -> None:
    def field(number: int, content: bytes) -> bytes:
        length, size = [], len(content)
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2, *length, size]) + content

    node = b""
    for _ in range(60):
        branch = field(1, b"then_branch") + field(6, field(1, node)) + b"\xa0\x01\x05"
        node = field(2, b"y") + field(1, b"c") + field(4, b"If") + field(5, branch)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08" + field(7, field(1, node)))
    assert refusal(path).startswith(f"{path}: is nested too deeply to be read as an ONNX model\nhint: ")


def test_an_empty_graph(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[1, 4] x) => (float[1, 4] x) {}")
    assert refusal(path) == (
        f"{path}: has no nodes: there is nothing to compute\n"
        "hint: export the model again; an exporter folds what does not depend on the inputs into constants"
    )


def test_an_input_of_size_zero(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[1, 0, 4] x) => (float[1, 0, 4] y) { y = Relu(x) }")
    assert refusal(path) == (
        f"{path}: input 'x' has a dimension of size 0: nothing can be fed\n"
        "found: x: float32 1×0×4\n"
        "hint: export the model with a dynamic dimension there"
    )


# Numbers that no trained model has


def test_nan_in_the_weights(onnx_file: WriteOnnx) -> None:
    weights = np.eye(4, 3, dtype=np.float32)
    weights[1, 2] = np.nan
    path = onnx_file(MATMUL, w=weights)
    assert refusal(path, RequirementError) == (
        f"{path}: the weights of node 'y' (MatMul) are broken\n"
        "found: 'w': 1 of 12 numbers are NaN\n"
        "hint: the training diverged or the export went wrong; check the checkpoint that it was made from"
    )


def test_infinity_in_the_weights(onnx_file: WriteOnnx) -> None:
    weights = np.eye(4, 3, dtype=np.float32)
    weights[0] = -np.inf
    path = onnx_file(MATMUL, w=weights)
    assert "found: 'w': 3 of 12 numbers are infinite" in refusal(path, RequirementError)


def test_nan_that_a_condition_chooses(onnx_file: WriteOnnx) -> None:
    """jax.numpy.var divides by a count, and has NaN for a count of nothing."""
    graph = "g (float[3] x, bool[3] some) => (float[3] y) { y = Where (some, x, nothing) }"
    path = onnx_file(graph, nothing=np.full(3, np.nan, np.float32))
    assert Load()(path).warnings == ()


def test_nan_that_is_expanded_before_a_condition_chooses(onnx_file: WriteOnnx) -> None:
    """``torch.where(gray, torch.full_like(x, nan), x)``; what is read elsewhere too is refused."""
    graph = """g (float[2, 3] x, bool[2, 3] some) => ({outputs}) {{
        size = Shape (x)  many = Expand (nothing, size)  y = Where (some, x, many) {rest} }}"""
    nothing = np.full(1, np.nan, np.float32)
    chosen = onnx_file(graph.format(outputs="float[2, 3] y", rest=""), nothing=nothing)
    assert Load()(chosen).warnings == ()
    for outputs, rest in (("y, float[2, 3] many", ""), ("y, float[2, 3] z", "z = Add (x, many)")):
        used = onnx_file(graph.format(outputs=f"float[2, 3] {outputs}", rest=rest), nothing=nothing)
        assert "node 'many' (Expand) are broken" in refusal(used, RequirementError)


def test_nan_in_a_table_that_the_model_asks_for_nan(onnx_file: WriteOnnx) -> None:
    """An imputer of missing values has the rows of its neighbors, some of whose values are missing too."""
    graph = "g (float[3] x) => (float[3] y) { m = IsNaN (rows) z = Where (m, x, rows) y = Add (z, x) }"
    Load()(onnx_file(graph, rows=np.float32([1, np.nan, 3])))
    with pytest.raises(RequirementError, match="2 of 3 numbers are NaN"):
        Load()(
            onnx_file(
                graph.replace("IsNaN (rows)", "IsNaN (x)").replace("Where", "Max").replace("m, ", ""),
                rows=np.float32([1, np.nan, np.nan]),
            )
        )


def test_nan_in_a_constant_node(onnx_file: WriteOnnx) -> None:
    graph = "g (float[1] x) => (float[1] y) { c = Constant <value = float[1] {nan}> () [sum] y = Add(x, c) }"
    path = onnx_file(graph.replace("nan", "0"))
    proto = onnx.load(path)
    proto.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.array([np.nan], np.float32)))
    onnx.save(proto, path)
    assert "node 'sum' (Add)" in refusal(path, RequirementError)


def test_infinity_in_a_mask_is_meant(onnx_file: WriteOnnx) -> None:
    mask = np.triu(np.full((4, 4), -np.inf, np.float32), 1)
    path = onnx_file("g (float[4, 4] x) => (float[4, 4] y) { y = Add(x, mask) }", mask=mask)
    assert Load()(path).warnings == ()


def test_large_weights_that_are_inputs_too(tmp_path: Path) -> None:
    """Before IR version 4 every initializer is an input, and ``light_proto`` makes large ones inputs."""
    weights = onnx.numpy_helper.from_array(np.ones((256, 5), np.float32), "w")
    infos = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (2, 256)), ("w", (256, 5)))]
    infos.append(onnx.helper.make_tensor_value_info("unused", 1, [7]))
    odd = onnx.TensorProto(name="unused", data_type=1, dims=[7], raw_data=b"abc")  # what makes the file need mending
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "old",
        infos,
        [onnx.helper.make_tensor_value_info("y", 1, [2, 5])],
        [weights, odd],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 8)])
    proto.ir_version = 3
    path = tmp_path / "old.onnx"
    path.write_bytes(proto.SerializeToString())
    assert [spec.name for spec in Load()(path).model.inputs] == ["x"]


def test_a_mended_file_whose_output_has_no_rank(tmp_path: Path) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "unnamed",
        [onnx.helper.make_tensor_value_info("x", 1, [2])],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    proto.graph.ClearField("name")
    path = tmp_path / "unnamed.onnx"
    path.write_bytes(proto.SerializeToString())
    result = Load()(path)
    assert [spec.name for spec in result.model.outputs] == ["y"]
    assert list(result.warnings) == ["the graph had no name: it is called 'graph'"]

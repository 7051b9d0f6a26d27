"""Dimensions to which a file gives one name, and samples two sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgekit
from edgekit.errors import InputError
from edgekit.features.dimensions import SizeRange
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.sizes.shared_names import names_by_samples
from edgekit.model import ValueSpec
from edgekit.reporting.summary import stage_record

OnnxFile = Callable[..., Path]
# A product of every number of x with the sum of z: the two may have any sizes.
APART = "g (float[N] x, float[N] z) => (float[N] y) { s = ReduceSum <keepdims = 1> (z) y = Mul(x, s) }"
# Numbers that are added one to one: the two have one size.
TOGETHER = "g (float[N] x, float[N] z) => (float[N] y) { y = Add(x, z) }"
# Likewise, but inference does not see how many numbers are kept, which are all.
HIDDEN = "g (float[N] x, float[N] z) => (float[N] y) { m = Equal(z, z) c = Compress <axis = 0> (z, m) y = Add(x, c) }"
WARNING = (
    "dimension 0 of input 'z' is called 'N_2', in the file 'N': in every sample its size (3) is another than that of "
    "dimension 0 of input 'x' (4..6)"
)


def drawn(folder: Path, sizes: list[tuple[int, int]]) -> Path:
    folder.mkdir()
    for number, (x, z) in enumerate(sizes):
        rng = np.random.default_rng(number)
        np.savez(
            folder / f"{number}.npz",
            x=rng.standard_normal(x).astype(np.float32),
            z=rng.standard_normal(z).astype(np.float32),
        )
    return folder


SIZES = [(4, 3), (6, 3), (5, 3)]


@pytest.mark.parametrize(
    ("target", "shapes", "dimensions"),
    [
        ("ios18", [["N"], [3]], {"N": range(4, 7)}),
        ("onnxruntime", [["N"], ["N_2"]], {}),
        ("intel-cpu", [["N"], ["N_2"]], {}),
    ],
)
def test_a_bundle_has_a_name_for_each(
    tmp_path: Path, onnx_file: OnnxFile, target: str, shapes: list[Any], dimensions: dict[str, range]
) -> None:
    model, data = onnx_file(APART), drawn(tmp_path / "data", SIZES)
    bundle = edgekit.package(model, target, tmp_path / "out", data=data, quantize="none")
    manifest = bundle.manifest
    assert [feature["shape"] for feature in manifest["inputs"]] == shapes
    assert bundle.open_dims == dimensions
    assert stage_record(manifest, "tell dimensions apart") == {
        "names": [{"input": "z", "axis": 0, "dimension": "N", "name": "N_2"}],
        "warnings": [WARNING],
    }
    for feeds, outputs in bundle.golden():
        np.testing.assert_allclose(outputs["y"], feeds["x"] * feeds["z"].sum(), rtol=1e-5)
    assert edgekit.verify(bundle, data=data, model=model).accuracy is not None


@pytest.mark.parametrize("graph", [TOGETHER, HIDDEN])
def test_what_does_not_run_on_the_samples_stays_refused(tmp_path: Path, onnx_file: OnnxFile, graph: str) -> None:
    model, data = onnx_file(graph), drawn(tmp_path / "data", SIZES)
    with pytest.raises(InputError, match="two sizes for dimension 'N'\nexpected: 4 in input 'z'") as raised:
        edgekit.package(model, "ios18", tmp_path / "out", data=data, quantize="none")
    assert raised.value.hint == "the model does not run on it: give the inputs one size"


def test_what_shape_inference_refuses_stays_one(tmp_path: Path, onnx_file: OnnxFile) -> None:
    """The branch that no sample takes shows by inference alone that the two have one size."""
    model = onnx_file(
        """g (float[2, steps] x, float[steps, 2] z, bool b) => (float[r, c] y) {
            y = If(b) <then_branch = t () => (float[p, q] u) { u = MatMul(x, z) },
                       else_branch = e () => (float[s, t] v) { v = Relu(x) }>
        }"""
    )
    data = tmp_path / "data"
    data.mkdir()
    for size in (4, 6):
        x, z = np.ones((2, size), np.float32), np.ones((3, 2), np.float32)
        np.savez(data / f"{size}.npz", x=x, z=z, b=np.array(False))
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "out", data=data, quantize="none")
    record = stage_record(bundle.manifest, "tell dimensions apart")
    assert record["names"] == []
    assert "but it stays one dimension (z[0])" in record["warnings"][0]
    assert "MatMul" in record["warnings"][0]
    assert [feature.shape for feature in bundle.inputs] == [(2, "steps"), ("steps", 2), ()]


def test_quantize_tells_them_apart_too(tmp_path: Path, onnx_file: OnnxFile) -> None:
    graph = """g (float[N, 64] x, float[N, 64] z) => (float[M, 64] y) {
        s = ReduceMean <axes = [0], keepdims = 1> (z) a = Add(x, s) y = MatMul(a, w)
    }"""
    rng = np.random.default_rng(0)
    model = onnx_file(graph, opset=13, w=rng.standard_normal((64, 64)).astype(np.float32))
    data = tmp_path / "data"
    data.mkdir()
    for number in range(8):
        x, z = (rng.standard_normal((size, 64)).astype(np.float32) for size in (4 + number, 3))
        np.savez(data / f"{number}.npz", x=x, z=z)
    edgekit.quantize(model, tmp_path / "small.onnx", data=data, target="onnxruntime", scheme="int8-weights")
    found = [value.type.tensor_type.shape.dim[0].dim_param for value in onnx.load(tmp_path / "small.onnx").graph.input]
    assert found == ["N", "N_2"]


def named(*shapes: tuple[int | str, ...]) -> list[ValueSpec]:
    return [ValueSpec(name, "float32", shape) for name, shape in zip("abc", shapes, strict=False)]


def samples(*rows: tuple[tuple[int, ...], ...]) -> list[dict[str, tuple[int, ...]]]:
    return [dict(zip("abc", row, strict=False)) for row in rows]


@pytest.mark.parametrize(
    ("inputs", "shapes", "request_", "expected"),
    [
        (named(("N",), ("N",)), samples(((4,), (3,)), ((5,), (3,))), {}, ["b0=N_2"]),
        (named(("N",), ("N",), ("N",)), samples(((4,), (3,), (4,)), ((5,), (3,), (5,))), {}, ["b0=N_2"]),
        (named(("N",), ("N",), ("N",)), samples(((4,), (3,), (2,))), {}, ["b0=N_2", "c0=N_3"]),
        (
            named(
                ("N", "N"),
            ),
            samples(((4, 3),)),
            {},
            ["a1=N_2"],
        ),
        (named(("N",), ("N",), ("N_2",)), samples(((4,), (3,), (9,))), {}, ["b0=N_3"]),
        # equal in every sample, in some, in none that is there
        (named(("N",), ("N",)), samples(((4,), (4,)), ((5,), (5,))), {}, []),
        (named(("N",), ("N",)), samples(((3,), (3,)), ((5,), (3,))), {}, []),
        (named(("N",), ("N",)), [], {}, []),
        # in some samples, but of one input
        (named(("N", "N")), samples(((3, 3),), ((5, 3),)), {}, ["a1=N_2"]),
        (named(("N", "N"), ("N",)), samples(((3, 3), (3,)), ((5, 3), (3,))), {}, ["a1=N_2", "b0=N_2"]),
        (named(("N", "N"), ("N",)), samples(((3, 4), (3,)), ((5, 3), (4,))), {}, []),
        # a sample lacks one; its rank is another; part of a sum is the name too
        (named(("N",), ("N",)), samples(((4,), (3,)), ((4,),)), {}, []),
        (named(("N",), ("N",)), samples(((4,), ())), {}, []),
        (named(("N",), ("N",), ("N + 1",)), samples(((4,), (3,), (5,))), {}, []),
        # sizes that were asked for
        (named(("N",), ("N",)), samples(((4,), (3,))), {"dims": {"N": 4}}, []),
        (named(("N",), ("N",)), samples(((4,), (3,))), {"dims": {"N": 4, "N_2": 3}}, ["b0=N_2"]),
        (named(("N",), ("N",)), samples(((4,), (3,))), {"dims": {"N_2": 3}}, ["b0=N_2"]),
        (named(("N",), ("N",)), samples(((4,), (3,))), {"shapes": {"b": [3]}}, []),
    ],
)
def test_which_dimensions_get_a_name(inputs: Any, shapes: Any, request_: Any, expected: list[str]) -> None:
    found = names_by_samples(inputs, shapes, ShapeRequest(**request_))
    assert [f"{one.input}{one.axis}={one.name}" for one in found] == expected
    assert {one.dimension for one in found} <= {"N"}


@pytest.mark.parametrize(
    ("inputs", "shapes", "request_", "expected"),
    [
        (named((None, 3)), samples(((4, 3),), ((5, 3),)), {}, ["a0=a_0"]),
        (named((None, 3)), samples(((4, 3),), ((4, 3),)), {}, []),
        # square pictures; inputs of one length; a name that is taken
        (named((None, None)), samples(((4, 4),), ((5, 5),)), {}, ["a0=a_0", "a1=a_1"]),
        (named((None,), (None,)), samples(((4,), (4,)), ((5,), (5,))), {}, ["a0=a_0", "b0=a_0"]),
        (named((None,), (None,)), samples(((4,), (4,)), ((5,), (6,))), {}, ["a0=a_0", "b0=b_0"]),
        (named((None, "a_0")), samples(((4, 1),), ((5, 1),)), {}, ["a0=a_0_2"]),
        (named((None,)), samples(((4,),), ((5,),)), {"shapes": {"a": [4]}}, []),
    ],
)
def test_which_dimensions_without_a_name_get_one(inputs: Any, shapes: Any, request_: Any, expected: list[str]) -> None:
    found = names_by_samples(inputs, shapes, ShapeRequest(**request_), unnamed=True)
    assert [f"{one.input}{one.axis}={one.name}" for one in found] == expected
    assert names_by_samples(inputs, shapes, ShapeRequest(**request_)) == []


def test_a_size_may_be_asked_for_by_the_new_name(tmp_path: Path, onnx_file: OnnxFile) -> None:
    model, data = onnx_file(APART), drawn(tmp_path / "data", SIZES)
    bundle = edgekit.package(model, "ios18", tmp_path / "out", data=data, quantize="none", dims={"N_2": "2..3"})
    assert bundle.open_dims == {"N": range(4, 7), "N_2": range(2, 4)}
    assert SizeRange(4, 6).sizes == bundle.open_dims["N"]

"""Operations of ML Programs that coremltools writes, executed by Apple's runtime and compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb  # noqa: N813 - as everybody calls it
from coremltools.converters.mil.mil import types

import edgekit_coreai
from edgekit.errors import UnsupportedOpsError

RANDOM = np.random.default_rng(3)
TYPES = {np.dtype(np.float32): types.fp32, np.dtype(np.int32): types.int32}


def packaged(
    tmp_path: Path,
    build: Callable[..., Any],
    feeds: Mapping[str, np.ndarray],
    *,
    target: Any = ct.target.iOS18,
    inputs: Sequence[Any] | None = None,
) -> Path:
    """A package of the program that ``build`` writes for these inputs; ``inputs`` declares open sizes."""
    shapes = {item.name: item.shape.symbolic_shape for item in inputs or ()}
    specs = [mb.TensorSpec(shapes.get(name, array.shape), dtype=TYPES[array.dtype]) for name, array in feeds.items()]
    program = mb.program(input_specs=specs, opset_version=target)(build)
    model = ct.convert(program, inputs=inputs, minimum_deployment_target=target, compute_precision=ct.precision.FLOAT32)
    path = tmp_path / "model.mlpackage"
    model.save(str(path))
    return path


def executed(tmp_path: Path, build: Callable[..., Any], feeds: Mapping[str, np.ndarray], **named: Any) -> np.ndarray:
    """The program's only output."""
    (result,) = edgekit_coreai.load(packaged(tmp_path, build, feeds, **named)).run(feeds).values()
    return np.asarray(result)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("first", [(), (1, 1, 4), (1, 20, 4)])
@pytest.mark.parametrize("operation", ["add", "mul"])
def test_two_constants_in_a_row(tmp_path: Path, operation: str, first: tuple[int, ...]) -> None:
    """coreai-core 1.0.0b3 takes them together, and ended its process where the first one alone is broadcast."""
    x, one, other = numbers(1, 20, 4), numbers(*first), numbers(1, 20, 4)
    write = getattr(mb, operation)
    expected = x + one + other if operation == "add" else x * one * other
    found = executed(tmp_path, lambda x: write(x=write(x=x, y=one), y=other), {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stride", [(1, 1, -1), (-1, 1, -2), (2, -1, 1)])
@pytest.mark.parametrize("computed", [False, True])
def test_a_slice_is_replaced_backwards(tmp_path: Path, stride: tuple[int, int, int], computed: bool) -> None:
    """Of a slice that covers the whole tensor coreai-core 1.0.0b3 drops the strides' signs."""
    whole = numbers(2, 3, 4)
    slices = tuple(slice(None, None, step) for step in stride)
    update = numbers(*whole[slices].shape)
    begin, end, masks = np.zeros(3, np.int32), np.zeros(3, np.int32), [True] * 3
    options = {"stride": list(stride), "begin_mask": masks, "end_mask": masks}
    limits = {"begin": begin, "end": end}

    def between_inputs(x, update, begin, end):  # type: ignore[no-untyped-def]
        return mb.slice_update(x=x, update=update, begin=begin, end=end, **options)

    def between_constants(x, update):  # type: ignore[no-untyped-def]
        return mb.slice_update(x=x, update=update, **limits, **options)

    feeds = {"x": whole, "update": update}
    result = (
        executed(tmp_path, between_inputs, {**feeds, **limits})
        if computed
        else executed(tmp_path, between_constants, feeds)
    )
    expected = whole.copy()
    expected[slices] = update
    np.testing.assert_array_equal(result, expected)


def test_a_slice_between_computed_limits_is_replaced_backwards(tmp_path: Path) -> None:
    whole, update = numbers(7), numbers(2)

    def build(x, update, begin, end):  # type: ignore[no-untyped-def]
        return mb.slice_update(x=x, update=update, begin=begin, end=end, stride=[-2])

    feeds = {"x": whole, "update": update, "begin": np.array([-2], np.int32), "end": np.array([1], np.int32)}
    expected = whole.copy()
    expected[-2:1:-2] = update
    np.testing.assert_array_equal(executed(tmp_path, build, feeds), expected)


def test_zero_points_of_another_sign_than_the_weights_are_subtracted(tmp_path: Path) -> None:
    data, zeros = np.array([[-118, 58], [44, -91]], np.int8), np.uint8(177)
    scale = np.array([0.5, 0.25], np.float32)

    def build(x):  # type: ignore[no-untyped-def]
        weight = mb.constexpr_affine_dequantize(quantized_data=data, zero_point=zeros, scale=scale, axis=0)
        return mb.add(x=x, y=weight)

    result = executed(tmp_path, build, {"x": np.zeros((2, 2), np.float32)}, target=ct.target.iOS16)
    np.testing.assert_allclose(result, scale[:, None] * (data.astype(np.float64) - 177), rtol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_palette_that_is_itself_stored_in_integers_is_read(tmp_path: Path, sparse: bool) -> None:
    entries, scale = np.array([-7, -2, 3, 6], np.int8), np.float32(0.5)
    picked = RANDOM.integers(0, 4, (4, 6)).astype(np.uint8)
    mask = RANDOM.integers(0, 2, (4, 6)).astype(np.uint8) if sparse else np.ones((4, 6), np.uint8)
    types_of = {"indices": types.np_uint2_dtype, "mask": types.np_uint1_dtype}

    def build(x):  # type: ignore[no-untyped-def]
        lut = mb.constexpr_blockwise_shift_scale(data=entries.reshape(1, 1, 4, 1), scale=scale.reshape(1, 1, 1, 1))
        if not sparse:
            return mb.add(x=x, y=mb.constexpr_lut_to_dense(indices=picked.astype(types_of["indices"]), lut=lut))
        where, values = mb.constexpr_lut_to_sparse(
            indices_mask=mask.astype(types_of["mask"]),
            indices_nonzero_data=picked[mask == 1].astype(types_of["indices"]),
            lut=lut,
        )
        return mb.add(x=x, y=mb.constexpr_sparse_to_dense(nonzero_data=values, mask=where))

    result = executed(tmp_path, build, {"x": np.zeros((4, 6), np.float32)})
    np.testing.assert_array_equal(result, np.where(mask == 1, entries[picked] * scale, 0))


def test_a_list_grows_in_a_loop(tmp_path: Path) -> None:
    def build(count, row):  # type: ignore[no-untyped-def]
        def test(i, ls):  # type: ignore[no-untyped-def]
            return mb.less(x=i, y=mb.squeeze(x=count))

        def body(i, ls):  # type: ignore[no-untyped-def]
            return mb.add(x=i, y=1), mb.list_write(ls=ls, index=i, value=mb.mul(x=row, y=mb.cast(x=i, dtype="fp32")))

        _, found = mb.while_loop(_cond=test, _body=body, loop_vars=(0, mb.make_list(init_length=1, elem_shape=(2,))))
        return mb.list_gather(ls=found, indices=mb.range_1d(start=0, end=mb.list_length(ls=found), step=1))

    feeds = {"count": np.array([3], np.int32), "row": np.array([1, 2], np.float32)}
    np.testing.assert_array_equal(executed(tmp_path, build, feeds), [[0, 0], [1, 2], [2, 4]])


def test_a_list_grows_by_constant_indices(tmp_path: Path) -> None:
    def build(a, b):  # type: ignore[no-untyped-def]
        ls = mb.list_write(ls=mb.make_list(init_length=2, elem_shape=(2,)), index=4, value=b)
        return mb.list_gather(ls=mb.list_write(ls=ls, index=0, value=a), indices=[4, 0, 3])

    feeds = {"a": np.array([1, 3], np.float32), "b": np.array([2, 4], np.float32)}
    np.testing.assert_array_equal(executed(tmp_path, build, feeds), [[2, 4], [1, 3], [0, 0]])


def _points(mode: str, size: int, count: int) -> np.ndarray:
    """The formulas of MIL's documentation for ``sampling_mode``."""
    steps = np.arange(count)
    if mode == "DEFAULT":
        points = steps * size / count
    elif mode == "STRICT_ALIGN_CORNERS":
        points = steps * (size - 1) / max(count - 1, 1)
    elif mode == "ALIGN_CORNERS":
        points = np.array([(size - 1) / 2]) if count == 1 else steps * (size - 1) / (count - 1)
    elif mode == "OFFSET_CORNERS":
        points = (steps + 0.5) * max(size - 1, 1) / count
    else:
        points = (steps + 0.5) * size / count - 0.5
    return np.clip(points, 0, size - 1)


@pytest.mark.parametrize(
    "sampling", ["DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "OFFSET_CORNERS", "UNALIGN_CORNERS"]
)
def test_a_size_that_is_computed_is_resized_to(tmp_path: Path, sampling: str) -> None:
    x = numbers(1, 2, 1, 5)

    def build(x, shape):  # type: ignore[no-untyped-def]
        return mb.resize(
            x=x, shape=shape, resized_dims=np.uint32(1), interpolation_mode="LINEAR", sampling_mode=sampling
        )

    for count in (1, 3, 8):
        points = _points(sampling, 5, count)
        expected = np.stack([np.interp(points, np.arange(5), row) for row in x.reshape(2, 5)])
        result = executed(tmp_path, build, {"x": x, "shape": np.array([count], np.int32)})
        np.testing.assert_allclose(result.reshape(2, -1), expected, atol=1e-5)


def test_the_nearest_elements_of_a_computed_size(tmp_path: Path) -> None:
    x = numbers(1, 1, 4, 3)

    def build(x, shape):  # type: ignore[no-untyped-def]
        return mb.resize(x=x, shape=shape, resized_dims=np.uint32(2), interpolation_mode="NEAREST_NEIGHBOR")

    result = executed(tmp_path, build, {"x": x, "shape": np.array([8, 0], np.int32)})
    np.testing.assert_array_equal(result, np.repeat(x, 2, axis=2))


def test_an_open_size_is_scaled(tmp_path: Path) -> None:
    inputs = [ct.TensorType("x", shape=ct.Shape((1, 1, 2, ct.RangeDim(2, 9, default=4))))]

    def build(x):  # type: ignore[no-untyped-def]
        return mb.upsample_bilinear(x=x, scale_factor_height=1, scale_factor_width=2, align_corners=False)

    path = packaged(tmp_path, build, {"x": numbers(1, 1, 2, 4)}, inputs=inputs)
    for width in (4, 7):
        x = numbers(1, 1, 2, width)
        (result,) = edgekit_coreai.load(path).run({"x": x}).values()
        points = np.clip((np.arange(2 * width) + 0.5) / 2 - 0.5, 0, width - 1)
        expected = np.stack([np.interp(points, np.arange(width), row) for row in x[0, 0]])
        np.testing.assert_allclose(result[0, 0], expected, atol=1e-5)


def test_boxes_are_cut_out_of_as_many_images_as_there_are(tmp_path: Path) -> None:
    boxes = np.array([[0, 0, 1, 1], [1, 1, 2, 2]], np.float32).reshape(2, 1, 4, 1, 1)
    inputs = [ct.TensorType("x", shape=ct.Shape((ct.RangeDim(1, 4, default=2), 1, 4, 4)))]

    def build(x):  # type: ignore[no-untyped-def]
        return mb.crop_resize(x=x, roi=boxes, target_height=2, target_width=2, sampling_mode="ALIGN_CORNERS")

    path = packaged(tmp_path, build, {"x": numbers(2, 1, 4, 4)}, target=ct.target.iOS16, inputs=inputs)
    x = numbers(3, 1, 4, 4)
    (result,) = edgekit_coreai.load(path).run({"x": x}).values()
    np.testing.assert_allclose(result, np.stack([x[:, :, :2, :2], x[:, :, 1:3, 1:3]]), atol=1e-6)


def test_a_result_of_unknown_rank_is_a_gap(tmp_path: Path) -> None:
    inputs = [ct.TensorType("shape", shape=ct.Shape((ct.RangeDim(1, 3, default=2),)), dtype=np.int32)]

    def build(shape):  # type: ignore[no-untyped-def]
        return mb.fill(shape=shape)

    path = packaged(tmp_path, build, {"shape": np.array([2, 1], np.int32)}, inputs=inputs)
    with pytest.raises(UnsupportedOpsError, match=r"fill \(node 'fill_0'\): its result has no known rank"):
        edgekit_coreai.load(path)

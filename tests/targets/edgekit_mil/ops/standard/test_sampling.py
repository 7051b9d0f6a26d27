from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import edgekit_coreml


def grid_for(rng, *shape, reach=1.6):
    return rng.uniform(-reach, reach, shape).astype(np.float32)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize(
    ("mode", "padding"),
    [
        *((mode, padding) for mode in ("linear", "nearest") for padding in ("zeros", "border", "reflection")),
        ("cubic", "zeros"),
        ("cubic", "reflection"),
    ],
)
def test_grid_sample_agrees_with_pytorch(lower, rng, mode, padding, align_corners):
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    grid = grid_for(rng, 2, 3, 6, 2)
    (result,) = lower("GridSample", [x, grid], fed=(0, 1), mode=mode, padding_mode=padding, align_corners=align_corners)
    torch_mode = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}[mode]
    expected = torch.nn.functional.grid_sample(
        torch.from_numpy(x),
        torch.from_numpy(grid),
        mode=torch_mode,
        padding_mode=padding,
        align_corners=bool(align_corners),
    )
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_grid_sample_of_volumes(agrees, rng, mode, padding):
    x = rng.standard_normal((1, 2, 3, 4, 2)).astype(np.float32)
    grid = grid_for(rng, 1, 2, 2, 3, 3)
    agrees("GridSample", [x, grid], fed=(0, 1), against="reference", mode=mode, padding_mode=padding)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_grid_sample_of_one_row(agrees, rng, mode, padding, align_corners):
    x = rng.standard_normal((1, 2, 1, 4)).astype(np.float32)
    settings = {"mode": mode, "padding_mode": padding, "align_corners": align_corners}
    agrees("GridSample", [x, grid_for(rng, 1, 3, 2, 2)], fed=(0, 1), **settings)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_by_the_names_of_version_16(agrees, rng, mode):
    x = rng.standard_normal((1, 2, 3, 4)).astype(np.float32)
    agrees("GridSample", [x, grid_for(rng, 1, 2, 3, 2)], fed=(0, 1), opset=16, mode=mode)


@pytest.mark.parametrize("aligned", [0, 1])
def test_cubic_grid_sample_at_a_border_is_as_pytorch_computes_it(lower, rng, aligned):
    """It puts the elements inside; ONNX's reference puts the place between them inside."""
    x, grid = rng.standard_normal((1, 2, 3, 4)).astype(np.float32), grid_for(rng, 1, 2, 3, 2)
    (result,) = lower("GridSample", [x, grid], fed=(0, 1), mode="cubic", padding_mode="border", align_corners=aligned)
    expected = torch.nn.functional.grid_sample(
        torch.from_numpy(x), torch.from_numpy(grid), "bicubic", "border", align_corners=bool(aligned)
    )
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_grid_sample_far_outside(lower):
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    grid = np.array([[[[1e9, 0.0], [-1e9, -1e9], [0.0, 0.0]]]], np.float32)
    (result,) = lower("GridSample", [x, grid], fed=(0, 1), mode="cubic")
    assert result[0, 0, 0, 0] == 0
    assert result[0, 0, 0, 1] == 0
    assert result[0, 0, 0, 2] != 0


@pytest.mark.parametrize(
    ("group", "offset_group", "masked", "settings"),
    [
        (1, 1, True, {}),
        (2, 1, False, {"pads": [1, 0, 1, 0]}),
        (1, 2, True, {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 1, 1, 1]}),
    ],
)
def test_deformable_convolution(agrees, rng, group, offset_group, masked, settings):
    x = rng.standard_normal((2, 4, 6, 7)).astype(np.float32)
    w = rng.standard_normal((6, 4 // group, 3, 2)).astype(np.float32)
    b = rng.standard_normal(6).astype(np.float32)
    strides = settings.get("strides", [1, 1])
    dilations = settings.get("dilations", [1, 1])
    pads = settings.get("pads", [0, 0, 0, 0])
    height = (6 + 2 * pads[0] - (2 * dilations[0] + 1)) // strides[0] + 1
    width = (7 + 2 * pads[1] - (dilations[1] + 1)) // strides[1] + 1
    offset = rng.uniform(-3, 3, (2, offset_group * 6 * 2, height, width)).astype(np.float32)
    mask = rng.uniform(0, 1, (2, offset_group * 6, height, width)).astype(np.float32) if masked else None
    agrees(
        "DeformConv",
        [x, w, offset, b, mask],
        fed=(0, 2),
        against="reference",
        rtol=1e-4,
        atol=1e-4,
        group=group,
        offset_group=offset_group,
        **settings,
    )


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [[1, 3, 4, 5], [2, 1, 6, 3], [1, 2, 3, 4, 5], [2, 2, 2, 4, 3]])
def test_grid_of_an_affine_map_agrees(agrees, rng, size, align):
    dims = len(size) - 2
    theta = rng.standard_normal((size[0], dims, dims + 1)).astype(np.float32)
    agrees("AffineGrid", [theta, np.array(size)], opset=20, align_corners=align)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("depth", [(), (2,)])
def test_grid_of_an_affine_map_for_pictures_of_any_size(tmp_path, rng, depth, align):
    dims = len(depth) + 2
    rest = ", ".join(map(str, depth))
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[B, 3, {rest}{"," if depth else ""} H, W] x, float[B, {dims}, {dims + 1}] theta)
        => (float[B, {rest}{"," if depth else ""} H, W, {dims}] y)
        {{ size = Shape (x) y = AffineGrid <align_corners = {align}> (theta, size) }}""")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    dimensions = {"B": range(1, 4), "H": range(1, 9), "W": range(1, 9)}
    runner = edgekit_coreml.load(
        edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    )
    for batch, height, width in ((1, 4, 5), (3, 8, 2), (2, 1, 3)):
        theta = rng.standard_normal((batch, dims, dims + 1)).astype(np.float32)
        feeds = {"x": np.zeros((batch, 3, *depth, height, width), np.float32), "theta": theta}
        (expected,) = session.run(None, feeds)
        np.testing.assert_allclose(runner.run(feeds)["y"], expected, rtol=1e-5, atol=1e-6)

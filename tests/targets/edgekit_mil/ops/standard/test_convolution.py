from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import numpy_helper, parser
from torch.nn import functional

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 0, 2, 0, 1, 1]},
        {"strides": [2, 3, 1], "pads": [1, 1, 1, 1, 1, 1]},
        {"dilations": [2, 1, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2, 2]},
        {"auto_pad": "VALID"},
        {"group": 2},
    ],
    ids=str,
)
def test_conv_agrees(agrees, rng, rank, attributes):
    cut = {name: value[:rank] for name, value in attributes.items() if name in ("strides", "dilations")}
    if "pads" in attributes:
        cut["pads"] = attributes["pads"][:rank] + attributes["pads"][3 : 3 + rank]
    group = attributes.get("group", 1)
    x, w = normal(rng, 2, 4, *[8, 7, 6][:rank]), normal(rng, 6, 4 // group, *[3, 2, 3][:rank])
    agrees("Conv", [x, w, normal(rng, 6)], atol=1e-4, **{**attributes, **cut})


def test_depthwise_conv_agrees(agrees, rng):
    agrees("Conv", [normal(rng, 1, 5, 9, 9), normal(rng, 5, 1, 3, 3)], group=5, pads=[1, 1, 1, 1], atol=1e-4)


@pytest.mark.parametrize("dilations", [[1, 1], [2, 3]])
def test_computed_weights_and_bias_agree(agrees, rng, dilations):
    inputs = [normal(rng, 1, 3, 9, 9), normal(rng, 4, 3, 3, 2), normal(rng, 4)]
    agrees("Conv", inputs, fed=(0, 1, 2), dilations=dilations, atol=1e-4)


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_computed_weights_of_one_element_have_no_holes(agrees, rng, op_type):
    inputs = [normal(rng, 1, 3, 6, 6), normal(rng, 3, 3, 1, 1)]
    agrees(op_type, inputs, fed=(0, 1), dilations=[2, 3], atol=1e-4)


def test_transposed_convolution_by_computed_weights_is_refused_before_ios_17(lower, rng):
    with pytest.raises(UnsupportedOpsError, match="weights that the program computes need iOS 17"):
        lower("ConvTranspose", [normal(rng, 1, 4, 6), normal(rng, 4, 4, 2)], fed=(0, 1), target="iOS16")


@pytest.mark.parametrize(("group", "rows"), [(3, 4), (0, 4), (2, 6), (1, 3)])
def test_transposed_convolution_whose_groups_do_not_share_the_channels_is_refused(lower, rng, group, rows):
    with pytest.raises(UnsupportedOpsError, match=f"has 4 channels in {group} groups, and weights for {rows}"):
        lower("ConvTranspose", [normal(rng, 1, 4, 6), normal(rng, rows, 2, 2)], fed=(0, 1), group=group)


def test_four_spatial_dimensions_are_refused(lower, rng):
    with pytest.raises(UnsupportedOpsError, match="4 spatial dimensions"):
        lower("Conv", [normal(rng, 1, 1, 3, 3, 3, 3), normal(rng, 1, 1, 1, 1, 1, 1)])


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3]},
        {"strides": [2, 2], "pads": [1, 0, 0, 1]},
        {"strides": [3, 3], "output_padding": [1, 2]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 2], "output_shape": [11, 13]},
        {"strides": [3, 4], "output_shape": [17, 26]},
        {"strides": [3, 4], "output_shape": [16, 25], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"strides": [4, 5], "auto_pad": "SAME_UPPER"},
        {"strides": [4, 5], "auto_pad": "SAME_LOWER"},
        {"dilations": [2, 3]},
        {"group": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
def test_conv_transpose_agrees(agrees, rng, attributes, fed):
    group = attributes.get("group", 1)
    inputs = [normal(rng, 2, 4, 5, 6), normal(rng, 4, 6 // group, 3, 3), normal(rng, 6)]
    agrees("ConvTranspose", inputs, fed=fed, atol=1e-4, **attributes)


@pytest.mark.parametrize(
    ("shape", "attributes"), [("N, 4, 5, 6", "output_shape = [11, 13]"), ("1, 4, N, 6", 'auto_pad = "SAME_LOWER"')]
)
def test_conv_transpose_of_open_sizes_agrees(rng, shape, attributes, tmp_path):
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[{shape}] x) => (float[A, B, C, D] y) '
        f"{{ y = ConvTranspose <strides = [2, 2], {attributes}> (x, w) }}"
    )
    model.graph.initializer.append(numpy_helper.from_array(normal(rng, 4, 3, 3, 3), "w"))
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"N": range(1, 4)})
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in (1, 3):
        feeds = {"x": normal(rng, *(int(each) for each in shape.replace("N", str(size)).split(",")))}
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("spatial", [(7,), (3, 4, 5)])
def test_conv_transpose_agrees_in_other_ranks(agrees, rng, spatial):
    rank = len(spatial)
    agrees(
        "ConvTranspose", [normal(rng, 1, 2, *spatial), normal(rng, 2, 3, *[2] * rank)], strides=[2] * rank, atol=1e-4
    )


@pytest.mark.parametrize(
    "attributes",
    [{}, {"strides": [2, 2]}, {"dilations": [2, 1]}, {"pads": [1, 0, 1, 1]}, {"strides": [2, 3], "pads": [1, 1, 1, 1]}],
    ids=str,
)
def test_col2im_agrees_with_torch(lower, rng, attributes):
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0, 0, 0, 0])
    image, block = (7, 8), (2, 3)
    counts = [
        (size + pads[axis] + pads[axis + 2] - (block[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
        for axis, size in enumerate(image)
    ]
    x = normal(rng, 2, 3 * 6, counts[0] * counts[1])
    (actual,) = lower("Col2Im", [x, np.array(image), np.array(block)], **attributes)
    padded = (image[0] + pads[0] + pads[2], image[1] + pads[1] + pads[3])
    expected = functional.fold(torch.tensor(x), padded, block, dilation=tuple(dilations), stride=tuple(strides))
    cropped = expected[:, :, pads[0] : pads[0] + image[0], pads[1] : pads[1] + image[1]]
    np.testing.assert_allclose(actual, cropped, rtol=1e-5, atol=1e-5)

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_coreml
from edgekit.errors import InputError
from edgekit_mil.passes.palette import palette


@pytest.mark.parametrize("size", [20_000, 200_000])
@pytest.mark.parametrize(("count", "decibels"), [(16, 20.22), (64, 31.89), (256, 43.83)])
def test_a_palette_of_normally_distributed_numbers_is_as_good_as_can_be(size: int, count: int, decibels: float) -> None:
    # The best quantizers of a normal distribution: J. Max, "Quantizing for minimum distortion", 1960, for 16 levels;
    # 6.02 dB a bit less 4.35 dB (Panter and Dite) for many. A sample is met a little better than the distribution.
    weights = np.random.default_rng(0).standard_normal(size)
    levels, indices = palette(weights, count)
    noise = np.mean((levels[indices] - weights) ** 2)
    assert 10 * np.log10(1 / noise) > decibels - 0.15


def test_a_palette_holds_few_values_exactly() -> None:
    weights = np.array([[0.5, -1.0], [3.0, 0.5]])
    levels, indices = palette(weights, 16)
    np.testing.assert_array_equal(levels[indices], weights)
    assert len(levels) == 16


@pytest.fixture
def network(rng: np.random.Generator) -> onnx.ModelProto:
    """Every kind of weight that is compressed, large enough to be."""
    weights = {
        "kernel": rng.standard_normal((64, 32, 3, 3)) * 0.06,
        "back": rng.standard_normal((64, 8, 2, 2)) * 0.1,
        "matrix": rng.standard_normal((128, 96)) * 0.1,
        "rows": rng.standard_normal((96, 128)) * 0.1,
    }
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[1, 32, 4, 4] x) => (float[1, 8, 128] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, kernel)
        b = ConvTranspose <strides = [2, 2]> (a, back)
        shape = Constant <value_ints = [1, 4, 128]> ()
        c = Reshape (b, shape)
        d = MatMul (c, matrix)
        e = Transpose <perm = [0, 2, 1]> (d)
        half = Constant <value_ints = [1, 8, 48]> ()
        g = Reshape (e, half)
        h = Concat <axis = 2> (g, g)
        y = MatMul (h, rows)
        }"""
    )
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()
    )
    return model


def size(package: Path) -> int:
    return sum(file.stat().st_size for file in package.rglob("weight.bin"))


SQNR = {"palette8": 35, "palette6": 23, "palette4": 11, "int4-weights": 11}
"""In dB: 6.02 per bit, minus 4.35 for normally distributed weights, 6 for four layers' noise, and 3 for chance."""


@pytest.mark.parametrize(
    ("scheme", "target", "bits"),
    [
        ("palette8", "iOS16", 8),
        ("palette6", "iOS16", 6),
        ("palette4", "iOS17", 4),
        ("palette8", "iOS18", 8),
        ("palette6", "iOS18", 6),
        ("palette4", "iOS18", 4),
        ("int4-weights", "iOS18", 4),
    ],
)
def test_weights_shrink_to_their_bits(
    scheme: str, target: str, bits: int, network: onnx.ModelProto, tmp_path: Path, rng: np.random.Generator
) -> None:
    feeds = {"x": rng.standard_normal((1, 32, 4, 4), dtype=np.float32)}
    packages = {
        compression: edgekit_coreml.convert(
            network, tmp_path / str(compression), precision="float32", deployment_target=target, compression=compression
        )
        for compression in (None, scheme)
    }
    want, got = (edgekit_coreml.load(package).run(feeds)["y"] for package in packages.values())
    share = bits / 32 + (1 / 32 if scheme == "int4-weights" else 0.035)  # a scale for 32 numbers, or the palettes
    assert size(packages[scheme]) < share * size(packages[None])
    assert 10 * np.log10(np.sum(want**2) / np.sum((want - got) ** 2)) > SQNR[scheme]


def test_small_weights_stay(tmp_path: Path, rng: np.random.Generator) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[1, 8] x) => (float[1, 8] y) { y = MatMul (x, w) }"""
    )
    weights = rng.standard_normal((8, 8), dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    x = rng.standard_normal((1, 8), dtype=np.float32)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", compression="palette4")
    np.testing.assert_allclose(edgekit_coreml.load(package).run({"x": x})["y"], x @ weights, rtol=1e-5)


def test_compression_that_the_system_lacks_is_refused(network: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"int4-weights.*\nexpected: palette4 . palette6 . palette8\nfound: iOS17"):
        edgekit_coreml.convert(network, tmp_path / "m", deployment_target="iOS17", compression="int4-weights")

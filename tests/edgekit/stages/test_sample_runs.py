"""A model that does not run on its own samples is told of by the sample, in one way in all commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit as api
from edgekit.errors import EdgeKitError, RequirementError

BAKED = """
g (float[1, seq, 4] x) => (float[1, 64] y)
<int64[2] shape = {1, 64}> { y = Reshape(x, shape) }
"""
"""An exporter saw 16 steps, and wrote 16·4 into a constant."""

STEPS = """
g (float[1, seq, 4] x) => (float[4, 16] y)
<int64[3] shape = {16, 4, 1}, int64[2] flat = {4, 16}, int64[1] last = {2}> {
    t = Reshape(x, shape)
    s = Squeeze(t, last)
    y = Reshape(s, flat)
}
"""


def samples(folder: Path, *steps: int, width: int = 4) -> Path:
    folder.mkdir()
    for number, size in enumerate(steps):
        x = np.random.default_rng(number).normal(size=(1, size, width)).astype(np.float32)
        np.savez(folder / f"{number}.npz", x=x)
    return folder


@pytest.mark.parametrize("graph", [BAKED, STEPS])
def test_every_command_names_the_sample(onnx_file: Callable[..., Path], tmp_path: Path, graph: str) -> None:
    model, data = onnx_file(graph), samples(tmp_path / "data", *[40] * 8)
    commands = [
        lambda: api.package(model, "ort", tmp_path / "out", data=data),
        lambda: api.package(model, "ort", tmp_path / "out", verify_data=data),
        lambda: api.quantize(model, tmp_path / "q.onnx", data=data),
        lambda: api.quantize(model, tmp_path / "q.onnx", data=data, target="ort"),
        lambda: api.quantize(model, tmp_path / "q.onnx", data=data, scheme="int8"),
    ]
    told = set()
    for command in commands:
        with pytest.raises(RequirementError, match="the model as it was exported does not run on the sample") as error:
            command()
        assert error.value.exit_code == 1
        told.add((error.value.subject, error.value.found, error.value.expected, error.value.hint))
    assert len(told) == 1
    ((subject, found, expected, hint),) = told
    assert subject == str(data / "0.npz")
    assert found.startswith("x 1×40×4; ")
    if graph is STEPS:
        assert expected == "seq = 16, which the model does run with"
        assert hint is not None
        assert "export it again so that the size stays free" in hint
    assert not (tmp_path / "q.onnx").exists()


def test_a_later_sample_fails_where_all_sizes_count_and_is_left_out_elsewhere(
    onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    weights = ", ".join(str(each) for each in np.random.default_rng(0).normal(size=64 * 64).round(3))
    graph = f"""
    g (float[1, seq, 64] x) => (float[16, 64] y)
    <float[64, 64] w = {{{weights}}}, int64[2] shape = {{16, 64}}> {{
        m = MatMul(x, w)
        y = Reshape(m, shape)
    }}
    """
    model, data = onnx_file(graph), samples(tmp_path / "data", 16, 40, *[16] * 6, width=64)
    with pytest.raises(RequirementError) as error:
        api.quantize(model, tmp_path / "q.onnx", data=data)
    assert error.value.subject == str(data / "1.npz")
    assert not (tmp_path / "q.onnx").exists()
    left = api.quantize(model, tmp_path / "q.onnx", data=data, target="android-xnnpack")
    assert any("1 of 8 samples are left out" in warning for warning in left.warnings)
    asked = api.quantize(model, tmp_path / "q.onnx", data=data, dims={"seq": 16})
    assert asked.scheme == "int8"


TOKENS = """
g (int64[1, seq] ids, int64[1, seq] mask) => (float[1, seq, 2] y)
<float[4, 2] words = {0.5, 1, -1, 2, 3, -2, 1, 1},
 float[8, 2] places = {0, 1, 1, 0, 2, 1, 0, 3, 1, 1, 2, 2, 4, 1, 0, 5},
 int64[1] one = {1}, int64[1] zero = {0}, int64[1] two = {2}> {
    rows = Gather <axis = 0> (words, ids)
    shape = Shape (ids)
    steps = Gather <axis = 0> (shape, one)
    near = Slice (places, zero, steps, zero)
    there = Add (rows, near)
    factor = Cast <to = 1> (mask)
    column = Unsqueeze (factor, two)
    y = Mul (there, column)
}
"""
"""Four words in eight places."""


def tokens(folder: Path, *rows: tuple[list[int], int]) -> Path:
    folder.mkdir()
    for number, (ids, length) in enumerate(rows):
        np.savez(folder / f"{number}.npz", ids=np.array([ids]), mask=np.ones((1, length), np.int64))
    return folder


class TestTokens:
    """What is wrong with the numbers and the lengths of a text is told as such."""

    @pytest.fixture
    def model(self, onnx_file: Callable[..., Path]) -> Path:
        return onnx_file(TOKENS)

    @pytest.fixture(params=["package", "quantize"])
    def refused(self, request: pytest.FixtureRequest, model: Path, tmp_path: Path) -> Callable[[Path], EdgeKitError]:
        def command(data: Path) -> object:
            if request.param == "package":
                return api.package(model, "ort", tmp_path / "out", data=data, quantize="none")
            return api.quantize(model, tmp_path / "q.onnx", data=data, scheme="int8")

        def run(data: Path) -> EdgeKitError:
            with pytest.raises(EdgeKitError) as error:
                command(data)
            return error.value

        return run

    def test_a_number_that_no_table_has(self, refused: Callable[[Path], EdgeKitError], tmp_path: Path) -> None:
        data = tokens(tmp_path / "data", *[([1, 2, 3], 3)] * 5, ([1, 9, 3], 3))
        error = refused(data)
        assert (error.subject, error.expected) == (
            str(data / "5.npz"),
            "ids: numbers below 4; the greatest is 9",
        )
        assert "idx=9 must be within" in (error.found or "")
        assert error.hint == (
            "the model's table has no row for that number: give numbers from the list that the model was trained with"
        )

    def test_a_text_that_is_too_long(self, refused: Callable[[Path], EdgeKitError], tmp_path: Path) -> None:
        data = tokens(tmp_path / "data", ([1] * 5, 5), ([2] * 13, 13))
        error = refused(data)
        assert (error.subject, error.expected) == (
            str(data / "1.npz"),
            "seq = 8 at most, which the model does run with",
        )
        assert error.hint == (
            "cut the samples to that size, or export the model with longer tables, for example of positions"
        )

    def test_two_lengths_of_one_name(self, refused: Callable[[Path], EdgeKitError], tmp_path: Path) -> None:
        data = tokens(tmp_path / "data", ([1, 2, 3], 3), ([1, 2, 3], 2))
        error = refused(data)
        assert str(error) == (
            f"{data / '1.npz'}: the sample has two sizes for dimension 'seq'\n"
            "expected: 3 in input 'mask', as in input 'ids'\n"
            "found: 2\n"
            "hint: the model does not run on it: give the inputs one size"
        )

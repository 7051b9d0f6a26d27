"""Which products of integers a device of 32 bits is warned of."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.operators.wide_products import wide_products


def warnings_of(body: str) -> list[str]:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\ng {body}')
    return wide_products(infer_shapes(Model(ir.from_proto(proto)), strict=False))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "(int64[3] x) => (int64[3] y) <int64 k = {-73856093}, int64 m = {10007}>"
            " { [p] p = Mul (x, k) y = Mod (p, m) }",
            "node 'p' multiplies 64-bit integers by 73856093: the device computes in 32 bits, and gives other "
            "numbers if the other factor is beyond 29",
        ),
        (
            "(float[3] x) => (int64[3] y) <int64[3] k = {1, 65536, 70000}>"
            " { i = Cast <to = 7> (x) [p] y = Mul (k, i) }",
            "node 'p' multiplies 64-bit integers by 70000: the device computes in 32 bits, and gives other numbers "
            "if the other factor is beyond 30678",
        ),
        (
            '(uint64[3] x) => (uint64[3] y) <uint64 k = {20}> { [p] y = BitShift <direction = "LEFT"> (x, k) }',
            "node 'p' multiplies 64-bit integers by 1048576: the device computes in 32 bits, and gives other "
            "numbers if the other factor is beyond 2047",
        ),
        (
            "(int64[3] x) => (int64[3] y) <int64 k = {70000}, int64 j = {80000}>"
            " { [p] p = Mul (x, k) [q] q = Mul (x, j) y = Add (p, q) }",
            "node 'q', one of 2 such nodes, multiplies 64-bit integers by 80000: the device computes in 32 bits, "
            "and gives other numbers if the other factor is beyond 26843",
        ),
    ],
)
def test_factors_as_hashes_have_them_are_told(body: str, told: str) -> None:
    assert warnings_of(body) == [told]


@pytest.mark.parametrize(
    "body",
    [
        "(int64[3] x) => (int64[3] y) <int64 k = {1000}> { y = Mul (x, k) }",
        "(int32[3] x) => (int32[3] y) <int32 k = {73856093}> { y = Mul (x, k) }",
        "(float[N] x) => (int64[1] y) <int64 k = {73856093}> { s = Shape (x) y = Mul (s, k) }",
        '(uint64[3] x) => (uint64[3] y) <uint64 k = {20}> { y = BitShift <direction = "RIGHT"> (x, k) }',
        "(int32[3] x) => (int32[3] y) { y = Mul (x, x) }",
    ],
    ids=["small", "32 bits", "sizes", "to the right", "no factor"],
)
def test_other_products_are_not(body: str) -> None:
    assert warnings_of(body) == []


TWO = "(int64[3, 3] x, int64[3, 3] z) => (int64[3, 3] y)"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (f"{TWO} {{ [p] y = Mul (x, z) }}", "'p' multiplies 64-bit integers with each other"),
        (
            f"{TWO} {{ a = Add (x, z) s = Sub (a, x) [p] y = Mul (s, s) }}",
            "'p' multiplies 64-bit integers with each other",
        ),
        (f"{TWO} {{ [p] y = MatMul (x, z) }}", "'p' multiplies matrices of 64-bit integers"),
        (f"{TWO} {{ [p] y = Gemm (x, z) }}", "'p' multiplies matrices of 64-bit integers"),
        (f"{TWO} <int64 k = {{3}}> {{ [p] y = Pow (x, k) }}", "'p' raises 64-bit integers to a power"),
        (f"{TWO} <int64 k = {{1}}> {{ [p] y = CumSum (x, k) }}", "'p' adds up 64-bit integers"),
        (
            f"{TWO} <int64[1] k = {{1}}> {{ [p] y = ReduceProd (x, k) }}",
            "'p' multiplies 64-bit integers with each other",
        ),
        (
            "(int32[3] x) => (int64[3] y) { w = Cast <to = 7> (x) [p] y = Mul (w, w) }",
            "'p' multiplies 64-bit integers with each other",
        ),
        (
            f"{TWO} <int64 k = {{1}}> {{ [p] p = Mul (x, z) [q] y = CumSum (p, k) }}",
            "'p', one of 2 such nodes, multiplies 64-bit integers with each other",
        ),
    ],
)
def test_integers_of_any_size_that_are_multiplied_or_added_up_are_told(body: str, what: str) -> None:
    assert warnings_of(body) == [
        f"node {what}: the device computes in 32 bits, and gives other numbers where one is beyond 2147483647"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "(int64[1, 6] attention_mask) => (int64[1, 6] y) <int64 k = {1}> { y = CumSum (attention_mask, k) }",
        "(int64[1, 6] x) => (int64[1, 6] y, bool[1, 6] b) <int64 k = {1}> { b = Cast <to = 9> (x) y = CumSum (x, k) }",
        "(int64[6, 1] x) => (bool[6, 6] y) { t = Transpose (x) m = Mul (x, t) y = Cast <to = 9> (m) }",
        "(int64[1, 6] x, int64[1, 9] z) => (bool[1, 9] y) <int64 k = {1}, int64 two = {2}, int64 last = {5}>"
        " { c = CumSum (x, k) n = Gather <axis = 1> (c, last) h = Div (n, two) y = Less (z, h) }",
        "(int64[1, 6] x) => (int64[1, 6] y) <int64 k = {1}, int64 pad = {0}>"
        " { e = Equal (x, pad) n = Not (e) m = Cast <to = 7> (n) c = CumSum (m, k) y = Mul (c, m) }",
        "(int64[1, 6] x) => (int64[1, 6] y, float[1, 6, 4] z) <float[9, 4] table = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,"
        " 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}>"
        " { z = Gather (table, x) y = Mul (x, x) }",
        "(int64[2, 6] x, float[9, 4] f) => (int64[2, 6] y, float[2, 6, 4] z) { z = Gather (f, x) y = Mul (x, x) }",
        "(float[N, M] x) => (int64[1] y) <int64[1] i = {0}, int64[1] j = {1}>"
        " { s = Shape (x) n = Gather (s, i) m = Gather (s, j) y = Mul (n, m) }",
        "(float[6] x) => (int64[6] y) <int64 k = {0}> { i = Cast <to = 7> (x) y = CumSum (i, k) }",
        "(int64[6] x) => (int64[6] y) <int64 k = {1}> { y = Pow (x, k) }",
        "(int64[6] x, uint8[6] z) => (int64[6] y) { w = Cast <to = 7> (z) y = Mul (x, w) }",
        "(int64[6] x, int64[6] z) => (int64[6] y) <int64 m = {10007}> { a = Mod (x, m) b = Mod (z, m) y = Mul (a, b) }",
    ],
    ids=[
        "a mask by its name",
        "a mask that is made true or false",
        "a mask of pairs",
        "a mask that is counted",
        "positions",
        "ids",
        "edges",
        "sizes",
        "durations",
        "a power of 1",
        "a picture",
        "remainders",
    ],
)
def test_what_is_small_is_not(body: str) -> None:
    assert warnings_of(body) == []

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
            "node 'p' multiplies 64-bit integers by 73856093: the device computes in 32 bits, and gives other numbers"
            " where what is multiplied is beyond 29",
        ),
        (
            "(float[3] x) => (int64[3] y) <int64[3] k = {1, 65536, 70000}>"
            " { i = Cast <to = 7> (x) [p] y = Mul (k, i) }",
            "node 'p' multiplies 64-bit integers by 70000: the device computes in 32 bits, and gives other numbers"
            " where what is multiplied is beyond 30678",
        ),
        (
            '(uint64[3] x) => (uint64[3] y) <uint64 k = {20}> { [p] y = BitShift <direction = "LEFT"> (x, k) }',
            "node 'p' multiplies 64-bit integers by 1048576: the device computes in 32 bits, and gives other numbers"
            " where what is multiplied is beyond 2047",
        ),
        (
            "(int64[3] x) => (int64[3] y) <int64 k = {70000}, int64 j = {80000}>"
            " { [p] p = Mul (x, k) [q] q = Mul (x, j) y = Add (p, q) }",
            "node 'q', one of 2 such nodes, multiplies 64-bit integers by 80000: the device computes in 32 bits, and"
            " gives other numbers where what is multiplied is beyond 26843",
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
        "(int64[3] x) => (int64[3] y) { y = Mul (x, x) }",
    ],
    ids=["small", "32 bits", "sizes", "to the right", "no factor"],
)
def test_other_products_are_not(body: str) -> None:
    assert warnings_of(body) == []

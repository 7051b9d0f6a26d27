"""Which values of a changed graph are claimed to be those of the graph before."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_ir as ir

from edgekit.execution.equivalence import Equivalence
from edgekit.execution.value_numbers import Comparison
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

BEFORE = "g (int64[6] x) => (int64[N] y, int64[N] k) { z = Abs (x) t = Identity (z) y, , p, k = Unique (t) }"
AFTER = "g (int64[6] x) => (int64[N] y, int64[N] k) { n = Neg (x) z = Max (x, n) y, , p, k = Unique <sorted = 1> (z) }"


def test_outputs_that_are_left_out_have_no_name_to_be_claimed_by(onnx_model: OnnxModel) -> None:
    before, after = (Model(ir.from_proto(onnx_model(text))) for text in (BEFORE, AFTER))
    claims = list(Comparison(before, after, set()).claims())
    assert {claim.name for claim in claims} == {"z", "y", "p", "k"}
    assert Equivalence(before).difference_since(before, after) is None

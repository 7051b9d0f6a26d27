import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.numbers.bounded import bounded_outputs
from edgekit.model import Model


@pytest.mark.parametrize(
    ("body", "is_bounded"),
    [
        ("y = Softmax (x)", True),
        ("e = Exp (x) s = ReduceSum (e, last) d = Div (e, s) y = Identity (d)", True),
        ("e = Exp (x) s = ReduceSum (e, last) l = Log (s) y = Sub (x, l)", False),
        ("y = Div (x, x)", False),
    ],
)
def test_outputs_between_zero_and_one(body: str, is_bounded: bool) -> None:
    head = '<ir_version: 9, opset_import: ["": 17]> g (float[1, 3] x) => (float[1, 3] y) <int64[1] last = {-1}>'
    model = Model(ir.from_proto(onnx.parser.parse_model(f"{head} {{ {body} }}")))
    assert bounded_outputs(model) == ({"y"} if is_bounded else set())

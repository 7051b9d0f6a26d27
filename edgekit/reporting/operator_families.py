"""Families of operators by what they do, so that a graph's colors distinguish a convolution from a reshape."""

from __future__ import annotations

PRODUCTS, RECURRENT, NORMALIZATION = "products", "recurrence, control", "normalization"
ACTIVATION, POOLING, ELEMENTWISE = "activation", "pooling, reduction", "elementwise"
MOVES, TYPES, OTHER = "moves data", "changes type", "other"

COMPUTING = frozenset({PRODUCTS, RECURRENT})
"""Families whose operators compute with weights."""

_TABLE = {
    RECURRENT: "Loop Scan If",
    ACTIVATION: """
        Relu LeakyRelu PRelu Elu Selu Celu Gelu FastGelu QuickGelu BiasGelu Sigmoid HardSigmoid HardSwish Swish Mish
        Softplus Softsign Softmax LogSoftmax Hardmax Tanh Clip ThresholdedRelu Erf
    """,
    MOVES: """
        Reshape Transpose Flatten Squeeze Unsqueeze Slice Split Concat Gather GatherElements GatherND Pad Expand Tile
        Resize Upsample DepthToSpace SpaceToDepth Shape Size Identity ScatterND ScatterElements Scatter Trilu Compress
        ReverseSequence GridSample CenterCropPad Col2Im Where OneHot NonZero Range ConstantOfShape Constant
    """,
    TYPES: "QuantizeLinear DequantizeLinear DynamicQuantizeLinear Cast CastLike BitCast",
    ELEMENTWISE: """
        Add Sub Mul Div Pow Sqrt Exp Log Abs Neg Sign Min Max Mean Sum Mod Floor Ceil Round Reciprocal Sin Cos Tan Asin
        Acos Atan Sinh Cosh Asinh Acosh Atanh Equal Less LessOrEqual Greater GreaterOrEqual And Or Not Xor IsNaN IsInf
        BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot
    """,
}
_FAMILIES = {name: family for family, names in _TABLE.items() for name in names.split()}
_PARTS_OF_NAMES = (
    (RECURRENT, ("LSTM", "GRU", "RNN")),
    (NORMALIZATION, ("Norm", "LRN", "Scaler")),
    (PRODUCTS, ("Conv", "MatMul", "Gemm", "Einsum", "Attention", "TreeEnsemble", "SVM", "Linear")),
    (POOLING, ("Pool", "Reduce", "ArgM", "TopK", "CumSum", "NonMaxSuppression")),
)
"""Parts of operators' names by family; variants of an operator share a part: QLinearConv, FusedConv, DeformConv."""


def family(operator: str) -> str:
    """The family of an operator, by its name with or without a domain."""
    name = operator.rpartition(".")[2]
    if name in _FAMILIES:
        return _FAMILIES[name]
    return next((found for found, parts in _PARTS_OF_NAMES if any(part in name for part in parts)), OTHER)

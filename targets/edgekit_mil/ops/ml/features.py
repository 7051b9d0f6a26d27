"""The preparation of features in ``ai.onnx.ml``: scaling, encoding, filling gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed, constant
from edgekit_mil.support.movement import nonnegative, reshaped

DOMAIN = "ai.onnx.ml"


@lowering("Scaler", versions=[1], domain=DOMAIN)
def scaler(ctx: Context, x: Value, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)) -> Var:
    """``(x - offset) * scale``, both one number or one a feature of x [n, F]."""
    return mb.mul(x=mb.sub(x=as_float(x), y=per_feature(x, offset)), y=per_feature(x, scale))


@lowering("Normalizer", versions=[1], domain=DOMAIN, note="L1 and L2")
def normalizer(ctx: Context, x: Value, *, norm: str = "MAX") -> Var:
    """Rows of x [n, F] over their norm; a row of zeros stays."""
    reduce = {"L1": mb.reduce_l1_norm, "L2": mb.reduce_l2_norm}.get(norm)
    if reduce is None:
        raise Unsupported(f"norm {norm}: implementations differ in whether negative numbers count by their magnitude")
    if x.rank > 2:
        raise Unsupported(f"rows of a tensor of rank {x.rank}")
    data = as_float(x)
    length = reduce(x=data, axes=[-1], keep_dims=True)
    return mb.real_div(x=data, y=mb.select(cond=mb.equal(x=length, y=0.0), a=1.0, b=length))


@lowering("Binarizer", versions=[1], domain=DOMAIN)
def binarizer(ctx: Context, x: Value, *, threshold: float = 0.0) -> Var:
    """1 where x is over the threshold, else 0."""
    over = mb.greater(x=as_float(x), y=np.float32(threshold))
    return mb.cast(x=over, dtype="fp32" if x.is_float else "int32")


@lowering("Imputer", versions=[1], domain=DOMAIN)
def imputer(
    ctx: Context,
    x: Value,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Var:
    """X [n, F] with every occurrence of one value, which may be NaN, replaced by another, one a feature or one."""
    values = imputed_value_floats if x.is_float else imputed_value_int64s
    if not values:
        raise Unsupported(f"has no values to put in place of missing ones of type {x.dtype.name.lower()}")
    given = constant(np.asarray(per_feature(x, values)), x.dtype).var
    if not x.is_float:
        missing = mb.equal(x=x.var, y=constant(np.asarray(replaced_value_int64), ir.DataType.INT64).operand)
    elif np.isnan(replaced_value_float):
        missing = mb.not_equal(x=x.var, y=x.var)
    else:
        missing = mb.equal(x=x.var, y=np.float32(replaced_value_float))
    return mb.select(cond=missing, a=given, b=x.var)


@lowering("FeatureVectorizer", versions=[1], domain=DOMAIN)
def feature_vectorizer(ctx: Context, *inputs: Value, inputdimensions: Sequence[int]) -> Var:
    """Features [n, F] of several inputs side by side, each cut or filled up with zeros to a number of features."""
    parts = []
    for x, wanted in zip(inputs, inputdimensions, strict=True):
        rows, have = (x.static_shape[0], 1) if x.rank == 1 else x.static_shape
        data = mb.reshape(x=as_float(x), shape=[rows, have])
        if wanted < have:
            data = mb.slice_by_size(x=data, begin=[0, 0], size=[rows, wanted])
        elif wanted > have:
            data = mb.pad(x=data, pad=[0, 0, 0, wanted - have], mode="constant", constant_val=0.0)
        parts.append(data)
    return mb.concat(values=parts, axis=1) if len(parts) > 1 else mb.identity(x=parts[0])


@lowering("ArrayFeatureExtractor", versions=[1], domain=DOMAIN)
def array_feature_extractor(ctx: Context, x: Value, y: Value) -> Var:
    """Features at indices, which may have any shape; of a vector, as a matrix of one row."""
    count = int(np.prod(y.static_shape))
    flat = computed(reshaped(y, [count]), y.dtype) if not y.is_constant else constant(np.asarray(y.ints("Y"), np.int64))
    found = mb.gather(x=x.var, indices=nonnegative(flat, x.static_shape[-1]), axis=-1)
    return mb.expand_dims(x=found, axes=[0]) if x.rank == 1 else found


@lowering("OneHotEncoder", versions=[1], domain=DOMAIN, note="of numbers; unknown ones become zeros")
def one_hot_encoder(
    ctx: Context,
    x: Value,
    *,
    cats_int64s: Sequence[int] = (),
    cats_strings: Sequence[str] = (),
    zeros: int = 1,
) -> Var:
    """1 at the place of each number's category along a new last dimension, else 0; fractions are cut off first."""
    if cats_strings:
        raise text_refusal("categories")
    if not zeros:
        raise Unsupported("fails on unknown categories, which no program can", "set zeros=1")
    whole = mb.expand_dims(x=mb.cast(x=x.var, dtype="int32"), axes=[x.rank])
    categories = constant(np.asarray(cats_int64s, np.int64)).operand
    return mb.cast(x=mb.equal(x=whole, y=categories), dtype="fp32")


@lowering("LabelEncoder", versions=[2, 4], domain=DOMAIN, note="from numbers to numbers")
def label_encoder(
    ctx: Context,
    x: Value,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "",
    default_tensor: np.ndarray | None = None,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: np.ndarray | None = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: np.ndarray | None = None,
) -> Value:
    """The value of each number's key, or the default."""
    if keys_strings or values_strings:
        raise text_refusal("keys or values")
    keys = _table(keys_tensor, keys_floats, keys_int64s)
    values = _table(values_tensor, values_floats, values_int64s)
    default = default_tensor
    if default is None:
        default = np.asarray(default_int64 if values.dtype.kind in "iu" else default_float, values.dtype)
    if len(np.unique(keys)) != len(keys) or np.isnan(keys.astype(np.float64)).any():
        raise Unsupported("has a key twice, or NaN as a key")
    count = int(np.prod(x.static_shape))
    numbers = mb.reshape(x=x.var, shape=[count, 1])
    matches = mb.equal(x=numbers, y=constant(keys, x.dtype).operand.reshape(1, -1))
    result, otherwise = constant(values), constant(np.asarray(default, values.dtype).reshape(()))
    zero = np.float32(0) if result.is_float else np.int32(0)
    row = result.operand.reshape(1, -1)
    chosen = mb.select(cond=matches, a=np.broadcast_to(row, (count, len(keys))).copy(), b=zero)
    total = mb.reduce_sum(x=chosen, axes=[1], keep_dims=False)
    known = mb.cast(x=mb.reduce_max(x=mb.cast(x=matches, dtype="int32"), axes=[1], keep_dims=False), dtype="bool")
    found = mb.select(cond=known, a=total, b=otherwise.operand[()])
    return computed(reshaped(computed(found, result.dtype), x.static_shape), result.dtype)


@lowering("ZipMap", versions=[1], domain=DOMAIN)
def zip_map(
    ctx: Context, x: Value, *, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()
) -> NoReturn:
    """Maps are no tensors."""
    raise Unsupported(
        "makes maps, programs have tensors only",
        "export without it (skl2onnx: zipmap=False), or cut the model with `edgekit extract`",
    )


def text_refusal(what: str) -> Unsupported:
    """The refusal of texts."""
    return Unsupported(f"{what} are texts, programs have tensors of numbers only", "encode them as integers before")


def as_float(x: Value) -> Var:
    """Numbers of any type in float32."""
    return x.var if x.is_float else mb.cast(x=x.var, dtype="fp32")


def per_feature(x: Value, numbers: Sequence[float]) -> np.ndarray:
    """One number, or one a feature of x [n, F] or [F], in a type that keeps them.

    Raises:
        Unsupported: Another number of them.
    """
    array = np.asarray(numbers, np.float32 if isinstance(numbers[0], float) else np.int64)
    if len(array) == 1:
        return array.reshape(())
    if x.rank > 2 or x.shape[-1] != len(array):
        raise Unsupported(f"{len(array)} numbers for features of shape {list(x.shape)}")
    return array


def _table(tensor: np.ndarray | None, floats: Sequence[float] | None, ints: Sequence[int] | None) -> np.ndarray:
    """Keys or values in the type that they are given in."""
    if floats is not None:
        return np.asarray(floats, np.float32)
    if ints is not None:
        return np.asarray(ints, np.int64)
    if tensor is None or tensor.dtype.kind not in "iuf":
        raise text_refusal("keys or values")
    return tensor

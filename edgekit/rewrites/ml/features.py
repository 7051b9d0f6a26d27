"""The preparation of features in ``ai.onnx.ml``: scaling, encoding, filling gaps, picking columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.number_lookup import equal, looked_up
from edgekit.graph.words.label_tables import default, entries
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.ml.scores import DOMAIN, F, width


class Scaler(Rewrite):
    """``(x - offset) * scale``, each of them one number, or one for each feature."""

    name: ClassVar[str] = "scaler as subtraction and product"
    op_types: ClassVar[Sequence[str]] = ("Scaler",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32, whatever the input's type."""
        offset, scale = (
            np.asarray(node.attributes.get_floats(name, (default,)), np.float32)
            for name, default in (("offset", 0.0), ("scale", 1.0))
        )
        x = build.cast(node.inputs[0], ir.DataType.FLOAT)
        return [build("Mul", build("Sub", x, offset), scale)]


class Normalizer(Rewrite):
    """Rows over their norm; a row whose norm is zero stays."""

    name: ClassVar[str] = "normalizer as reduction and division"
    op_types: ClassVar[Sequence[str]] = ("Normalizer",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32; the norm MAX is the greatest number with its sign."""
        x = build.cast(node.inputs[0], ir.DataType.FLOAT)
        kinds = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
        norm = node.attributes.get_string("norm", "MAX")
        if norm not in kinds:
            raise InapplicableError(f"norm {norm!r} is unknown")
        length = build.reduce(kinds[norm], x, [-1])
        is_zero = build("Not", build.cast(length, ir.DataType.BOOL))
        return [build("Div", x, build("Where", is_zero, F(1), length))]


class Binarizer(Rewrite):
    """1 where the input is over the threshold, else 0."""

    name: ClassVar[str] = "binarizer as comparison"
    op_types: ClassVar[Sequence[str]] = ("Binarizer",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In the input's type."""
        x, dtype = typed(node.inputs[0])
        threshold = F(node.attributes.get_float("threshold", 0.0))
        return [build.cast(build("Greater", build.cast(x, ir.DataType.FLOAT), threshold), dtype)]


class Imputer(Rewrite):
    """Every occurrence of one value, which may be NaN, replaced by another: one for each feature, or one for all."""

    name: ClassVar[str] = "imputer as selection"
    op_types: ClassVar[Sequence[str]] = ("Imputer",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In the input's type."""
        x = node.inputs[0]
        if x is None or x.dtype not in (ir.DataType.FLOAT, ir.DataType.INT64):
            raise InapplicableError("its input is neither float32 nor int64")
        if x.dtype == ir.DataType.INT64:
            values = np.asarray(node.attributes.get_ints("imputed_value_int64s", ()), np.int64)
            missing = build("Equal", x, np.int64(node.attributes.get_int("replaced_value_int64", 0)))
        else:
            values = np.asarray(node.attributes.get_floats("imputed_value_floats", ()), np.float32)
            gap = F(node.attributes.get_float("replaced_value_float", 0.0))
            missing = build("IsNaN", x) if np.isnan(gap) else equal(build, x, gap)
        if not values.size:
            raise InapplicableError("it has no values to put in place of missing ones")
        return [build("Where", missing, values, x)]


class FeatureVectorizer(Rewrite):
    """Features of several inputs side by side, each cut or padded with zeros to a given number of features."""

    name: ClassVar[str] = "feature vectorizer as concatenation"
    op_types: ClassVar[Sequence[str]] = ("FeatureVectorizer",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32."""
        parts = []
        for x, wanted in zip(node.inputs, node.attributes.get_ints("inputdimensions", ()), strict=True):
            if x is None or x.shape is None or x.shape.rank() not in (1, 2):
                raise InapplicableError("an input is not a matrix")
            data, have = build.cast(x, ir.DataType.FLOAT), width(x)
            if x.shape.rank() == 1:
                data = build.unsqueeze(data, [0] if have != 1 else [1])
            if wanted < have:
                data = build.slice(data, [0], [wanted], [1])
            elif wanted > have:
                data = build.pad(data, [0, 0, 0, wanted - have])
            parts.append(data)
        return [build("Concat", *parts, axis=1)]


class ArrayFeatureExtractor(Rewrite):
    """Features at indices along the last axis."""

    name: ClassVar[str] = "array feature extractor as gather"
    op_types: ClassVar[Sequence[str]] = ("ArrayFeatureExtractor",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For a vector, the result is a matrix of one row."""
        x, indices = node.inputs
        if x is None or x.shape is None or indices is None:
            raise InapplicableError("the rank of its input is not known")
        rank = x.shape.rank()
        found = build("Gather", x, build("Reshape", indices, [-1]), axis=rank - 1)
        return [build.unsqueeze(found, [0]) if rank == 1 else found]


class OneHotEncoder(Rewrite):
    """1 at the place of each number's category along a new last axis, else 0; fractions are cut off first.

    Where ``zeros`` is 0 the operator fails at an unknown category, which no target can: it gets zeros there, as words
    do.
    """

    name: ClassVar[str] = "one-hot encoder as comparison"
    op_types: ClassVar[Sequence[str]] = ("OneHotEncoder",)
    domain: ClassVar[str] = DOMAIN

    def matches(self, node: ir.Node) -> bool:
        """Whether categories are numbers."""
        return bool(node.attributes.get_ints("cats_int64s", ()))

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32."""
        x = node.inputs[0]
        if x is None or x.shape is None:
            raise InapplicableError("the rank of its input is not known")
        whole = build.unsqueeze(build.cast(x, ir.DataType.INT64), [x.shape.rank()])
        categories = np.asarray(node.attributes.get_ints("cats_int64s"), np.int64)
        return [build.cast(build("Equal", whole, categories), ir.DataType.FLOAT)]


class LabelEncoder(Rewrite):
    """The value of each number's key, or the default."""

    name: ClassVar[str] = "label encoder as comparison and gather"
    op_types: ClassVar[Sequence[str]] = ("LabelEncoder",)
    domain: ClassVar[str] = DOMAIN
    versions: ClassVar[range] = range(2, 4)
    finds_nan: ClassVar[bool] = False
    """Whether a NaN key matches missing numbers; if not, nothing equals that key."""

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Compares with all keys at once; the values may be texts, the keys may not."""
        x = node.inputs[0]
        keys, values = _table(node, "keys"), _table(node, "values")
        if x is None or x.shape is None or x.dtype is None or keys.dtype == np.object_:
            raise InapplicableError("its keys are texts, or its input is not known")
        own = keys.astype(x.dtype.numpy())
        if len(np.unique(own)) != len(own):
            raise InapplicableError("it has a key twice")
        return [looked_up(build, x, own, values, default(node, values), finds_nan=self.finds_nan)]


class LabelEncoderOfMissing(LabelEncoder):
    """Since version 4 NaN may be a key."""

    versions: ClassVar[range] = range(4, 1000)
    finds_nan: ClassVar[bool] = True


def _table(node: ir.Node, name: str) -> np.ndarray:
    """Returns keys or values in the type in which they are given."""
    found = entries(node, name)
    if found is None:
        raise InapplicableError(f"it has no {name}")
    return found

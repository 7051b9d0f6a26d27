"""Numbers of rows that a table does not have are refused by a loaded bundle, whatever its runtime makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import edgekit
from edgekit.data.table_rows import table_rows
from edgekit.errors import InputError

TABLES = "<float[4, 2] words = {0, 1, 2, 3, 4, 5, 6, 7}, float[2, 3] kinds = {0, 1, 2, 3, 4, 5}, int64[1] one = {1}>"


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("y = Gather <axis = 0> (words, ids)", 4),
        ("y = Gather <axis = 1> (kinds, ids)", 3),
        ("t = Transpose (ids) c = Cast <to = 6> (t) y = Gather <axis = 0> (words, c)", 4),
        ("a = Gather <axis = 0> (words, ids) b = Gather <axis = 0> (kinds, ids) y = Concat <axis = 2> (a, b)", 2),
        ("s = Split <axis = 1> (ids) y = Gather <axis = 0> (words, s)", None),
        ("p = Add (ids, one) y = Gather <axis = 0> (words, p)", None),
        ("y = Gather <axis = 0> (ids, one)", None),
    ],
)
def test_which_tables_count(body: str, rows: int | None) -> None:
    text = (
        f"""<ir_version: 8, opset_import: ["" : 17]> g (int64[1, n] ids) => (float[a, b, c] y) {TABLES} {{ {body} }}"""
    )
    assert table_rows(ir.from_proto(onnx.parser.parse_model(text)).graph).get("ids") == rows


@pytest.mark.parametrize("target", ["onnxruntime", "ios18"])
def test_a_loaded_bundle_refuses_other_rows(onnx_file: Callable[..., Path], tmp_path: Path, target: str) -> None:
    model = onnx_file(f"g (int64[1, 3] ids) => (float[1, 3, 2] y) {TABLES} {{ y = Gather <axis = 0> (words, ids) }}")
    bundle = edgekit.package(model, target, tmp_path / "out")
    assert bundle.manifest["inputs"][0]["rows"] == 4
    loaded = edgekit.load(bundle)
    found = loaded([[0, 3, 1]])
    assert isinstance(found, dict)
    np.testing.assert_array_equal(found["y"], [[[0, 1], [6, 7], [2, 3]]])
    for number in (4, 70000, -5):
        with pytest.raises(InputError) as error:
            loaded([[0, number, 1]])
        assert str(error.value) == (
            f"input 'ids': the model's table has no row for this number\nexpected: numbers from 0 to 3\nfound: {number}"
        )
    with pytest.raises(InputError) as error:
        loaded("Anna visits Berlin")
    assert error.value.hint == "a text is given as the numbers of its tokens: {'ids': [[…]], …}"

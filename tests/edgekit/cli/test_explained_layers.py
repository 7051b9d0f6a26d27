"""What ``edgekit quantize --explain`` prints of a layer."""

from __future__ import annotations

import io

from rich.console import Console

from edgekit.cli._explain import print_layers

LAYER = {
    "layer": "zeros",
    "kind": "MatMul",
    "done": "integers",
    "how": "range by percentile",
    "sqnr_db": "inf",
    "weights_db": "inf",
    "inputs_db": 47.53,
    "outliers": 1.5,
    "low": -3.0,
    "high": 3.0,
    "range_low": -3.01,
    "range_high": 2.99,
}


def test_a_layer_to_which_integers_add_no_error_is_exact() -> None:
    out = io.StringIO()
    print_layers({"layers": [LAYER]}, Console(file=out, width=100))
    assert out.getvalue().splitlines()[:3] == [
        "    SQNR  weights   inputs    peak              values      integers cover",
        "zeros (MatMul): integers, range by percentile",
        "   exact    exact     47.5     1.5              -3 … 3        -3.01 … 2.99",
    ]

from __future__ import annotations

from pathlib import Path

from edgekit_mil.table import operator_table


def rows():
    lines = [line for line in operator_table().splitlines() if line.startswith("| ")]
    return {cells[1].strip(): [cell.strip() for cell in cells[2:5]] for cells in (line.split("|") for line in lines)}


def test_every_operator_has_a_row_that_says_how():
    table = rows()
    assert table["Relu"] == ["6, 13, 14", "lowered", ""]
    assert table["Bernoulli"][1] == "refused"
    assert table["MeanVarianceNormalization"][1] in ("lowered", "expanded")
    assert table["SoftmaxCrossEntropyLoss"] == ["13", "expanded", ""]
    assert table["TreeEnsemble"] == ["", "rewritten", "tree ensemble as comparisons and products"]
    assert table["StringSplit"] == ["20", "refused", "refused: programs have no texts"]
    assert table["GatherBlockQuantized"] == ["", "rewritten", "lookup in dequantized blocks"]


def test_restrictions_are_told():
    assert "axes constant" in rows()["ReduceSum"][2]


def test_the_page_in_docs_is_what_the_registry_says():
    page = Path(__file__).parents[3] / "docs" / "coreml-operators.md"
    assert page.read_text(encoding="utf-8") == operator_table(), "write it with python -m edgekit_mil.table"

"""Nodes at which ONNX Runtime reads beyond its memory: that it still does, and that they are refused by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from edgekit.errors import InputError
from edgekit.graph.reading.operands import check_operands

PATH = Path("m.onnx")
RUN = "import sys, numpy, onnxruntime; onnxruntime.InferenceSession(sys.argv[1]).run(None, {'x': numpy.ones(3, 'i4')})"
NGRAMS = (
    "(int32[3] x) => (float[4] y) { y = TfIdfVectorizer <max_gram_length = 2, max_skip_count = 0, min_gram_length = 1,"
    ' mode = "TF", ngram_counts = [0, 2], ngram_indexes = [%s], pool_int64s = [1, 2, 1, 1, 2, 1]> (x) }'
)


def parsed(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {body}')


GAP = '(int32[3] x) => (int32[3] y) { y = Max (x, "") }'


def test_a_gap_ends_the_process(tmp_path: Path) -> None:
    onnx.save(parsed(GAP), tmp_path / "m.onnx")
    ended = subprocess.run([sys.executable, "-c", RUN, tmp_path / "m.onnx"], capture_output=True, check=False)
    assert ended.returncode < 0  # ONNX Runtime is still ended by a signal


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (GAP, "(Max): input 2 is left out of data_0, which may have any number but no gaps"),
        (NGRAMS % "0, 1, 2", "(TfIdfVectorizer): its pool has 4 n-grams, ngram_indexes has 3"),
    ],
)
def test_what_is_read_beyond_its_memory_is_refused(body: str, rule: str) -> None:
    with pytest.raises(InputError) as raised:
        check_operands(parsed(body), PATH)
    assert str(raised.value).startswith(f"m.onnx: breaks the rules of ONNX: node 'y' {rule}\n")


@pytest.mark.parametrize(
    "body",
    [
        NGRAMS % "0, 1, 2, 3",
        "(int32[3] x) => (int32[3] y) { y = Max (x) }",
        '(float[3] x) => (float[3] y) <float m = {1}> { y = Clip (x, "", m) }',
        '(float[3] x) => (float[3] y) { y = mine.Op (x, "") }',
    ],
)
def test_what_is_right_passes(body: str) -> None:
    check_operands(parsed(body), PATH)

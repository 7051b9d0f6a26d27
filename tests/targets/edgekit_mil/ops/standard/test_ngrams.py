from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

POOL = {
    "ngram_counts": [0, 3],
    "ngram_indexes": [2, 0, 1, 3, 6, 5],
    "pool_int64s": [2, 3, 5, 5, 4, 5, 6, 3, 3],
    "weights": [0.5, 2.0, 3.0, 1.5, 0.25, 4.0],
}


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 2])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("shape", [(9,), (2, 9)])
@pytest.mark.parametrize("columns", [[2, 0, 1, 3, 6, 5], [2, 0, 1, 3, 5, 4], [0, 1, 2, 3, 4, 5]])
def test_counts_agree(agrees, rng, mode, skips, sizes, shape, columns):
    x = rng.integers(2, 7, shape).astype(np.int32)
    lengths = {"min_gram_length": sizes[0], "max_gram_length": sizes[1], "max_skip_count": skips}
    agrees("TfIdfVectorizer", [x], mode=mode, **lengths, **{**POOL, "ngram_indexes": columns})


def test_rows_too_short_for_any(agrees):
    lengths = {"min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 0}
    agrees("TfIdfVectorizer", [np.array([5], np.int32)], mode="TF", **lengths, **POOL)


def test_texts_are_refused(lower):
    texts = {"ngram_counts": [0], "ngram_indexes": [0], "pool_strings": ["a"]}
    lengths = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    with pytest.raises(UnsupportedOpsError, match="no texts"):
        lower("TfIdfVectorizer", [np.array([5], np.int32)], mode="TF", **lengths, **texts)

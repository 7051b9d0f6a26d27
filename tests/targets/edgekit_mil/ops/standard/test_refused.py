from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError


def test_picture_files_are_refused_with_a_way_out(lower):
    with pytest.raises(UnsupportedOpsError, match=r"do not decode picture files; feed the decoded picture"):
        lower("ImageDecoder", [np.zeros(16, np.uint8)], outputs=["uint8"], pixel_format="RGB")


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("RandomNormal", [], {"shape": [2], "seed": 1.0}),
        ("RandomUniform", [], {"shape": [2]}),
        ("RandomNormalLike", [np.zeros(2, np.float32)], {}),
        ("RandomUniformLike", [np.zeros(2, np.float32)], {"seed": 1.0}),
        ("Bernoulli", [np.full(2, 0.5, np.float32)], {}),
        ("Multinomial", [np.full((1, 2), 0.5, np.float32)], {"sample_size": 3}),
    ],
)
def test_drawing_is_refused_with_a_way_out(lower, op_type, inputs, attributes):
    with pytest.raises(UnsupportedOpsError, match=r"draws at random.*make the random numbers an input"):
        lower(op_type, inputs, fed=range(len(inputs)), **attributes)

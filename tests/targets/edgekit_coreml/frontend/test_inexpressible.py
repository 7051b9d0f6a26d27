from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError


def test_picture_files_are_refused_with_a_way_out(lower):
    with pytest.raises(UnsupportedOpsError, match=r"do not decode picture files; feed the decoded picture"):
        lower("ImageDecoder", [np.zeros(16, np.uint8)], outputs=["uint8"], pixel_format="RGB")

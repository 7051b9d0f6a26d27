"""What the tests of Core AI share."""

from __future__ import annotations

import pytest

pytest.importorskip("coreai", reason="coreai-core has wheels for Linux on x86-64 and for macOS")

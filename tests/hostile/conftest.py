"""Lets the tests import the fuzzer's modules, as the fuzzer does when it is started as a script."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

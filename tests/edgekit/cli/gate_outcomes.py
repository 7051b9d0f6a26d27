"""Readers of the answer of `edgekit gate`, and of a bundle, for its tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def size_of(bundle: Path) -> str:
    """The size of a bundle as the tables write it."""
    size = json.loads((bundle / "manifest.json").read_text())["size"]["bytes"]
    return f"{size / 1000:.4g} kB"


def outcomes(finished: Any) -> dict[str, str]:
    (bundle,) = finished.json["bundles"]
    return {verdict["budget"]: verdict["outcome"] for verdict in bundle["verdicts"]}

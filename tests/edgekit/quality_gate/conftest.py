from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit.config import Inconclusive
from edgekit.errors import InputError
from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.measuring import Ratio
from edgekit.quality_gate.verdict import Outcome, Verdict


@pytest.fixture
def judged() -> Callable[..., list[Judged]]:
    """Five bundles: one passes, one fails, one's latency is unclear, one cannot be judged, and one has no budget."""

    def make(inconclusive: Inconclusive = Inconclusive.WARN) -> list[Judged]:
        size = Verdict("size", "at most 200 kB", "83.14 kB", Outcome.KEPT)
        large = Verdict("size", "at most 80 kB", "83.14 kB <& more>", Outcome.BROKEN)
        latency = Verdict("latency", "at most 0.50", "0.500 (0.480 – 0.520)", Outcome.INCONCLUSIVE)
        error = InputError("has not been built", subject="bundles/gone", hint="`edgekit build` builds it")
        ratio = Ratio(0.5, 0.48, 0.52, 200, 40, 12.5)
        return [
            Judged(Path("bundles/good"), "good", (size,)),
            Judged(Path("bundles/bad"), "bad", (size, large)),
            Judged(Path("bundles/odd"), "odd", (size, latency), (ratio,), inconclusive=inconclusive),
            Judged(Path("bundles/gone"), "gone", error=error),
            Judged(Path("bundles/free"), "free"),
        ]

    return make

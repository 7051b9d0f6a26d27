"""Whether a runtime that is held to an instruction set computes the float model at all.

Where it does not, what it makes of a quantized form tells nothing: OpenVINO 2026.4 held to AVX2 on a processor with
AVX-512 ends, or reads memory that nobody wrote, in its kernel for MVN (layer normalization), whatever the weights are.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from edgekit.bundle import Bundle
from edgekit.comparison.metrics import Comparison
from edgekit.data.samples import Samples
from edgekit.devices.instruction_set import SCHEME
from edgekit.devices.opening import open_device
from edgekit.devices.own_check import draft_bundle
from edgekit.errors import RequirementError
from edgekit.execution.recurrence import restart
from edgekit.model import Model
from edgekit.target import BuildOptions, Profile, Runner, Target

LEAST_DB = 25.0
"""What the float model has to reach with a set against this processor's own: far less than rounding takes."""
MOST_MISMATCH = 0.01
"""The share of elements that may be infinite or NaN there only, or another whole number."""
MOST_SAMPLES = 3


class HeldSets:
    """Instruction sets of which it is found out, once and when somebody asks, with which the float model runs.

    Can be pickled; that finds out.

    Args:
        names: The sets.
        model: The float model: shapes fixed.
        target: Builds it, and its runtime is held to the sets.
        profile: The device.
        options: How it is built.
        samples: What it is run on; none where only what is known already is asked for.
    """

    def __init__(
        self,
        names: Sequence[str],
        model: Model,
        target: Target,
        profile: Profile,
        options: BuildOptions,
        samples: Samples | None,
    ) -> None:
        self._names = tuple(names)
        self._model = model
        self._target = target
        self._profile = profile
        self._options = replace(options, precision="float32", compression=None, draft=True)
        self._samples = samples
        self._lock = Lock()
        self._known: dict[str, str] | None = None if names and samples is not None else {}

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the names."""
        return {"names": self.usable}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Nothing is left to be found out."""
        self._names, self._known, self._lock = state["names"], {}, Lock()

    @property
    def usable(self) -> tuple[str, ...]:
        """Those with which the runtime computes the float model."""
        return tuple(name for name in self._names if name not in self.unusable)

    @property
    def unusable(self) -> Mapping[str, str]:
        """Why the others do not count, by name."""
        with self._lock:
            if self._known is None:
                self._known = dict(self._tried())
            return self._known

    @property
    def found_unusable(self) -> Mapping[str, str]:
        """The same, as far as somebody has asked."""
        return self._known or {}

    def _tried(self) -> Iterator[tuple[str, str]]:
        assert self._samples is not None
        feeds = [sample.feeds for sample in islice(iter(self._samples), MOST_SAMPLES)]
        with self._built() as (bundle, runner):
            wanted = _outputs(runner, feeds)
            for name in self._names:
                flaw = _flaw(bundle, name, feeds, wanted)
                if flaw is not None:
                    yield name, flaw

    @contextmanager
    def _built(self) -> Iterator[tuple[Bundle, Runner]]:
        with tempfile.TemporaryDirectory(prefix="edgekit-") as temporary:
            folder = Path(temporary)
            artifact = self._target.build(self._model, self._profile, folder, self._options)
            yield draft_bundle(artifact, self._profile, folder), self._target.load(artifact.main, self._profile)


def _outputs(runner: Runner, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    restart(runner)
    return [dict(runner.run(each)) for each in feeds]


def _flaw(
    bundle: Bundle, name: str, feeds: Sequence[Mapping[str, np.ndarray]], wanted: Sequence[Mapping[str, np.ndarray]]
) -> str | None:
    comparison = Comparison(tuple(wanted[0]) if wanted else ())
    try:
        with open_device(f"{SCHEME}:{name}").open(bundle) as session:
            for right, found in zip(wanted, _outputs(session, feeds), strict=True):
                comparison.add(right, found)
    except RequirementError as error:
        return f"the runtime held to it does not run the float model either: {error.found or error.message}"
    for output in comparison.results():
        reached = output.sqnr_db if output.sqnr_db is not None else math.inf
        if output.mismatch > MOST_MISMATCH or reached < LEAST_DB:
            return (
                f"the runtime held to it computes the float model wrong: output {output.name!r} at {reached:.1f} dB, "
                f"{output.mismatch:.1%} of its elements not at all"
            )
    return None

"""Instruction sets with which the results of a runtime that is restricted to them are evidence on a quantized model.

If the runtime does not compute the float model with a set either, its results are no evidence: OpenVINO 2026.4, if
restricted to AVX2 on a processor with AVX-512, ends the process or reads uninitialized memory in its kernel for MVN
(layer normalization), whatever the weights are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np

from edgekit.bundle import Bundle
from edgekit.comparison.numbers.metrics import Comparison
from edgekit.data.samples import Samples
from edgekit.devices.instruction_set import SCHEME
from edgekit.devices.opening import open_device
from edgekit.devices.own_check import draft_bundle
from edgekit.errors import RequirementError
from edgekit.execution.recurrence import restart
from edgekit.files.atomic import temporary_folder
from edgekit.graph.integer_products import multiplies_integers
from edgekit.model import Model
from edgekit.target import BuildOptions, Profile, Runner, Target

LEAST_DB = 25.0
"""The least SQNR of the float model's outputs with a set, compared with this processor's own instructions. Rounding
alone leaves a far higher one."""
MOST_MISMATCH = 0.01
"""The share of elements that may be infinite or NaN only with the set, or another whole number."""
MOST_SAMPLES = 3


class ExecutableSets:
    """Instruction sets, and with which of them the float model runs: that is determined once, when it is needed.

    The object can be pickled, which determines it.

    Args:
        names: The sets.
        model: The float model: shapes fixed.
        target: Builds the model, and its runtime is restricted to the sets.
        profile: The device.
        options: How the model is built.
        samples: What the model is run on; None: it is not run, and every set counts as usable.
        asked: Whether the user asks for the sets, which then count for every candidate; otherwise they count for
            candidates that multiply integers.
    """

    def __init__(
        self,
        names: Sequence[str],
        model: Model,
        target: Target,
        profile: Profile,
        options: BuildOptions,
        samples: Samples | None,
        *,
        asked: bool = False,
    ) -> None:
        self._names = tuple(names)
        self._asked = asked
        self._model = model
        self._target = target
        self._profile = profile
        self._options = replace(options, precision="float32", compression=None, draft=True)
        self._samples = samples
        self._lock = Lock()
        self._known: dict[str, str] | None = None if names and samples is not None else {}

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the names of the usable sets, and whether they were asked for."""
        return {"names": self.usable, "asked": self._asked}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restores the names; nothing remains to be determined."""
        self._names, self._asked, self._known, self._lock = state["names"], state["asked"], {}, Lock()

    def count_for(self, candidate: Model) -> bool:
        """Whether a candidate has to hold the budget with the sets."""
        return bool(self._names) and (self._asked or multiplies_integers(candidate))

    def opened(self, candidate: Bundle, runner: Runner, closing: ExitStack) -> list[Runner]:
        """Executes a candidate with each of the sets that count, in a process for each set.

        A set counts if the candidate computes nearly the same with it and without. Otherwise it counts if the float
        model does, which takes another build and another process to determine.

        Args:
            candidate: The candidate.
            runner: Executes the candidate with this processor's own instructions.
            closing: Ends the processes.

        Raises:
            RequirementError: The candidate does not run with a set that counts.
        """
        names = [name for name in self._names if name not in self.found_unusable]
        with ThreadPoolExecutor(max(1, len(names))) as threads:  # so that the processes start at the same time
            sessions = [threads.submit(_opened, name, candidate, closing) for name in names]
        counting: list[Runner] = []
        for name, opened in zip(names, sessions, strict=True):
            if name in self.found_unusable:
                continue
            try:
                session = opened.result()
                agrees = self._known is None and self._compared(runner, session) is None
            except RequirementError:
                if name in self.usable:
                    raise
                continue
            if agrees or name in self.usable:
                counting.append(session)
        return counting

    @property
    def usable(self) -> tuple[str, ...]:
        """The sets with which the runtime computes the float model."""
        return tuple(name for name in self._names if name not in self.unusable)

    @property
    def unusable(self) -> Mapping[str, str]:
        """The sets that do not count, each with the reason."""
        with self._lock:
            if self._known is None:
                self._known = dict(self._tried())
            return self._known

    @property
    def found_unusable(self) -> Mapping[str, str]:
        """The sets that are known not to count, each with the reason; empty if that was not determined yet."""
        return self._known or {}

    def why_unusable(self, name: str, model: Model, samples: Samples) -> str | None:
        """Why a set does not count, if that was determined for this float model on these samples; else None."""
        is_same = model is self._model and samples is self._samples
        return self.found_unusable.get(name) if is_same else None

    def _tried(self) -> Iterator[tuple[str, str]]:
        with self._built() as (bundle, runner):
            for name in self._names:
                flaw = self._flaw(bundle, name, runner)
                if flaw is not None:
                    yield name, flaw

    @contextmanager
    def _built(self) -> Iterator[tuple[Bundle, Runner]]:
        with temporary_folder() as folder:
            artifact = self._target.build(self._model, self._profile, folder, self._options)
            yield draft_bundle(artifact, self._profile, folder), self._target.load(artifact.main, self._profile)

    def _flaw(self, bundle: Bundle, name: str, runner: Runner) -> str | None:
        """Why the results of the float model's bundle with a set are no evidence; None if they are right."""
        try:
            with open_device(f"{SCHEME}:{name}").open(bundle) as session:
                return self._compared(runner, session)
        except RequirementError as error:
            return (
                "the runtime restricted to this instruction set does not run the float model either: "
                f"{error.found or error.message}"
            )

    def _compared(self, runner: Runner, session: Runner) -> str | None:
        """How the session's outputs on a few samples depart from the runner's, which are right; None if they do not."""
        assert self._samples is not None
        feeds = [sample.feeds for sample in islice(iter(self._samples), MOST_SAMPLES)]
        wanted = _outputs(runner, feeds)
        comparison = Comparison(tuple(wanted[0]) if wanted else ())
        for right, found in zip(wanted, _outputs(session, feeds), strict=True):
            comparison.add(right, found)
        for output in comparison.results():
            reached = output.sqnr_db if output.sqnr_db is not None else math.inf
            if output.mismatch > MOST_MISMATCH or reached < LEAST_DB:
                return (
                    "the runtime restricted to this instruction set computes the float model wrong: output "
                    f"{output.name!r} at {reached:.1f} dB, {output.mismatch:.1%} of its elements unequal or not "
                    "finite"
                )
        return None


def _opened(name: str, candidate: Bundle, closing: ExitStack) -> Runner:
    """Executes a candidate in a process that is restricted to a set.

    Raises:
        RequirementError: The candidate cannot be loaded there.
    """
    return closing.enter_context(open_device(f"{SCHEME}:{name}").open(candidate))


def _outputs(runner: Runner, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    restart(runner)
    return [dict(runner.run(each)) for each in feeds]

"""Quantizes the model with the installed quantizer, which may build and execute candidates on the target."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from edgekit.comparison.custom_metric import Evaluation
from edgekit.data.samples import Samples
from edgekit.devices.instruction_set import SCHEME, held_here
from edgekit.devices.own_check import draft_bundle
from edgekit.errors import EdgeKitError, InputError
from edgekit.faults import as_edgekit_error, plugin_at_fault
from edgekit.files.atomic import temporary_folder
from edgekit.files.disk_space import is_out_of_space, require_room
from edgekit.graph.sizes.shapes import topology_digest
from edgekit.instruction_sets import WITHOUT_VNNI
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.processes.crashes import guarded
from edgekit.processes.memory import free_unused
from edgekit.processes.processors import usable_processors
from edgekit.progress import Step
from edgekit.quantizer import TURNED_DOWN, CandidateError, Opened, QuantizationRequest, QuantizationResult
from edgekit.registry import installed_quantizer
from edgekit.stages import Stage, StageResult
from edgekit.stages.bundle import loaded_bytes
from edgekit.stages.executable_sets import ExecutableSets
from edgekit.stages.sample_runs import require_runs_on_all
from edgekit.suggestions import did_you_mean
from edgekit.target import Artifact, BuildOptions, Profile, Runner, Target

NONE = "none"
AUTO = "auto"
MOST_THREADS = 4
"""Most threads on which candidates are timed: more threads add more noise than information."""


@dataclass(frozen=True)
class Quantized(StageResult):
    """The model, quantized or left as it was."""

    quantized: bool
    """Whether the model has integers in place of floats; one in half precision is judged as such, not as quantized."""
    of_float: Model
    """The model as it was given."""
    next_best: Callable[[], Quantized | None] | None = None
    """Returns what to ship if this form misses the requirements. If it is None or returns None, that is the float
    model."""
    judged_with: ExecutableSets | None = None
    """The instruction sets that candidates were judged with; None if nothing was quantized by a quantizer."""

    @property
    def stays_float(self) -> bool:
        """Whether this is the float model, whose precision the build chooses."""
        return bool(self.record["scheme"] == NONE)

    @property
    def candidate(self) -> str:
        """The name of this form of the model."""
        return str(self.record.get("chosen") or self.record["scheme"])

    def in_float(self) -> Quantized:
        """The float model in place of the quantized one, with the record of what was measured."""
        if self.model is self.of_float:
            return self
        measured = {key: self.record[key] for key in ("samples", "max_drop", "curve") if key in self.record}
        record = {"scheme": NONE, "reason": TURNED_DOWN, **measured}
        return Quantized(self.of_float, record, quantized=False, of_float=self.of_float)


@dataclass(frozen=True)
class Execute:
    """Builds candidates for a target, and opens them; can be pickled if the target can."""

    target: Target
    profile: Profile
    options: BuildOptions
    threads: int = 1
    """How many threads the runtime may use while candidates are timed; a bundle runs on one."""
    instruction_sets: ExecutableSets | None = None
    """The instruction sets that the runtime is restricted to as well, in a process for each, if they count for the
    candidate."""
    as_shipped: bool = False
    """Whether candidates are built as they would ship, because their size counts. Otherwise they are drafts, of which
    only the outputs count."""

    def __call__(self, candidate: Model) -> Opened:
        """Builds and opens a candidate; the build is removed once the result is no longer referenced.

        Raises:
            CandidateError: The candidate cannot be built or loaded.
        """
        free_unused()
        options = replace(self.options, draft=not self.as_shipped)
        closing = ExitStack()
        place = closing.enter_context(temporary_folder())
        try:
            with _as_candidate_errors("built"):
                artifact = self.target.build(candidate, self.profile, place, options)
            form = topology_digest(candidate)
            timed = self._loaded(artifact, form, self.threads)
        except BaseException:
            closing.close()
            raise
        sets = self.instruction_sets
        if sets is not None and not sets.count_for(candidate):
            sets = None
        opened = Opened(
            timed,
            partial(self._shipped, artifact, form) if self.threads != 1 else None,
            None if sets is None else partial(self._held, artifact, place, sets, timed, closing),
            loaded_bytes(artifact),
        )
        weakref.finalize(opened, closing.close)
        return opened

    def _shipped(self, artifact: Artifact, form: str) -> Runner:
        free_unused()
        return self._loaded(artifact, form, 1)

    def _loaded(self, artifact: Artifact, form: str, threads: int) -> _CandidateRunner:
        tried = f"{self.profile.name} with {threads} threads: {form}"
        with _as_candidate_errors("loaded"), guarded(tried):
            runner = self.target.load(artifact.main, self.profile, threads=threads)
        progress = None if self.profile.runs_here else self.options.progress  # reports would add to the measured times
        return _CandidateRunner(runner, tried, progress)

    def _held(
        self, artifact: Artifact, place: Path, sets: ExecutableSets, timed: Runner, closing: ExitStack
    ) -> Sequence[Runner]:
        """Executes a build with each of the sets that count, in a process for each, which ``closing`` ends."""
        with _as_candidate_errors("loaded"):
            sessions = sets.opened(draft_bundle(artifact, self.profile, place), timed, closing)
        return [*map(_CandidateRunner, sessions)]


@dataclass
class _CandidateRunner:
    """Executes a candidate, and reports failures as errors of the candidate."""

    runner: Runner
    tried: str | None = None
    """The name of what may crash this process when it runs for the first time; None after that, and for a runner in
    another process."""
    progress: Step | None = None
    """Told of every run: a stand-in for a device may take seconds for one."""
    _runs: int = 0

    @property
    def executed_by(self) -> str:
        return self.runner.executed_by

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        tried, self.tried = self.tried, None
        self._runs += 1
        if self.progress is not None:
            self.progress("executing a candidate, run", self._runs, 0)
        with _as_candidate_errors("run"), nullcontext() if tried is None else guarded(tried):
            return self.runner.run(feeds)


@contextmanager
def _as_candidate_errors(what: str) -> Iterator[None]:
    """Turns every error that a target or its runtime raises into an error about the candidate.

    Raises:
        CandidateError: The candidate cannot be built, loaded or run.
        NoRoomError: The disk that drafts are written to is full.
    """
    try:
        yield
    except Exception as error:
        require_room(Path(tempfile.gettempdir()), "set TMPDIR to a folder on another disk")
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, EdgeKitError):
            text = error.message if error.found is None else f"{error.message}: {error.found}"
            if str(error.subject).startswith(f"{SCHEME}:"):
                text = f"{error.subject}: {text}"
        raise CandidateError(f"cannot be {what}: {' '.join(text.split())}") from error


class Quantize(Stage[Model]):
    """Quantizes by a scheme of the quantizer; for ``none`` and the target's own schemes the model stays as it is.

    Args:
        scheme: The scheme that was asked for.
        target: Builds and executes the candidates.
        profile: The device that the candidates are for.
        options: How candidates are built.
        samples: The samples to calibrate on; None if there are none.
        max_drop: The accuracy that may be lost, as a fraction; None for the quantizer's default.
        progress: Called at each step.
        evaluation: The project's own measure of quality, which ``max_drop`` then applies to.
        executor: Evaluates candidates in other processes; None evaluates them in this one.
        quantizer: The name of the quantizer; None for the one that :func:`installed_quantizer` prefers.
        instruction_sets: Those with which candidates have to hold the budget; None for the profile's without VNNI.
        smallest: Whether the smallest model that holds the budget is wanted.
        max_bytes: Most bytes of the built model; None for any size.
        choice: The candidate to ship, as an earlier record names it; None for the quantizer's own choice.
        explain: Whether to measure more, only for the record, such as what it costs to keep sums from saturating.
    """

    name: ClassVar[str] = "quantize"

    def __init__(
        self,
        scheme: str,
        target: Target,
        profile: Profile,
        options: BuildOptions,
        samples: Samples | None,
        max_drop: float | None = None,
        progress: Step | None = None,
        evaluation: Evaluation | None = None,
        executor: Executor | None = None,
        quantizer: str | None = None,
        instruction_sets: Sequence[str] | None = None,
        *,
        smallest: bool = False,
        max_bytes: int | None = None,
        choice: str | None = None,
        explain: bool = False,
    ) -> None:
        self._choice = choice
        self._explain = explain
        self._smallest = smallest
        self._max_bytes = max_bytes
        self._instruction_sets = instruction_sets
        self._quantizer = quantizer
        self._scheme = scheme
        self._target = target
        self._profile = profile
        self._options = options
        self._samples = samples
        self._max_drop = max_drop
        self._progress = progress
        self._evaluation = evaluation
        self._executor = executor

    def requires(self, given: Model) -> None:
        """Checks that the scheme is known and the target takes it, and that there are samples if it needs some.

        Raises:
            InputError: A check fails.
        """
        require_scheme(
            self._scheme,
            self._own_schemes,
            available=self._samples is not None,
            refused=refused(self._target, self._profile),
            quantizer=self._quantizer,
        )

    def run(self, given: Model) -> Quantized:
        """The quantized model.

        Raises:
            edgekit.errors.RequirementError: Nothing holds the accuracy budget.
        """
        if self._scheme == NONE:
            return Quantized(given, {"scheme": NONE}, quantized=False, of_float=given)
        if self._scheme in self._own_schemes:
            record = {"scheme": self._scheme, "applied_by": "the target, when it builds"}
            return Quantized(given, record, quantized=True, of_float=given)
        sets = self._judged_with(given)
        try:
            return self._handed_on(given, self._result(given, sets), sets)
        except InputError:
            raise
        except Exception as error:
            if is_out_of_space(error):
                raise
            if not isinstance(error, EdgeKitError) and plugin_at_fault(error) is None:
                require_runs_on_all(given, self._samples)
            if self._scheme != AUTO or self._max_bytes is not None or plugin_at_fault(error) is not None:
                raise
            require_runs_on_all(given, self._samples)
            reason = f"quantization failed: {' '.join(as_edgekit_error(error).message.split())}"
            failed: dict[str, Any] = {"scheme": NONE, "reason": reason, "warnings": [reason]}
            return Quantized(given, failed, quantized=False, of_float=given)

    def _result(self, given: Model, sets: ExecutableSets) -> QuantizationResult:
        return installed_quantizer(self._quantizer).quantize(
            QuantizationRequest(
                model=given,
                scheme=self._scheme,
                samples=self._samples,
                max_drop=self._max_drop,
                evaluation=self._evaluation,
                half_weights=self._options.precision != "float32",
                placement=self._target.placement(self._profile),
                smallest=self._smallest,
                max_bytes=self._max_bytes,
                execute=Execute(
                    self._target,
                    self._profile,
                    self._options,
                    timed_threads() if self._profile.runs_here else 1,
                    sets,
                    as_shipped=self._max_bytes is not None and not self._options.onnx_ships,
                ),
                latency_counts=self._profile.runs_here,
                progress=self._progress,
                executor=self._executor,
                choice=self._choice,
                explain=self._explain,
            )
        )

    def _judged_with(self, given: Model) -> ExecutableSets:
        """The instruction sets that candidates are judged with, in addition to this processor's own instructions.

        By default these are the sets without VNNI: sums saturate there, and each set has kernels of its own, one of
        which may compute something else. What is packaged is verified with all sets. A set with which the float model
        does not run counts only if it is asked for.
        """
        asked = self._instruction_sets
        known = self._profile.instruction_sets if asked is None else asked
        held = tuple(name for name in known if held_here(self._target, self._profile, name))
        if asked is not None:
            return ExecutableSets(held, given, self._target, self._profile, self._options, None, asked=True)
        strict = tuple(name for name in held if name in WITHOUT_VNNI) or held[:1]
        return ExecutableSets(strict, given, self._target, self._profile, self._options, self._samples)

    def _handed_on(self, given: Model, result: QuantizationResult, sets: ExecutableSets) -> Quantized:
        after = result.next_best

        def next_best() -> Quantized | None:
            following = None if after is None else after()
            return None if following is None else self._handed_on(given, following, sets)

        not_judged = [f"not judged with {name}: {why}" for name, why in sets.found_unusable.items()]
        record = {**result.record, "warnings": [*result.record.get("warnings", ()), *not_judged]}
        return Quantized(
            result.model,
            record if not_judged else result.record,
            quantized=has_integers(str(result.record.get("scheme", NONE)), self._quantizer),
            of_float=given,
            next_best=next_best,
            judged_with=sets,
        )

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks that inputs and outputs are those of the float model; sizes that it left open in outputs may be known.

        Raises:
            edgekit.errors.InternalError: They are not.
        """
        open_dims = {dim for spec in given.inputs for dim in spec.shape or () if isinstance(dim, str)}
        for kind in ("inputs", "outputs"):
            before, after = getattr(given, kind), getattr(result.model, kind)
            if kind == "outputs" and len(before) == len(after):
                before = [_completed(was, now, open_dims) for was, now in zip(before, after, strict=True)]
            if list(before) != list(after):
                raise self.broken(f"the {kind} were {', '.join(map(str, before))}, now {', '.join(map(str, after))}")

    @property
    def _own_schemes(self) -> Sequence[str]:
        return self._target.weight_schemes(self._profile)


def _completed(output: ValueSpec, now: ValueSpec, open_dims: Collection[str]) -> ValueSpec:
    """An output, completed by sizes and names that only ``now`` has; open dimensions of the inputs stay open."""
    if output.shape is None:
        return replace(output, shape=now.shape)
    if now.shape is None or len(output.shape) != len(now.shape):
        return output
    sizes = zip(output.shape, now.shape, strict=True)
    known = [
        size if dim is None or (isinstance(size, int) and isinstance(dim, str) and dim not in open_dims) else dim
        for dim, size in sizes
    ]
    return replace(output, shape=tuple(known))


def has_integers(scheme: str, quantizer: str | None) -> bool:
    """Whether a model of a scheme has integers in place of floats; a model in half precision does not.

    Args:
        scheme: A scheme of the quantizer, or ``none``.
        quantizer: The name of the quantizer, as for :func:`installed_quantizer`.
    """
    schemes = {known.name: known.has_integers for known in installed_quantizer(quantizer).schemes}
    return scheme != NONE and schemes.get(scheme, True)


def timed_threads() -> int:
    """The number of threads to time candidates on: that of the processors of this process, up to :data:`MOST_THREADS`.

    Which of two forms of a model is faster depends on it: a second processor speeds up only some of the operators.
    """
    return min(usable_processors(), MOST_THREADS)


def refused(target: Target, profile: Profile) -> Mapping[str, str]:
    """The schemes of a quantizer that the device cannot take, each with the reason."""
    reasons: Mapping[str, str] = target.placement(profile).get("refuses", {})
    return reasons


def require_scheme(
    scheme: str,
    own_schemes: Sequence[str] = (),
    *,
    available: bool,
    refused: Mapping[str, str] | None = None,
    option: str = "--quantize",
    quantizer: str | None = None,
    may_stay_float: bool = True,
) -> None:
    """Checks a scheme before any work starts.

    Args:
        scheme: The scheme that was asked for.
        own_schemes: The target's own schemes.
        available: Whether there are samples.
        refused: The schemes that the target cannot take, each with the reason.
        option: The option that asked for the scheme.
        quantizer: The name of the quantizer; None for the one that :func:`installed_quantizer` prefers.
        may_stay_float: Whether :data:`NONE` is a scheme as well.

    Raises:
        InputError: Neither the quantizer nor the target has the scheme, the target cannot take it, or it needs samples
            and there are none.
    """
    unquantized = (NONE,) if may_stay_float else ()
    if scheme in (*unquantized, *own_schemes):
        return
    schemes = {known.name: known for known in installed_quantizer(quantizer).schemes}
    reasons = refused or {}
    names = (*(name for name in schemes if name not in reasons), *unquantized, *own_schemes)
    known = tuple(dict.fromkeys(names))
    if scheme in reasons:
        raise InputError(
            "the target cannot take it", subject=f"{option} {scheme}", expected=" | ".join(known), found=reasons[scheme]
        )
    if scheme not in known:
        raise InputError(
            "unknown scheme",
            subject=option,
            expected=" | ".join(known),
            found=scheme,
            hint=did_you_mean(scheme, known),
        )
    if schemes[scheme].needs_samples and not available:
        without = [name for name in dict.fromkeys(known) if name not in schemes or not schemes[name].needs_samples]
        raise InputError(
            "quantization needs samples to calibrate on",
            subject=f"{option} {scheme}",
            expected="a folder of samples",
            found="none",
            hint=f"give --data DIR, or one that needs none: {', '.join(without)}",
        )

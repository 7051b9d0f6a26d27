"""Scores candidates, here or in other processes.

Other processes receive pickled data (:mod:`pickle`): the judge with the kept samples, and the candidate as an ONNX
message.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import dataclass, replace

import onnx
import onnx_ir as ir

from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.model import PROTOBUF_LIMIT, Model
from edgekit.quantizer import CandidateError, has_others, others_of, shipped_of, timed_of
from edgekit.target import Runner
from edgekit_quantize.calibration.references import Reference
from edgekit_quantize.graph.session import SessionRunner
from edgekit_quantize.search.other_ways import OtherWays
from edgekit_quantize.search.score import Score, with_more, worst_of
from edgekit_quantize.search.scoring import Run, Scorer


@dataclass(frozen=True)
class Judge:
    """Opens candidates, and scores them."""

    scorer: Scorer
    execute: Callable[[Model], Runner] | None = None
    """Builds a candidate for the target, and opens it; None executes it with ONNX Runtime."""
    max_drop: float | None = None
    """The budget. First scores use only as many samples as are needed to tell whether a candidate may hold it; None
    uses all samples."""
    other_ways: OtherWays | None = None
    """Counts the changed runs of a decoder that is inside the graph as a whole; None for other models."""

    def open(self, candidate: Model) -> Runner:
        """A runner that executes the candidate."""
        return SessionRunner(candidate.graph_model) if self.execute is None else self.execute(candidate)

    def score(self, candidate: Model) -> Score | CandidateError:
        """Open a candidate, and score it in the setting in which it is timed; if that fails, return the error."""
        try:
            return self.first_scores_of([self.open(candidate)])[0]
        except CandidateError as error:
            return error

    def first_scores_of(self, opened: Sequence[Runner]) -> list[Score | CandidateError]:
        """The scores of open candidates, in the setting in which they are timed."""
        return self._marked(self.scorer.at_first(_as_timed(opened), self.max_drop), opened)

    def first_scores_with(self, part: Judge, opened: Sequence[Runner]) -> list[list[Score | CandidateError]]:
        """:meth:`first_scores_of` this judge, and of one with the same budget on a part of the samples."""
        own, of_part = self.scorer.at_first_with(part.scorer, _as_timed(opened), self.max_drop)
        return [self._marked(own, opened), part._marked(of_part, opened)]

    def _marked(
        self, found: Sequence[Score | CandidateError], opened: Sequence[Runner]
    ) -> list[Score | CandidateError]:
        """The scores, those that are not complete marked as such."""
        return [
            replace(score, complete=not (has_others(runner) or self._tells_too_little(score)))
            if isinstance(score, Score)
            else score
            for score, runner in zip(found, opened, strict=True)
        ]

    def worst_score_of(self, opened: Runner) -> Score | CandidateError:
        """The score of an open candidate in the worst of all its settings."""
        return self.scorer.of_settings([_named([timed_of(opened), *others_of(opened)])])[0]

    def completed(
        self,
        candidate: Model,
        score: Score,
        still_open: Runner | None = None,
        left_out: Callable[[], Iterable[Reference]] | None = None,
    ) -> Score | CandidateError:
        """The worst of a candidate's scores: in the setting in which it is timed and in the others; or its error.

        A candidate that was scored on a part of the samples is scored on all of them as it ships, and in further
        settings if it holds the budget there.

        If few decisions are counted, further samples are scored in the setting in which the candidate is timed, so that
        one of many candidates does not hold the budget by chance. For the same reason, the choices of a decoder count
        by how near they are to changing.

        Args:
            candidate: The candidate; it is opened again unless ``still_open`` is given.
            score: The score in the setting in which it is timed.
            still_open: The open runner of the candidate.
            left_out: Returns samples that were not kept, with the float model's answers.
        """
        try:
            found = self._in_all_settings(candidate, score, still_open, left_out)
            if self.other_ways is None or isinstance(found, CandidateError):
                return found
            return self.other_ways.counted(found, candidate.graph_model, self.scorer.references)
        except CandidateError as error:
            return error

    def _in_all_settings(
        self,
        candidate: Model,
        score: Score,
        still_open: Runner | None,
        left_out: Callable[[], Iterable[Reference]] | None,
    ) -> Score | CandidateError:
        opened = self.open(candidate) if still_open is None else still_open
        others: Sequence[Runner] | None = None
        if score.samples is not None:
            shipped = shipped_of(opened)
            (whole,) = self.scorer.of_settings([_named([shipped])])
            if isinstance(whole, CandidateError):
                return whole
            score = replace(whole, sqnr_db=score.sqnr_db, in_settings={**score.in_settings, **whole.in_settings})
            if self.max_drop is not None and score.drop > self.max_drop:
                return score
            others = [runner for runner in others_of(opened) if runner is not shipped]
        known = [score]
        if left_out is not None and self._needs_more(score):
            (more,) = self.scorer.of_settings([_named([timed_of(opened)])], left_out())
            if isinstance(more, CandidateError):
                return more
            known = [with_more(score, more)]
        others = others_of(opened) if others is None else others
        found = self.scorer.of_settings([_named(others)])[0] if others else known[0]
        return worst_of([*known, found]) if isinstance(found, Score) else found

    def _tells_too_little(self, score: Score) -> bool:
        return score.samples is not None or self._needs_more(score) or self.other_ways is not None

    def _needs_more(self, score: Score) -> bool:
        return score.is_of_few and self.scorer.references.left_out > 0


def _as_timed(opened: Sequence[Runner]) -> list[list[tuple[str, Run]]]:
    return [_named([timed_of(runner)]) for runner in opened]


def _named(runners: Sequence[Runner]) -> list[tuple[str, Run]]:
    return [(runner.executed_by, runner.run) for runner in runners]


def scores(
    judge: Judge, candidates: Sequence[Model], executor: Executor, done: Callable[[int], None]
) -> list[Score | CandidateError]:
    """The candidates' scores, or the errors that they failed with, in order; pending work is canceled on an error.

    Args:
        judge: Scores candidates in every worker.
        candidates: The candidates.
        executor: The workers.
        done: Called with the number of candidates that are scored.

    Raises:
        InputError: A candidate is too large to be sent to a worker.
        InternalError: A worker failed or ended.
        edgekit.errors.EdgeKitError: The judge raised it.
    """
    for candidate in candidates:
        if candidate.weight_bytes > PROTOBUF_LIMIT:
            raise InputError(
                "the model is too large for a worker",
                expected=f"at most {PROTOBUF_LIMIT} bytes of weights",
                found=candidate.weight_bytes,
                hint="evaluate in this process: leave out --workers and --cluster",
            )
    at_work = replace(judge, other_ways=None)  # it holds a model, and is only needed for candidates that would ship
    futures = [executor.submit(at_work.score, candidate) for candidate in candidates]
    try:
        for count, future in enumerate(as_completed(futures), 1):
            _result(future)
            done(count)
        found = [_result(future) for future in futures]
        return found if judge.other_ways is None else [_incomplete(each) for each in found]
    finally:
        for future in futures:
            future.cancel()


def _incomplete(score: Score | CandidateError) -> Score | CandidateError:
    return replace(score, complete=False) if isinstance(score, Score) else score


def _result(future: Future[Score | CandidateError]) -> Score | CandidateError:
    try:
        return future.result()
    except EdgeKitError:
        raise
    except BrokenExecutor as error:
        raise InternalError(
            "a worker process ended in the middle of its work",
            subject="--workers",
            hint="it may have run out of memory: give fewer --workers, or leave --workers out",
        ) from error
    except Exception as error:  # an error of a worker's own code or of a cluster can have any type
        raise InternalError(
            f"a worker failed: {type(error).__name__}: {error}",
            subject="--workers or --cluster",
            hint="leave --workers and --cluster out to do the same work in this process",
        ) from error


def _message(model: ir.Model) -> tuple[Callable[[bytes], ir.Model], tuple[bytes]]:
    return _model, (Model(model).proto().SerializeToString(),)


def _model(message: bytes) -> ir.Model:
    model: ir.Model = ir.from_proto(onnx.ModelProto.FromString(message))
    return model


copyreg.pickle(ir.Model, _message)

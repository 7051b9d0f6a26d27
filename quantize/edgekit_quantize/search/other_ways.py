"""Estimates how many runs of a decoder inside the graph take other choices with a candidate.

A changed choice changes all that follow. With few samples, one observes either no change or a complete one, and among
many candidates one shows no change by chance. How near each choice is to changing, however, is known for every sample
(:mod:`edgekit_quantize.search.margins`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from edgekit.execution.reference import NotRunnableError
from edgekit.quantizer import CandidateError
from edgekit_quantize.calibration.collect import with_outputs
from edgekit_quantize.calibration.references import Reference
from edgekit_quantize.graph.own_choices import axis_of_classes, chosen, own_choices
from edgekit_quantize.graph.session import SessionRunner
from edgekit_quantize.search.margins import Margins
from edgekit_quantize.search.score import HeadKept, Score

Steps = list[np.ndarray]
"""The scores of successive choices, ``[rows, classes]`` each."""


@dataclass(frozen=True)
class OtherWays:
    """Compares the choices of the float model's decoder with those of candidates."""

    model: ir.Model
    """The prepared float model that candidates are written from."""
    choices: Sequence[str]
    """See :func:`edgekit_quantize.graph.own_choices.own_choices`."""

    @classmethod
    def of(cls, model: ir.Model) -> OtherWays | None:
        """The comparison for a model; None if it has no decoder whose choices depend on earlier ones."""
        choices = own_choices(model.graph)
        return cls(model, choices) if choices else None

    def counted(self, score: Score, candidate: ir.Model, references: Iterable[Reference]) -> Score:
        """The score, with the expected share of runs whose choices stay the same as a further head.

        Args:
            score: The score by the outputs.
            candidate: The candidate, which ONNX Runtime executes.
            references: The samples.

        Raises:
            CandidateError: ONNX Runtime does not execute the candidate.
        """
        margins = Margins()
        changed = runs = 0
        try:
            right, other = _Watched(self.model, self.choices), _Watched(candidate, self.choices)
            for reference in references:
                of_sample = _Ways(right.steps(reference.feeds), other.steps(reference.feeds), margins)
                changed, runs = changed + of_sample.changed, runs + of_sample.runs
        except NotRunnableError as error:
            raise CandidateError(error.message) from error
        if not margins.count:
            return score
        each = margins.count / runs
        expected = 1 - each * (1 - margins.expected_of_the_nearest(1 / each))
        kept = max(0.0, min(expected, 1 - changed / runs))
        return replace(score, heads={**score.heads, self.choices[0]: HeadKept(kept, runs, inside=True)})


class _Watched:
    """A model that also outputs the scores that its decoder chooses by."""

    def __init__(self, model: ir.Model, choices: Sequence[str]) -> None:
        nodes = {choice.name: node for node in model.graph.all_nodes() if (choice := chosen(node)) is not None}
        scores = [nodes[name].inputs[0] for name in choices]
        self._axes = [axis_of_classes(nodes[name]) for name in choices]
        self._names = [str(value.name) for value in scores if value is not None]
        self._distinct = [*dict.fromkeys(self._names)]
        self._runner = SessionRunner(with_outputs(model, self._distinct))

    def steps(self, feeds: Mapping[str, np.ndarray]) -> Steps:
        """The scores of a sample's choices, in the order in which they are made."""
        found = dict(zip(self._distinct, self._runner.run(feeds).values(), strict=True))
        of_choices = [_rounds(found[name]) for name in self._names]
        longest = max(map(len, of_choices))
        return [
            np.moveaxis(rounds[count], axis, -1).reshape(-1, rounds[count].shape[axis])
            for count in range(longest)
            for rounds, axis in zip(of_choices, self._axes, strict=True)
            if count < len(rounds)
        ]


class _Ways:
    """The runs of one sample: each row of the scores if all steps have the same number of rows; else all together."""

    def __init__(self, right: Steps, other: Steps, margins: Margins) -> None:
        rows = {len(step) for step in right}
        alone = len(rows) == 1
        on_its_way = np.ones(rows.pop() if alone else 1, bool)
        for expected, found in zip(right, other, strict=False):  # a run with other choices may end earlier
            same = on_its_way if alone else np.repeat(on_its_way, len(expected))
            if expected.shape != found.shape or not same.any():
                break
            margins.add(expected[same], found[same])
            stays = expected.argmax(-1) == found.argmax(-1)
            on_its_way &= stays if alone else stays.all()
        self.runs, self.changed = on_its_way.size, int((~on_its_way).sum())


def _rounds(found: np.ndarray | list[np.ndarray]) -> list[np.ndarray]:
    return found if isinstance(found, list) else [found]

"""The quantizer that ships with EdgeKit: post-training quantization, calibrated on samples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.comparison.boxes.detectors import UNDECLARED
from edgekit.comparison.boxes.near import nearly_recognised
from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.meaning import SEEN, as_shown, meaning_of
from edgekit.comparison.meaning_accuracy import ANCHORS, BOXES, PEAKS, TEXT
from edgekit.comparison.padding import padding_on
from edgekit.data.samples import Samples
from edgekit.errors import InputError
from edgekit.features.class_scores import EMBEDDINGS
from edgekit.graph.single_precision import in_single_precision
from edgekit.model import Model
from edgekit.quantizer import (
    CandidateError,
    QuantizationRequest,
    QuantizationResult,
    Quantizer,
    Scheme,
    require_search_of_sizes,
)
from edgekit.target import Runner
from edgekit_quantize.calibration.statistics import Calibration
from edgekit_quantize.graph.quantized_already import quantized_already
from edgekit_quantize.graph.session import SessionRunner
from edgekit_quantize.prepare import prepared
from edgekit_quantize.prepare.blocks import inputs_first
from edgekit_quantize.prepare.equalize import equalize
from edgekit_quantize.prepare.gemms import split_gemms
from edgekit_quantize.prepare.hardswish import with_hardswish
from edgekit_quantize.results import Results, layer_records, no_smaller, result_of
from edgekit_quantize.rounding.held_out import Parts
from edgekit_quantize.rounding.shared import SharedRounding
from edgekit_quantize.schemes import (
    HALF,
    SCHEMES,
    different,
    each_sample_alone,
    name_among_different,
    placement_of,
    with_float_weights,
)
from edgekit_quantize.search.bench import Bench, Candidate
from edgekit_quantize.search.choices import decides, tells_words
from edgekit_quantize.search.choices_beside import (
    choices_beside,
    choosing_like,
    heads_of,
    is_first_made_into,
    signals_of,
)
from edgekit_quantize.search.costs import MeasuredCosts
from edgekit_quantize.search.left_out import LeftOut
from edgekit_quantize.search.margins import FEW_DECISIONS
from edgekit_quantize.search.other_ways import OtherWays
from edgekit_quantize.search.score import AGREEMENT, EXPLAINED, LABELS
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.search import NO_WEIGHTS, Outcome, Search
from edgekit_quantize.search.workers import Judge
from edgekit_quantize.settings import Placement, Settings
from edgekit_quantize.shared_calibration import calibrated, feeds_of
from edgekit_quantize.sizing.frontier_search import Sizing
from edgekit_quantize.writing.candidate import write
from edgekit_quantize.writing.float16 import in_half_precision
from edgekit_quantize.writing.written import Written

MAX_DROP = {
    **dict.fromkeys((LABELS, AGREEMENT, ANCHORS, BOXES, PEAKS, TEXT, EMBEDDINGS), 0.01),
    EXPLAINED: 0.003,
}
"""The default budget: how much of each metric may be lost; 0.003 of a signal's power is 25 dB. The default is stricter
than the verification of a bundle, which measures on samples that the search did not use."""
ENOUGH_TO_SPLIT = 16
"""With at least ENOUGH_TO_SPLIT samples, one half of the samples rounds the weights and the other half scores them.
Where labels, boxes or characters are counted, the threshold is twice
:data:`edgekit_quantize.search.margins.FEW_DECISIONS`."""
FEWEST_TO_SPLIT = 4
"""The same for the explained variance in a search for the fastest model, which tries few forms."""
MAX_DROP_OF_EVALUATION = 0.01
"""The default budget with an evaluation function of the project: a share of its value for the float model."""

HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""Element types that are replaced by float32 in the model that candidates are written from."""
IN_HALF = "weights in half precision"
"""The name of the candidate that the scheme :data:`HALF` writes."""
ROUNDING_DROP = 1e-4
"""The drop of a metric that is explained by float32 operations in a different order."""


class PostTrainingQuantizer(Quantizer):
    """Writes candidates for the target, executes them there, and keeps the fastest that holds the accuracy budget.

    Schemes: ``auto`` and ``int8`` measure the candidates of the target. ``auto`` never returns a model slower than the
    float one; ``int8`` leaves out candidates that only store weights as integers, unless the target has no others.
    ``int8-weights`` and ``int4-weights`` store weights as integers, ``float16`` in half precision; ``int8-dynamic``
    multiplies matrices with activations that are quantized in every run. These four schemes need no samples; if there
    are samples, the budget applies.
    """

    contract_version = 1
    name: ClassVar[str] = "edgekit"

    @property
    def schemes(self) -> Sequence[Scheme]:
        """See :data:`edgekit_quantize.schemes.SCHEMES`."""
        return SCHEMES

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        """Quantize as requested; see :class:`edgekit.quantizer.Quantizer`."""
        names = [scheme.name for scheme in SCHEMES]
        if request.scheme not in names:
            raise InputError("unknown scheme", subject=request.scheme, expected=", ".join(names))
        if not request.half_weights and request.scheme != HALF:
            request = replace(request, placement=with_float_weights(request.placement, "float32"))
        elif request.model.has_half_floats:
            request = replace(request, placement=with_float_weights(request.placement, HALF))
        sized = request.smallest or request.max_bytes is not None
        if request.scheme == "auto" and not sized and request.samples is not None and _has_no_weights(request):
            record = {"scheme": "none", "reason": NO_WEIGHTS, "samples": len(request.samples), "warnings": []}
            return QuantizationResult(request.model, record)
        if sized:
            sampled = request.samples is not None
            require_search_of_sizes(
                request.scheme, sampled=sampled, smallest=request.smallest, max_bytes=request.max_bytes
            )
        asked = placement_of("int8-weights" if sized else request.scheme, request.placement)
        model = _prepared(request, asked)
        tried = each_sample_alone(asked.candidates, model.graph) if request.scheme == "auto" else asked.candidates
        placement = Placement(asked.preparation, different(tried, model.graph))
        if request.choice is not None:
            request = replace(request, choice=name_among_different(request.choice, tried, model.graph))
        if request.samples is None:
            return _without_samples(request, model, placement)
        calibration, samples = calibrated(model, placement, request.samples, request.model, request.progress)
        request = replace(request, samples=samples)
        scorer = _scorer(request, calibration, samples)
        max_drop = request.max_drop
        if max_drop is None:
            max_drop = MAX_DROP.get(scorer.metric, MAX_DROP_OF_EVALUATION)
            scorer = replace(scorer, head_weight=max_drop / MAX_DROP[AGREEMENT])
        if request.smallest or request.max_bytes is not None:
            return _sized(request, model, placement, calibration, scorer, max_drop)
        judge = Judge(scorer, request.execute, max_drop, OtherWays.of(model))
        in_float = _InFloat(request.model, judge)
        bench = _bench(request, judge, in_float)
        outcome = _search(request, model, placement, calibration, bench, max_drop)
        return Results(request, model, calibration, bench, outcome, max_drop, lambda: in_float.model).best()


def _has_no_weights(request: QuantizationRequest) -> bool:
    """Whether no candidate can be smaller than the model, and none is asked for by name."""
    return request.choice is None and request.model.weight_bytes == 0


def _sized(
    request: QuantizationRequest,
    model: ir.Model,
    placement: Placement,
    calibration: Calibration,
    scorer: Scorer,
    max_drop: float,
) -> QuantizationResult:
    """The result of a search for the smallest model.

    If there are enough samples, one half of them rounds the weights and the other half scores the candidates.
    """
    fits: Callable[[int], bool] | None = None
    if _has_enough_to_split(calibration, scorer):
        judged, parity = calibration.references.every_other()
        calibration, fits = replace(calibration, references=judged), lambda place: place % 2 != parity
        assert request.samples is not None
        scorer = replace(_scorer(request, calibration, request.samples), head_weight=scorer.head_weight)
    return Sizing(request, model, placement, calibration, replace(scorer, by_margins=True), max_drop, fits).run()


def _has_enough_to_split(calibration: Calibration, scorer: Scorer) -> bool:
    """Whether one half of the samples can be fitted to, and the other half judge.

    Metrics of margins and of error powers need ``ENOUGH_TO_SPLIT`` samples for that, as every sample contributes a
    number; metrics that count events need more.
    """
    enough = ENOUGH_TO_SPLIT if scorer.metric in {AGREEMENT, EXPLAINED, EMBEDDINGS} else 2 * FEW_DECISIONS
    return calibration.samples >= enough and len(calibration.references) > 1


def _prepared(request: QuantizationRequest, placement: Placement) -> ir.Model:
    """The float model in the form from which all candidates are written."""
    preparation = placement.preparation
    single = in_single_precision(request.model.graph_model, HALVES)
    model = prepared(single, padded_shifts_as_convolutions=preparation.padded_shifts_as_convolutions)
    if preparation.equalize:
        equalize(model.graph)
    if preparation.gemms_as_products:
        split_gemms(model)
    if any(settings.block for settings in placement.candidates.values()):
        inputs_first(model)
    return model


def _without_samples(request: QuantizationRequest, model: ir.Model, placement: Placement) -> QuantizationResult:
    """The result of a scheme that needs no samples: its one candidate, not measured."""
    if any(scheme.needs_samples for scheme in SCHEMES if scheme.name == request.scheme):
        raise InputError(
            "quantization of activations needs samples",
            hint="give a folder of samples, or ask for int8-weights, which needs none",
        )
    (settings,) = placement.candidates.values()
    written = in_half_precision(model) if settings.is_half else write(model, settings, {})
    warnings = [*filter(None, [quantized_already(request.model.graph_model)])]
    layers = layer_records(model, settings, written, {})
    record = {"scheme": request.scheme, "samples": 0, "warnings": warnings, "layers": layers}
    return no_smaller(request, written, record) or result_of(request, written, record)


def _scorer(request: QuantizationRequest, calibration: Calibration, samples: Samples) -> Scorer:
    if request.evaluation is None:
        model = request.model
        padding = padding_on(samples, SessionRunner(model.graph_model), model)
        references = calibration.references
        if padding is not None:
            references = references.without_padding(padding)
        seen = [*islice(references, SEEN)]
        answers = [reference.outputs for reference in seen]
        classes = len(model.class_names) or None
        inputs = model.fed_inputs
        if not model.open_dims:
            inputs = as_shown(inputs, [reference.feeds for reference in seen])
        meaning = meaning_of(answers, inputs, classes, model.declared, model.graph, model.class_names)
        first = (model.graph.outputs[0].name if model.graph.outputs else None) or ""
        decisions = decisions_of(model)
        decision, beside = decisions.get(first, Decision()), choices_beside(model.graph, decisions)
        guessed = decision is None or not decision.is_known
        # boxes end like classes: if another output is declared to be classes, the first one is not
        is_other = guessed and bool(beside) and not is_first_made_into(model.graph, beside)
        scorer = Scorer.by_references(
            references,
            classes=decision is not None and ((decides(model.graph) and not is_other) or tells_words(model)),
            meaning=meaning,
            choice=model.class_choice,
            decision=decision,
            beside=heads_of(model.graph, decisions),
            signals=signals_of(model.graph, decisions),
            alike=functools.partial(choosing_like, model.graph),
        )
        near = None
        if meaning is None and not model.states and not model.open_dims:
            near = nearly_recognised(answers, inputs, classes, model.declared or UNDECLARED)
        return replace(scorer, padding=padding, unread=scorer.unread if near is None else str(near))
    original = SessionRunner(request.model.graph_model)
    return Scorer.by_evaluation(calibration.references, request.evaluation, samples, original.run)


def _search(
    request: QuantizationRequest,
    model: ir.Model,
    placement: Placement,
    calibration: Calibration,
    bench: Bench,
    max_drop: float,
) -> Outcome:
    """Writes candidates and measures them."""

    def report(done: int, total: int) -> None:
        if request.progress is not None:
            request.progress("rounding weights adaptively", done, total)

    once_more = functools.partial(_feeds_once_more, request)
    rounding = SharedRounding(model, calibration.tensors, once_more, report, _parts(calibration, bench.judge.scorer))
    bench.judge_of_others = functools.partial(_judge_of_others, rounding, bench.judge)

    def written(settings: Settings, keep_float: Collection[str], adaptive: bool) -> Written:
        if settings.is_half:
            return in_half_precision(model)
        chosen = {**rounding.recurrent(settings), **(rounding.layers(settings, keep_float) if adaptive else {})}
        return write(model, settings, calibration.tensors, keep_float, chosen)

    first = next(iter(placement.candidates.values()))

    def in_half() -> Candidate:
        (settings,) = placement_of(HALF, request.placement).candidates.values()
        return IN_HALF, settings, written(settings, (), False)

    search = Search(
        bench,
        written,
        MeasuredCosts(model, calibration, request.progress),
        max_drop,
        auto=request.scheme == "auto",
        choice=request.choice,
        in_half=in_half if request.scheme == "auto" and first.float_weights == HALF else None,
        prefers_integers=bool(request.placement.get("prefers_integers")),
    )
    outcome = search.run(placement.candidates)
    best = outcome.best
    if request.explain and best is not None and best.written.restricted and bench.original is not None:
        settings = replace(best.settings, sums_in_int16=False)
        free = write(model, settings, calibration.tensors, best.written.keep_float, rounding.recurrent(settings))
        for trial in bench.measured([(f"{best.name}, unrestricted", settings, free)]):
            outcome.unrestricted = trial if bench.complete(trial) else None
    bench.original = None
    bench.close()
    return outcome


def _parts(calibration: Calibration, scorer: Scorer) -> Parts:
    """How the samples are divided for layers that see few rows."""
    few = scorer.metric == EXPLAINED and calibration.samples >= FEWEST_TO_SPLIT and len(calibration.references) > 1
    if scorer.evaluation is None and (few or _has_enough_to_split(calibration, scorer)):  # a function gets all samples
        return Parts(calibration.samples, calibration.references.every_other()[1])
    return Parts(calibration.samples)


def _judge_of_others(rounding: SharedRounding, judge: Judge, written: Written) -> Judge | None:
    """The judge of a candidate on the samples that its weights were not fitted to; None if they were fitted to all."""
    if rounding.of_part.isdisjoint(written.rounded_adaptively):
        return None
    return replace(judge, scorer=judge.scorer.among_every_other())


def _bench(request: QuantizationRequest, judge: Judge, in_float: _InFloat) -> Bench:
    scorer = judge.scorer
    original = in_float.opened() if request.latency_counts and request.execute is not None else None
    left_out = LeftOut(scorer.references, lambda: SessionRunner(request.model.graph_model).run, scorer.padding)
    return Bench(judge, request.model, original, left_out, executor=request.executor, progress=request.progress)


def _feeds_once_more(request: QuantizationRequest) -> Iterator[dict[str, np.ndarray]]:
    """The samples' inputs, read again; progress is reported."""
    samples = request.samples
    if samples is None:
        return
    for count, feeds in enumerate(feeds_of(samples, request.model)):
        if request.progress is not None:
            request.progress("measuring what enters the weights", count, len(samples))
        yield feeds


@dataclass
class _InFloat:
    """The float model, with HardSwish nodes instead of their decomposition if that changes no answer.

    OpenVINO runs HardSigmoid as a separate operation. A MobileNetV3 takes 1.6 times as long with it, so candidates that
    are compared with it would appear faster by that factor, whatever they compute with.
    """

    given: Model
    judge: Judge
    _runner: Runner | None = None
    """The runner that executed the model when its answers were compared."""

    @functools.cached_property
    def model(self) -> Model:
        """The float model with HardSwish nodes, or the given model if these are not possible or change answers."""
        fused = with_hardswish(self.given.graph_model)
        if fused is None:
            return self.given
        with_one_operator = self.given.with_graph(fused)
        try:
            runner = self.judge.open(with_one_operator)
            (score,) = self.judge.first_scores_of([runner])
        except CandidateError:
            return self.given
        if isinstance(score, CandidateError) or score.drop > ROUNDING_DROP:
            return self.given
        self._runner = runner
        return with_one_operator

    def opened(self) -> Runner:
        """A runner of the model: at the first call the one that compared answers, which is then no longer kept."""
        model = self.model
        runner, self._runner = self._runner, None
        return self.judge.open(model) if runner is None else runner

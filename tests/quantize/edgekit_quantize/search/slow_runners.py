"""A search among candidates whose runners are as slow and as wrong as a test says."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from edgekit.model import Model
from edgekit.progress import Step
from edgekit.quantizer import CandidateError, Opened
from edgekit_quantize.accounts.account import INTEGERS, STORED, LayerAccount
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search.bench import Bench, Write
from edgekit_quantize.search.in_float import LayerNoise, StoredCosts
from edgekit_quantize.search.score import EXPLAINED
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.search import Outcome, Search
from edgekit_quantize.search.workers import Judge
from edgekit_quantize.settings import Preparation, Settings
from edgekit_quantize.writing.written import Written

FLOAT_S = 2e-3
FLOAT_SIZE, SIZE = 400, 100
ONES = np.ones(4, np.float32)
TWO_LAYERS = {"a layer": LayerNoise(97, 1), "another": LayerNoise(3, 1)}


@dataclass
class Slow:
    """Answers with an error of a given size after a given time."""

    seconds: float
    error: float
    size: int = SIZE
    executed_by: str = "a test"

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        CLOCK.seconds += self.seconds
        return {"y": feeds["x"] + np.float32(self.error)}


@dataclass
class Broken(Slow):
    """Cannot be run."""

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        raise CandidateError("cannot be run: no kernel")


@dataclass
class Disturbed(Slow):
    """Takes ten times as long for a while, as on a machine that does something else."""

    runs: int = 15

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.runs -= 1
        CLOCK.seconds += 9 * self.seconds if self.runs > 0 else 0
        return super().run(feeds)


@dataclass
class Busy(Slow):
    """Takes three times as long, and longer each time, as on a machine that others use more and more until they end."""

    runs: int = 0
    disturbed: int = 0

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.runs += 1
        if self.runs <= self.disturbed:
            CLOCK.seconds += self.seconds * (2 + self.runs / 10)
        return super().run(feeds)


@dataclass
class Unsteady(Slow):
    """Takes a hundredth longer at every run, so that no turns agree, as on a machine that is busier all the time."""

    runs: int = 0

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.runs += 1
        CLOCK.seconds += self.seconds * self.runs / 100
        return super().run(feeds)


@dataclass
class CostsAsTold:
    """The costs of layers, as a test sets them."""

    of_integers: Mapping[str, LayerNoise]
    of_stored: StoredCosts
    noises_in_stored: Mapping[str, LayerNoise] = field(default_factory=dict)

    def noises(self, of: Written, settings: Settings) -> Mapping[str, LayerNoise]:
        return self.of_integers

    def stored(self, of: Written, settings: Settings) -> StoredCosts:
        return self.of_stored

    def noises_of_stored(self, of: Written, settings: Settings, write: Write) -> Mapping[str, LayerNoise]:
        return self.noises_in_stored


class Clock:
    """A clock that advances only while a runner computes."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


CLOCK = Clock()


def model_of(size: int) -> ir.Model:
    weights = ir.tensor(np.zeros(size, np.int8), name="w")
    value = ir.Value(name="w", const_value=weights)
    return ir.Model(ir.Graph([], [], nodes=[], initializers=[value]), ir_version=10)


def chosen(
    candidates: Mapping[str, Slow | Opened],
    *,
    auto: bool = True,
    max_drop: float = 0.01,
    layers: Mapping[str, LayerNoise] = TWO_LAYERS,
    stored: StoredCosts | None = None,
    written: Callable[[Collection[str], bool], object] = lambda keep_float, adaptive: None,
    progress: Step | None = None,
    answer: np.ndarray = ONES,
    metric: str = EXPLAINED,
    timed: bool = True,
    choice: str | None = None,
    activations: Mapping[str, str] | None = None,
    only_stored: Collection[str] = (),
    noises_in_stored: Mapping[str, LayerNoise] = types.MappingProxyType({}),
    of_part: Judge | None = None,
) -> Outcome:
    models = {name: model_of(SIZE if isinstance(form, Opened) else form.size) for name, form in candidates.items()}
    runners = {id(models[name]): runner for name, runner in candidates.items()}
    kinds = {name: Preparation((activations or {}).get(name, "uint8")) for name in candidates}
    settings = {name: Settings(kinds[name], block=number) for number, name in enumerate(candidates)}
    names = dict(enumerate(candidates))
    scorer = Scorer(References.of([Reference({"x": answer}, {"y": answer})]), metric, 1.0)
    judge = Judge(scorer, lambda model: runners[id(model.graph_model)])
    bench = Bench(
        judge, Model(model_of(FLOAT_SIZE)), Slow(FLOAT_S, 0) if timed else None, progress=progress, clock=CLOCK
    )
    bench.judge_of_others = lambda of: of_part if of.rounded_adaptively else None

    def write(of: Settings, keep_float: Collection[str], adaptive: bool) -> Written:
        written(keep_float, adaptive)
        done, its_layers = (INTEGERS, [*layers]) if stored is None else (STORED, [*stored.by_error])
        done = STORED if names[of.block] in only_stored else done
        accounts = [LayerAccount(name, "Conv", done, "") for name in its_layers]
        return Written(models[names[of.block]], accounts, rounded_adaptively=its_layers if adaptive else ())

    costs = CostsAsTold(layers, stored or StoredCosts({}, {}), noises_in_stored)
    return Search(bench, write, costs, max_drop, auto=auto, choice=choice).run(settings)

"""Adaptively rounded weights for all candidates of a profile, which share the measurements on the samples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from edgekit.processes.memory import free_unused
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.integers.stored_weights import RECURRENT, stored_name
from edgekit_quantize.placement import Plan, place
from edgekit_quantize.rounding.adaptive import Chosen, adaptively_rounded
from edgekit_quantize.rounding.held_out import EVERY_OTHER, Parts, Seconds
from edgekit_quantize.rounding.recurrent import adaptively_rounded_recurrence
from edgekit_quantize.settings import Settings


@dataclass
class SharedRounding:
    """Rounds weights on demand, and each layer at most once in each form.

    Args:
        model: The prepared float model.
        tensors: The activations' statistics from calibration.
        feeds: Reads the samples.
        done: Called with the number of layers that are rounded and the total.
        parts: How the samples are divided.
    """

    model: ir.Model
    tensors: Mapping[str, TensorStatistics]
    feeds: Callable[[], Iterable[Mapping[str, np.ndarray]]]
    done: Callable[[int, int], None]
    parts: Parts = EVERY_OTHER
    of_part: set[str] = field(default_factory=set)
    """The names of layers whose weights were fitted to one part of the samples."""
    _moments: dict[Hashable, Seconds] = field(default_factory=dict)
    _by_settings: dict[int, tuple[Settings, Mapping[str, np.ndarray]]] = field(default_factory=dict)
    """A candidate's rounded weights with no layer kept in float, by the ``id`` of its settings; these are stored with
    them, so that their ``id`` is not reused."""
    _in_float: dict[str, np.ndarray] = field(default_factory=dict)
    """The stored weights of layers that compute in float in some candidate."""

    @functools.cached_property
    def _recurrence(self) -> Mapping[str, np.ndarray]:
        return self._taken(adaptively_rounded_recurrence(self.model, self.feeds, self.parts))

    def recurrent(self, settings: Settings) -> Mapping[str, np.ndarray]:
        """Integers for the weights of LSTM, GRU and RNN, by name; empty if the candidate stores none as integers."""
        stored = any(settings.layers.get(kind) == "weights" for kind in RECURRENT)
        return self._recurrence if stored else {}

    def layers(self, settings: Settings, keep_float: Collection[str] = ()) -> Mapping[str, np.ndarray]:
        """Integers for the weights of a candidate's layers, by name.

        Args:
            settings: The candidate's settings; the same object in each call.
            keep_float: Layers that compute in float, with weights that are stored as integers.
        """
        if id(settings) not in self._by_settings:
            rounded = self._rounded(place(self.model.graph, settings, tensors=self.tensors))
            self._by_settings[id(settings)] = settings, rounded
        _, chosen = self._by_settings[id(settings)]
        if keep_float:
            plan = place(self.model.graph, settings, keep_float, self.tensors)
            known = chosen.keys() | self._in_float.keys()
            further = [layer for layer in plan.stored if stored_name(layer) not in known]
            self._in_float.update(self._rounded(replace(plan, layers=[], stored=further)))
        return {**self._in_float, **chosen}

    def _rounded(self, plan: Plan) -> dict[str, np.ndarray]:
        free_unused()
        return self._taken(
            adaptively_rounded(self.model, plan, self.tensors, self.feeds, self.done, self._moments, self.parts)
        )

    def _taken(self, chosen: Chosen) -> dict[str, np.ndarray]:
        self.of_part |= chosen.of_part
        return chosen.integers

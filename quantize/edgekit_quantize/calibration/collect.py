"""Runs the float model over the samples, and passes the tensors it computes to an observer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from edgekit.processes.matrix_products import on_one_thread
from edgekit.processes.processors import usable_processors
from edgekit_quantize.calibration.inner_values import hand_out
from edgekit_quantize.graph.nodes import static_shape
from edgekit_quantize.graph.session import session

WATCHED_BYTES = 256 * 2**20
"""How many bytes of observed tensors one run may output; more are spread over several runs of the same sample."""

Item = TypeVar("Item")
Found = np.ndarray | list[np.ndarray]
"""The value of a tensor in a run; for a tensor inside a branch or a loop, the values of all its executions."""
Observer = Callable[[str, np.ndarray], None]
"""Called with the name of a tensor and its value for one sample."""


def observe(
    model: ir.Model,
    names: Collection[str],
    feeds: Iterable[Mapping[str, np.ndarray]],
    observer: Observer,
    done: Callable[[int], None] | None = None,
) -> int:
    """Run the model over ``feeds`` and pass every tensor in ``names`` to ``observer``, sample by sample.

    A tensor of a branch is passed each time that the branch is taken, one of a loop once per iteration.

    Tensors that together exceed :data:`WATCHED_BYTES` are fetched in several runs, so that memory does not grow with
    the size of the model. The next run proceeds in a thread while the tensors of the last one are observed.

    Args:
        model: The float model; it is not changed.
        names: Values of the main graph, inputs included, and of its branches and loops.
        feeds: The inputs of each sample, by name; read once.
        observer: Called with each tensor.
        done: Called after each sample with the number of samples that are done.

    Returns:
        The number of samples.
    """
    fed = [value.name for value in model.graph.inputs if value.name and value.name in names]
    groups = _groups(model.graph, names)
    threads = max(1, usable_processors() - 1)  # one processor is for the observer
    sessions = [session(with_outputs(model, group), threads) if group else None for group in groups]
    last = len(groups) - 1
    count = 0

    def run(number: int, sample: Mapping[str, np.ndarray]) -> Sequence[Found]:
        opened = sessions[number]
        return [] if opened is None else opened.run(None, dict(sample))

    def runs() -> Iterator[tuple[int, Mapping[str, np.ndarray], Future[Sequence[Found]]]]:
        for sample in feeds:
            for number in range(len(groups)):
                yield number, sample, thread.submit(run, number, sample)

    with on_one_thread(), ThreadPoolExecutor(1) as thread:
        for number, sample, outputs in one_ahead(runs()):
            if number == 0:
                for name in fed:
                    observer(name, sample[name])
            for name, found in zip(groups[number], outputs.result(), strict=True):
                for array in found if isinstance(found, list) else [found]:
                    observer(name, array)
            if number == last:
                count += 1
                if done is not None:
                    done(count)
    return count


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items; each is yielded only after the next one has been taken from ``items``."""
    waiting: list[Item] = []
    for item in items:
        yield from waiting
        waiting = [item]
    yield from waiting


def with_outputs(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """A copy of the model whose outputs are the named values; values in branches and loops become sequences."""
    copy = model.clone()
    wanted = set(names)
    main = {value.name for node in copy.graph for value in node.outputs if value.name}
    inner = hand_out(copy.graph, wanted - main)
    values = inner | {value.name: value for node in copy.graph for value in node.outputs if value.name in main}
    copy.graph.outputs[:] = [values[name] for name in names]
    return copy


def _groups(graph: ir.Graph, names: Collection[str]) -> list[list[str]]:
    """The names of the tensors that each run outputs; one empty group if only inputs are to be observed."""
    groups: list[list[str]] = [[]]
    held = 0
    inner = (value for each in graph.subgraphs() for value in each.inputs)
    for value in itertools.chain((value for node in graph.all_nodes() for value in node.outputs), inner):
        if not value.name or value.name not in names:
            continue
        shape = static_shape(value)
        size = 4 * int(np.prod(shape)) if shape is not None else 0
        if groups[-1] and held + size > WATCHED_BYTES:
            groups.append([])
            held = 0
        groups[-1].append(value.name)
        held += size
    return groups

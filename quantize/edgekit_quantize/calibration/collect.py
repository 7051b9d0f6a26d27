"""Runs the float model over the samples and reduces what it computes as it streams by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph import static_shape
from edgekit_quantize.session import open_session

WATCHED_BYTES = 64 * 2**20
"""How many bytes of observed tensors one run may hand out; more are spread over several runs of the same sample."""

Observer = Callable[[str, np.ndarray], None]
"""Called with the name of a tensor and its value for one sample."""


def observe(
    model: ir.Model,
    names: Collection[str],
    feeds: Iterable[Mapping[str, np.ndarray]],
    observer: Observer,
    done: Callable[[int], None] | None = None,
) -> int:
    """Run the model over ``feeds`` and hand every tensor in ``names`` to ``observer``, sample by sample.

    Tensors that together exceed :data:`WATCHED_BYTES` are fetched in several runs, so that memory does not grow with
    the size of the model.

    Args:
        model: The float model; it is not changed.
        names: Values of the main graph, fed ones included.
        feeds: What to feed, by input name; read once.
        observer: Takes the tensors.
        done: Told after each sample how many are done.

    Returns:
        The number of samples.
    """
    fed = [value.name for value in model.graph.inputs if value.name and value.name in names]
    groups = _groups(model.graph, names)
    sessions = [open_session(with_outputs(model, group)) for group in groups]
    count = 0
    for count, sample in enumerate(feeds, 1):
        for name in fed:
            observer(name, sample[name])
        for session, group in zip(sessions, groups, strict=True):
            for name, array in zip(group, session.run(group, dict(sample)), strict=True):
                observer(name, array)
        if done is not None:
            done(count)
    return count


def with_outputs(model: ir.Model, names: Sequence[str]) -> ir.Model:
    """A copy of the model whose outputs are the named values of the main graph."""
    copy = model.clone()
    wanted = set(names)
    values = {value.name: value for node in copy.graph for value in node.outputs if value.name in wanted}
    copy.graph.outputs[:] = [values[name] for name in names]
    return copy


def _groups(graph: ir.Graph, names: Collection[str]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    held = 0
    for node in graph:
        for value in node.outputs:
            if not value.name or value.name not in names:
                continue
            shape = static_shape(value)
            size = 4 * int(np.prod(shape)) if shape is not None else 0
            if groups[-1] and held + size > WATCHED_BYTES:
                groups.append([])
                held = 0
            groups[-1].append(value.name)
            held += size
    return [group for group in groups if group]

"""Whether the model as it was exported runs on the samples that it is to be judged by.

A size that the exporter saw may be written into a constant although the dimension is free by the model's inputs. Such a
model takes every sample, and fails in the middle of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import onnx_ir as ir

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.data.npz import read_headers, read_npz
from edgekit.data.samples import Samples, sample_files
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.features.dimensions import shape_text
from edgekit.graph.sizes.shape_request import ShapeRequest, at_sizes
from edgekit.model import Model

_MOST_FILES = 256
"""Of how many files headers are read."""
_MOST_SHAPES = 8
_MOST_SIZES = 32
"""How many sizes that stand in constants are tried."""
_MOST_NUMBERS = 8
"""Most entries of a constant that may be a shape."""


def require_runs(model: Model, folders: Iterable[Path | None], shapes: ShapeRequest, *, every: bool) -> None:
    """Runs the model as it was loaded on the first sample of each shape, of each folder.

    Folders of pictures or sounds, samples that do not fit the model's inputs, and samples of other sizes than were
    asked for are left to whoever reads them.

    Args:
        model: As it was loaded.
        folders: Folders of samples; None where there is none.
        shapes: The sizes that were asked for.
        every: Whether it has to run on all of those, or on one alone: the device takes one size, and samples of other
            sizes are left out.

    Raises:
        RequirementError: It does not.
    """
    reference: Reference | None = None
    for folder in dict.fromkeys(folder for folder in folders if folder is not None):
        failure: RequirementError | None = None
        for file, feeds in _first_of_each_shape(model, folder, shapes):
            try:
                reference = reference or Reference(model)
            except NotRunnableError:
                return  # no matter which sample: other stages tell why
            try:
                _run(model, reference, feeds, str(file))
            except RequirementError as error:
                failure = failure or error
                if every:
                    break
            else:
                if not every:
                    failure = None
                    break
        if failure is not None:
            raise failure


def _first_of_each_shape(
    model: Model, folder: Path, shapes: ShapeRequest
) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
    """Samples that fit the model, and what they feed."""
    seen: set[tuple[tuple[int, ...], ...]] = set()
    try:
        for file in islice(sample_files(folder), _MOST_FILES):
            if file.suffix.casefold() != ".npz":
                return
            headers = read_headers(file)
            form = tuple(headers[spec.name][0] for spec in model.inputs if spec.name in headers)
            if form in seen or len(seen) == _MOST_SHAPES:
                continue
            seen.add(form)
            feeds = read_npz(file, model.nan_inputs)
            if _fits(model, feeds) and _as_asked(model, feeds, shapes):
                yield file, {spec.name: feeds[spec.name] for spec in model.inputs}
    except InputError:
        return  # whoever opens all samples tells of it


def _as_asked(model: Model, feeds: Mapping[str, np.ndarray], shapes: ShapeRequest) -> bool:
    """Whether a sample has the sizes that were asked for."""
    for spec in model.inputs:
        asked = shapes.shapes.get(spec.name) or (None,) * len(spec.shape or ())
        for dim, size, fixed in zip(spec.shape or (), feeds[spec.name].shape, asked, strict=False):
            sizes = shapes.dims.get(dim, size) if isinstance(dim, str) else size
            if fixed not in (None, size) or (sizes != size if isinstance(sizes, int) else size not in sizes):
                return False
    return True


def require_runs_on_all(model: Model, samples: Samples | None) -> None:
    """Runs the model on samples, until one fails.

    Raises:
        RequirementError: It does not run on one of them.
    """
    if samples is None or model.states:
        return
    try:
        reference = Reference(model)
    except NotRunnableError:
        return
    for sample in samples:
        if _fits(model, sample.feeds):
            _run(model, reference, {spec.name: sample.feeds[spec.name] for spec in model.inputs}, sample.name)


def _fits(model: Model, feeds: Mapping[str, np.ndarray]) -> bool:
    return all(
        spec.name in feeds
        and spec.takes_shape(feeds[spec.name].shape)
        and (feeds[spec.name].dtype.name == spec.dtype or (feeds[spec.name].dtype.kind == "U" and spec.dtype == "str"))
        for spec in model.inputs
    ) and not _contradicts(model, feeds)


def _contradicts(model: Model, feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether a sample has several sizes for one name of a dimension, which may be the fault of the names."""
    sizes: dict[str, int] = {}
    places = (zip(spec.shape or (), feeds[spec.name].shape, strict=False) for spec in model.inputs)
    return any(isinstance(dim, str) and sizes.setdefault(dim, size) != size for place in places for dim, size in place)


def _run(model: Model, reference: Reference, feeds: Mapping[str, np.ndarray], sample: str) -> None:
    try:
        reference.run(feeds)
    except NotRunnableError as error:
        where = "" if error.node is None else f"node {error.node!r}: "
        fixed = _fixed_size(model, reference, feeds)
        raise RequirementError(
            "the model as it was exported does not run on the sample",
            subject=sample,
            expected=None if fixed is None else f"{fixed}, which the model does run with",
            found=f"{', '.join(f'{name} {shape_text(array.shape)}' for name, array in feeds.items())}; "
            f"{where}{error.cause}",
            hint="give samples that the model takes, or export it again"
            if fixed is None
            else "the model was exported with that size written into a constant: export it again so that the size "
            "stays free, or give samples of that size",
        ) from error


def _fixed_size(model: Model, reference: Reference, feeds: Mapping[str, np.ndarray]) -> str | None:
    """A size of one free dimension with which the model runs, in words; None where none is found."""
    given = {
        dim: size
        for spec in model.inputs
        for dim, size in zip(spec.shape or (), feeds[spec.name].shape, strict=False)
        if isinstance(dim, str)
    }
    limits = index_limits(model)
    for dim, size in given.items():
        for other in islice((each for each in _sizes_in_constants(model) if each != size), _MOST_SIZES):
            try:
                reference.run(seeded_inputs(at_sizes(model.inputs, {**given, dim: other}), 0, limits))
            except EdgeKitError:
                continue
            return f"{dim} = {other}"
    return None


def _sizes_in_constants(model: Model) -> list[int]:
    """Numbers in constants that may be shapes, the most frequent first."""
    counts: dict[int, int] = {}
    for tensor in model.tensors():
        if tensor.dtype == ir.DataType.INT64 and tensor.size <= _MOST_NUMBERS:
            for number in tensor.numpy().ravel().tolist():
                if number > 0:
                    counts[number] = counts.get(number, 0) + 1
    return sorted(counts, key=lambda number: (-counts[number], number))

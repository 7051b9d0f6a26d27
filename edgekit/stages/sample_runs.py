"""Whether the model as it was exported runs on the samples that it is judged on.

A size that the exporter saw may be written into a constant although the dimension is free in the model's inputs. Such a
model accepts every sample, and fails in the middle of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import onnx_ir as ir

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import Limits, index_limits
from edgekit.data.npz import read_headers, read_npz, two_sizes
from edgekit.data.samples import Samples, sample_files
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.features.dimensions import shape_text
from edgekit.graph.sizes.contradictions import contradiction
from edgekit.graph.sizes.shape_request import ShapeRequest, at_sizes
from edgekit.model import Model

_MOST_FILES = 256
"""Most files in a folder whose headers are read."""
_MOST_FILES_WITH_LIMITS = 4096
"""Most files in a folder that are read if some numbers have to stay below the number of a table's rows."""
_MOST_SHAPES = 8
_MOST_SIZES = 32
"""Most sizes from constants that are tried for a dimension."""
_MOST_NUMBERS = 8
"""Most entries of a constant that may be a shape."""


def require_runs(model: Model, folders: Iterable[Path | None], shapes: ShapeRequest, *, every: bool) -> None:
    """Runs the model as it was loaded on the first sample of each shape in each folder.

    It is also run on samples with numbers that are not below the number of a table's rows.

    Folders of pictures or sounds, samples that do not fit the model's inputs, and samples of other sizes than were
    asked for are skipped: they are checked where they are read.

    Args:
        model: The model as it was loaded.
        folders: Folders of samples; None is ignored.
        shapes: The sizes that were asked for.
        every: Whether the model has to run on all of these samples. Otherwise one in each folder is enough: the device
            takes one size, and samples of other sizes are left out.

    Raises:
        RequirementError: The model does not run.
        InputError: The model does not run, and the sample has two sizes for one dimension.
    """
    reference: Reference | None = None
    limits = {name: limit for name, limit in index_limits(model).items() if isinstance(limit, int)}
    for folder in dict.fromkeys(folder for folder in folders if folder is not None):
        failure: RequirementError | None = None
        for file, feeds in _to_try(model, folder, shapes, limits):
            try:
                reference = reference or Reference(model)
            except NotRunnableError:
                return  # the model runs on no sample: other stages say why
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


def _to_try(
    model: Model, folder: Path, shapes: ShapeRequest, limits: Mapping[str, int]
) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
    """Samples that fit the model, with their inputs: the first of each shape, and those with numbers beyond a limit."""
    seen: set[tuple[tuple[int, ...], ...]] = set()
    try:
        for file in islice(sample_files(folder), _MOST_FILES_WITH_LIMITS if limits else _MOST_FILES):
            if file.suffix.casefold() != ".npz":
                return
            headers = read_headers(file)
            form = tuple(headers[spec.name][0] for spec in model.inputs if spec.name in headers)
            is_first = form not in seen and len(seen) < _MOST_SHAPES
            if not is_first and not limits:
                continue
            feeds = read_npz(file, model.nan_inputs)
            if not is_first and not any(_is_beyond(feeds[name], limits[name]) for name in limits.keys() & feeds.keys()):
                continue
            seen.add(form)
            if _fits(model, feeds) and _as_asked(model, feeds, shapes):
                yield file, {spec.name: feeds[spec.name] for spec in model.inputs}
    except InputError:
        return  # the error is raised again where all samples are opened


def _is_beyond(array: np.ndarray, limit: int) -> bool:
    """Whether whole numbers reach a limit that they have to stay below."""
    return array.dtype.kind in "iu" and array.size > 0 and int(array.max()) >= limit


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
        RequirementError: The model does not run on a sample.
        InputError: The model does not run on a sample that has two sizes for one dimension.
    """
    if samples is None or model.states:
        return
    try:
        reference = Reference(model)
    except NotRunnableError:
        return
    for sample in samples:
        if _fits(model, sample.feeds):
            _run(model, reference, {spec.name: sample.feeds[spec.name] for spec in model.inputs}, sample.where)


def _fits(model: Model, feeds: Mapping[str, np.ndarray]) -> bool:
    return all(
        spec.name in feeds
        and spec.takes_shape(feeds[spec.name].shape)
        and (feeds[spec.name].dtype.name == spec.dtype or (feeds[spec.name].dtype.kind == "U" and spec.dtype == "str"))
        for spec in model.inputs
    )


def _run(model: Model, reference: Reference, feeds: Mapping[str, np.ndarray], sample: str) -> None:
    try:
        reference.run(feeds)
    except NotRunnableError as error:
        conflict = contradiction(model.inputs, {name: array.shape for name, array in feeds.items()})
        if conflict is not None:
            raise two_sizes(conflict, sample, "the model does not run on it: give the inputs one size") from error
        where = "" if error.node is None else f"node {error.node!r}: "
        limits = index_limits(model)
        expected, hint = (
            _allowed_values(reference, limits, feeds)
            or _allowed_size(model, reference, feeds, limits)
            or (None, "give samples that the model takes, or export it again")
        )
        raise RequirementError(
            "the model as it was exported does not run on the sample",
            subject=sample,
            expected=expected,
            found=f"{', '.join(f'{name} {shape_text(array.shape)}' for name, array in feeds.items())}; "
            f"{where}{error.cause}",
            hint=hint,
        ) from error


def _allowed_values(reference: Reference, limits: Limits, feeds: Mapping[str, np.ndarray]) -> tuple[str, str] | None:
    """If numbers beyond a table's rows are why the model fails: the numbers that it takes, and a hint; else None."""
    for name, array in feeds.items():
        limit = limits.get(name)
        if not isinstance(limit, int) or not _is_beyond(array, limit):
            continue
        try:
            reference.run({**feeds, name: np.minimum(array, np.asarray(limit - 1, array.dtype))})
        except EdgeKitError:
            continue
        return (
            f"{name}: numbers below {limit}; the greatest is {array.max()}",
            (
                "the model's table has no row for that number: give numbers from the list that the model was trained "
                "with"
            ),
        )
    return None


def _allowed_size(
    model: Model, reference: Reference, feeds: Mapping[str, np.ndarray], limits: Limits
) -> tuple[str, str] | None:
    """If the size of a free dimension is why the model fails: a size with which it runs, and a hint; else None."""
    given = {
        dim: size
        for spec in model.inputs
        for dim, size in zip(spec.shape or (), feeds[spec.name].shape, strict=False)
        if isinstance(dim, str)
    }

    def runs(sizes: Mapping[str, int]) -> bool:
        try:
            reference.run(seeded_inputs(at_sizes(model.inputs, sizes), 0, limits))
        except EdgeKitError:
            return False
        return True

    if runs(given):
        return None  # the model runs on other numbers of the same sizes: no size is to blame
    for dim, size in given.items():
        for other in islice((each for each in _sizes_in_constants(model) if each != size), _MOST_SIZES):
            if not runs({**given, dim: other}):
                continue
            greatest = other
            least_failing = size
            while other < size and least_failing - greatest > 1:
                middle = (greatest + least_failing) // 2
                if runs({**given, dim: middle}):
                    greatest = middle
                else:
                    least_failing = middle
            if greatest != other or (other > 1 and runs({**given, dim: other - 1})):
                return (
                    f"{dim} = {greatest} at most, which the model does run with",
                    "cut the samples to that size, or export the model with longer tables, for example of positions",
                )
            return (
                f"{dim} = {other}, which the model does run with",
                "the model was exported with that size written into a constant: export it again so that the size "
                "stays free, or give samples of that size",
            )
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

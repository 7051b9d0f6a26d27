"""Operations that join tensors or enlarge them, and band_part."""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.ops.elementwise import same_type
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor

_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "replicate"}


def _alike(b: Builder, values: list[Tensor]) -> list[Tensor]:
    """All tensors converted to one element type."""
    first = values[0]
    for other in values[1:]:
        first, _ = same_type(b, first, other)
    return [b.cast(value, first.dtype) for value in values]


@lowering("concat")
def concat(b: Builder, call: Call, values: list[Tensor], axis: int, interleave: bool = False) -> Tensor:
    """Concatenate along an axis; with ``interleave``, slice ``i`` of every operand comes before any slice ``i + 1``."""
    parts = [b.reshape(value, [1]) if value.rank == 0 else value for value in _alike(b, values)]
    if not interleave:
        return b.concat(parts, axis % parts[0].rank)
    axis %= parts[0].rank
    sizes = b.all_sizes(parts[0])
    stacked = b.concat([b.expand(part, [axis + 1]) for part in parts], axis + 1)
    size = sizes[axis]
    sizes[axis] = size * len(parts) if isinstance(size, int) else b.mul(size, len(parts))
    return b.reshape(stacked, sizes)


@lowering("stack")
def stack(b: Builder, call: Call, values: list[Tensor], axis: int) -> Tensor:
    """Join along a new axis."""
    rank = values[0].rank + 1
    return b.concat([b.expand(value, [axis % rank]) for value in _alike(b, values)], axis % rank)


@lowering("tile")
def tile(b: Builder, call: Call, x: Tensor, reps: Tensor) -> Tensor:
    """Repeat ``reps[i]`` times along dimension ``i``."""
    return b.op("tile", x, b.cast(reps, np.uint32))


@lowering("pad")
def pad(b: Builder, call: Call, x: Tensor, pad: Tensor, mode: str = "constant", constant_val: float = 0.0) -> Tensor:
    """Pad the last ``len(pad) / 2`` dimensions; ``pad`` holds a pair (before, after) for each."""
    if mode not in _PAD_MODES:
        raise CannotTranslate(f"there is no mode {mode}")
    (count,) = pad.sizes
    untouched = x.rank - count // 2
    if pad.array is not None:
        flat: list[int | Tensor] = [int(number) for number in pad.array]
    else:
        flat = [b.op("reshape", b.narrow(pad, 0, place, place + 1), []) for place in range(count)]
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    widths: list[tuple[int | Tensor, int | Tensor]] = [(0, 0)] * untouched + pairs
    cuts = [min(width, 0) for pair in widths for width in pair if isinstance(width, int)]
    if any(cuts):
        raise CannotTranslate("a negative width of padding")
    return b.pad(x, widths, constant_val, _PAD_MODES[mode])


@lowering("band_part")
def band_part(b: Builder, call: Call, x: Tensor, lower: int = -1, upper: int = -1) -> Tensor:
    """Keep ``lower`` diagonals below and ``upper`` above the main diagonal of each matrix (-1: all); the rest is 0."""
    rows = b.reshape(b.positions(b.size(x, -2)), [-1, 1])
    columns = b.reshape(b.positions(b.size(x, -1)), [1, -1])
    below = b.sub(rows, columns)
    if lower >= 0:
        x = b.select(b.greater(below, lower), 0, x)
    if upper >= 0:
        x = b.select(b.less(below, -upper), 0, x)
    return x

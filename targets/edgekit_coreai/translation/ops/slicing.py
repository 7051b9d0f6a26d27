"""Operations that take tensors apart, or update a part."""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import INT_MAX, Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, Ints, lowering
from edgekit_coreai.translation.tensors import Tensor


def _limits(
    b: Builder,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Ints | None,
    begin_mask: Ints | None,
    end_mask: Ints | None,
    squeeze_mask: Ints | None,
) -> tuple[list[int | Tensor], list[int | Tensor], list[int], list[int]]:
    """Begin, end and stride in the form of Apple's slices, and the dimensions that are squeezed.

    In a slice of Apple with a negative stride, the end -1 is the place before the first element.
    """
    rank = x.rank
    steps = list(stride or (1,) * rank)
    opens = [begin_mask or (0,) * rank, end_mask or (0,) * rank]
    single = [axis for axis in range(rank) if squeeze_mask and squeeze_mask[axis]]
    for axis in single:
        steps[axis] = 1
    firsts: list[int | Tensor] = []
    lasts: list[int | Tensor] = []
    for axis in range(rank):
        first, last = (_item(b, limits, axis) for limits in (begin, end))
        if axis in single:
            last = _after(b, x, axis, first)
            if isinstance(last, Tensor):
                first = b.sub(last, 1)
            else:
                firsts.append(first)
                lasts.append(last)
                continue
            firsts.append(first)
            lasts.append(last)
            continue
        forward = steps[axis] > 0
        if opens[0][axis]:
            first = 0 if forward else INT_MAX
        if opens[1][axis]:
            last = INT_MAX if forward else -1
        elif not forward:
            last = _end_backwards(b, x, axis, last)
        firsts.append(first)
        lasts.append(last)
    return firsts, lasts, steps, single


def _item(b: Builder, vector: Tensor, place: int) -> int | Tensor:
    if vector.array is not None:
        number = int(vector.array.reshape(-1)[place])
        return max(min(number, INT_MAX), -INT_MAX)
    return b.op("reshape", b.narrow(b.cast(vector, np.int32), 0, place, place + 1), [])


def _after(b: Builder, x: Tensor, axis: int, first: int | Tensor) -> int | Tensor:
    """The end of a slice of the single element at index ``first``."""
    if isinstance(first, int):
        return INT_MAX if first == -1 else first + 1
    wrapped = b.select(b.less(first, 0), b.add(first, whole_number(b, b.size(x, axis))), first)
    return b.add(wrapped, 1)


def _end_backwards(b: Builder, x: Tensor, axis: int, last: int | Tensor) -> int | Tensor:
    """The end of a slice with a negative stride in Apple's form: MIL's negative ends count from the dimension's end."""
    size = b.size(x, axis)
    if isinstance(last, int):
        if last >= 0:
            return last
        return max(last + size, -1) if isinstance(size, int) else b.add(size, last)
    whole = whole_number(b, size)
    return b.maximum(b.select(b.less(last, 0), b.add(last, whole), last), -1)


def whole_number(b: Builder, size: int | Tensor) -> Tensor:
    """A size as a tensor of int32; one that is known becomes a constant."""
    return size if isinstance(size, Tensor) else b.constant(np.int32(size))


@lowering("slice_by_index")
def slice_by_index(
    b: Builder,
    call: Call,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Ints | None = None,
    begin_mask: Ints | None = None,
    end_mask: Ints | None = None,
    squeeze_mask: Ints | None = None,
) -> Tensor:
    """``x[begin:end:stride]`` in every dimension."""
    first, last, steps, single = _limits(b, x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    made = b.slice(x, b.vector(first), b.vector(last), steps)
    shape = [1 if axis in single else size for axis, size in enumerate(made.shape)]
    return b.squeeze(b.refined(made, shape), single)


@lowering("slice_update", opset=18)
def slice_update(
    b: Builder,
    call: Call,
    x: Tensor,
    update: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Ints | None = None,
    begin_mask: Ints | None = None,
    end_mask: Ints | None = None,
    squeeze_mask: Ints | None = None,
) -> Tensor:
    """``x`` after ``x[begin:end:stride] = update``."""
    first, last, steps, single = _limits(b, x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    update = b.expand(update, single)
    backwards = [axis for axis, step in enumerate(steps) if step < 0]
    if backwards:
        # If all of x is replaced, the compiler of coreai-core 1.0.0b3 ignores the strides' signs and does not reverse
        # the update: it is reversed here, and the strides are made positive.
        for axis in backwards:
            count = b.size(update, axis)
            first[axis], last[axis] = _forwards(b, b.size(x, axis), first[axis], steps[axis], count)
            steps[axis] = -steps[axis]
        update = b.op("reverse", update, np.array(backwards, np.int32))
    return b.op("slice_update", x, b.vector(first), b.vector(last), b.constant(np.array(steps, np.int32)), update)


def _forwards(
    b: Builder, size: int | Tensor, first: int | Tensor, step: int, count: int | Tensor
) -> tuple[int | Tensor, int | Tensor]:
    """Begin and end of the slice with a positive stride that has the same ``count`` elements."""
    if isinstance(size, int) and isinstance(first, int) and isinstance(count, int):
        top = min(first if first >= 0 else first + size, size - 1)
        return top + (count - 1) * step, top + 1
    whole, begin, many = whole_number(b, size), whole_number(b, first), whole_number(b, count)
    highest = b.minimum(b.select(b.less(begin, 0), b.add(begin, whole), begin), b.sub(whole, 1))
    return b.add(highest, b.mul(b.sub(many, 1), step)), b.add(highest, 1)


@lowering("slice_by_size")
def slice_by_size(b: Builder, call: Call, x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """``size`` elements from ``begin`` on in every dimension; all remaining elements for a size of -1."""
    firsts: list[int | Tensor] = []
    lasts: list[int | Tensor] = []
    shape: list[int | None] = []
    for axis in range(x.rank):
        first, count = _item(b, begin, axis), _item(b, size, axis)
        shape.append(count if isinstance(count, int) and count >= 0 else None)
        if isinstance(first, int) and isinstance(count, int):
            last: int | Tensor = INT_MAX if count == -1 else first + count
            if count >= 0 and first < 0 <= first + count:
                last = INT_MAX
        elif isinstance(first, int):
            assert isinstance(count, Tensor)
            last = b.select(b.less(count, 0), INT_MAX, b.add(count, first))
        else:
            known = whole_number(b, b.size(x, axis))
            first = b.select(b.less(first, 0), b.add(first, known), first)
            last = INT_MAX if count == -1 else b.add(first, count)
        firsts.append(first)
        lasts.append(last)
    made = b.slice(x, b.vector(firsts), b.vector(lasts), [1] * x.rank)
    return b.refined(made, shape)


@lowering("split")
def split(
    b: Builder, call: Call, x: Tensor, axis: int, num_splits: int | None = None, split_sizes: Ints | None = None
) -> tuple[Tensor, ...]:
    """Parts along an axis: of the given sizes, or ``num_splits`` parts of equal size."""
    axis %= x.rank
    if split_sizes is None:
        size = x.shape[axis]
        if size is None or num_splits is None:
            raise CannotTranslate("equal parts of a size that is open")
        split_sizes = (size // num_splits,) * num_splits
    ends = np.cumsum(split_sizes).tolist()
    return tuple(b.narrow(x, axis, end - size, end) for end, size in zip(ends, split_sizes, strict=True))


@lowering("sliding_windows")
def sliding_windows(b: Builder, call: Call, x: Tensor, axis: int, size: int, stride: int = 1) -> Tensor:
    """All windows of ``size`` elements along an axis, ``stride`` apart; the elements lie along a new axis after it."""
    axis %= x.rank
    known = x.shape[axis]
    if known is None:
        raise CannotTranslate("windows over a size that is open")
    starts = np.arange(0, known - size + 1, stride, dtype=np.int32)
    return b.gather(x, b.constant(starts[:, None] + np.arange(size, dtype=np.int32)), axis)

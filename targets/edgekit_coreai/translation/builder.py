"""Writes Core AI operations; changes of Apple's unversioned bindings affect this module, not the lowerings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgekit_coreai.translation.apple import dialect, ir
from edgekit_coreai.translation.tensors import Tensor, numpy_type, tensor_type, write_constant

INT_MAX = int(np.iinfo(np.int32).max)


class Builder:
    """Writes operations into a graph, one after the other.

    Args:
        constants: The operation before which constants are written, so that they precede all operations.
    """

    def __init__(self, constants: Any) -> None:
        self._constants = constants
        self._known: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}

    # --- values ---------------------------------------------------------------------------------------------------

    def wrap(self, value: Any) -> Tensor:
        """The tensor of a value of Apple's bindings."""
        kind = ir.RankedTensorType(value.type)
        free = ir.ShapedType.get_dynamic_size()
        shape = tuple(None if size == free or size < 0 else int(size) for size in kind.shape)
        return Tensor(numpy_type(kind.element_type), shape, None, [value])

    def constant(self, array: Any, dtype: Any = None) -> Tensor:
        """A constant, which is written when it is first used; float64 becomes float32, and int64 int32."""
        held = np.asarray(array, dtype)
        if held.dtype == np.float64:
            held = held.astype(np.float32)
        elif held.dtype == np.int64:
            held = held.astype(np.int32)
        if held.size <= 16:
            key = (held.dtype.name, held.shape, held.tobytes())
            return self._known.setdefault(key, Tensor(held.dtype, held.shape, held, []))
        return Tensor(held.dtype, held.shape, held, [])

    def raw(self, tensor: Tensor) -> Any:
        """The value of a tensor in Apple's bindings; writes a constant that has not been written."""
        if not tensor._value:
            assert tensor.array is not None
            with ir.InsertionPoint(self._constants):
                tensor._value.append(write_constant(tensor.array))
        return tensor._value[0]

    def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Tensor:
        """Write an operation that has one result."""
        raw = [self.raw(item) if isinstance(item, Tensor) else item for item in arguments]
        return self.wrap(function(*raw, **named))

    def op(self, name: str, *arguments: Any, **named: Any) -> Tensor:
        """Write one of Apple's operations, by the name of its constructor; operands have equal shapes."""
        return self._call(getattr(dialect, name), *arguments, **named)

    def spread(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        """Write an operation of two operands, whose shapes broadcast.

        A constant is always broadcast: coreai-core 1.0.0b3 combines the constants of ``(x * k) * p``, and ends its
        process if only the first constant is broadcast.
        """
        of_constant = x.array is not None or y.array is not None
        if x.is_static and x.shape == y.shape and not of_constant and name not in ("batch_matmul",):
            return self.op(_PLAIN.get(name, name), x, y)
        return self.op(f"broadcasting_{name}", x, y)

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def like(self, number: float, x: Tensor) -> Tensor:
        """A constant of rank 0 in the element type of ``x``."""
        return self.constant(np.asarray(number).astype(x.dtype))

    def _operand(self, y: Tensor | float, x: Tensor) -> Tensor:
        return y if isinstance(y, Tensor) else self.like(y, x)

    def add(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Sum, broadcast."""
        return self.spread("add", x, self._operand(y, x))

    def sub(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Difference, broadcast."""
        return self.spread("sub", x, self._operand(y, x))

    def mul(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Product, broadcast."""
        return self.spread("mul", x, self._operand(y, x))

    def div(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Quotient, broadcast; integers are truncated toward zero."""
        return self.spread("divide", x, self._operand(y, x))

    def maximum(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Elementwise maximum, broadcast."""
        return self.spread("maximum", x, self._operand(y, x))

    def minimum(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Elementwise minimum, broadcast."""
        return self.spread("minimum", x, self._operand(y, x))

    def greater(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Whether ``x > y``, broadcast."""
        return self.spread("greater", x, self._operand(y, x))

    def less(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Whether ``x < y``, broadcast."""
        return self.spread("greater", self._operand(y, x), x)

    def equal(self, x: Tensor, y: Tensor | float) -> Tensor:
        """Whether ``x == y``, broadcast."""
        return self.spread("equal", x, self._operand(y, x))

    def negative(self, x: Tensor) -> Tensor:
        """``-x``."""
        return self.sub(self.like(0, x), x) if not x.is_float else self.mul(x, -1)

    def select(self, condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
        """``a`` where the condition holds, else ``b``; broadcast. At least one of ``a`` and ``b`` is a tensor."""
        model = a if isinstance(a, Tensor) else b
        assert isinstance(model, Tensor)
        return self.op("broadcasting_where", condition, self._operand(a, model), self._operand(b, model))

    def cast(self, x: Tensor, dtype: Any) -> Tensor:
        """Convert to another element type, by Apple's rules."""
        target = np.dtype(dtype)
        if target == x.dtype:
            return x
        if x.array is not None and x.array.size <= 4096 and not (x.is_float and target.kind in "iu"):
            return self.constant(x.array.astype(target))
        if x.array is not None and x.dtype == np.float16 and target == np.float32:
            x = self.unfolded(x)
        return self._call(lambda value: dialect.cast(value, tensor_type(x.shape, target)), x)

    def unfolded(self, x: Tensor) -> Tensor:
        """A constant that the compiler does not fold: the model stores it in reverse order and reverses it.

        The compiler of coreai-core 1.0.0b3 stores the result of operations on constants alone, which may take many
        times as many bytes. It does not fold the operation ``reverse``.
        """
        assert x.array is not None
        return self.op("reverse", self.constant(np.ascontiguousarray(x.array[::-1])), np.array([0], np.int32))

    def refined(self, x: Tensor, shape: Sequence[int | None]) -> Tensor:
        """The same tensor with a static shape in which unknown sizes are taken from ``shape``."""
        known = tuple(want if have is None else have for want, have in zip(shape, x.shape, strict=True))
        if known == x.shape:
            return x
        return self._call(lambda value: dialect.cast(value, tensor_type(known, x.dtype)), x)

    def wide(self, x: Tensor) -> Tensor:
        """Convert float16 to float32, in which sums of float16 values are computed; other types stay."""
        return self.cast(x, np.float32) if x.dtype == np.float16 else x

    # --- shapes ---------------------------------------------------------------------------------------------------

    def size(self, x: Tensor, axis: int) -> int | Tensor:
        """The size of a dimension: a number if it is known, else a tensor of rank 0."""
        known = x.shape[axis]
        if known is not None:
            return known
        whole = self.shape_of(x)
        axis %= x.rank
        part = self.slice(whole, [axis], [axis + 1], [1])
        return self.op("reshape", part, [])

    def all_sizes(self, x: Tensor) -> list[int | Tensor]:
        """The sizes of all dimensions."""
        return [self.size(x, axis) for axis in range(x.rank)]

    def shape_of(self, x: Tensor) -> Tensor:
        """The shape as a vector of int32."""
        if x.is_static:
            return self.constant(np.array(x.sizes, np.int32))
        return self.cast(self.op("get_shape", x), np.int32)

    def vector(self, items: Sequence[int | Tensor]) -> Tensor:
        """A vector of int32 whose elements are numbers or computed tensors."""
        if all(isinstance(item, int) for item in items):
            return self.constant(np.array(items, np.int32))
        parts: list[Tensor] = []
        run: list[int] = []
        for item in items:
            if isinstance(item, Tensor):
                if run:
                    parts.append(self.constant(np.array(run, np.int32)))
                    run = []
                parts.append(self.op("reshape", self.cast(item, np.int32), [1]))
            else:
                run.append(item)
        if run:
            parts.append(self.constant(np.array(run, np.int32)))
        return self.concat(parts, 0)

    def reshape(self, x: Tensor, sizes: Sequence[int | Tensor]) -> Tensor:
        """The same elements in another shape; one size may be -1."""
        free = [place for place, size in enumerate(sizes) if isinstance(size, Tensor) or size == -1]
        if len(free) <= 1:
            wanted = [-1 if place in free else int(size) for place, size in enumerate(sizes)]  # type: ignore[arg-type]
            if x.is_static and free:
                rest = int(np.prod([size for size in wanted if size != -1], dtype=np.int64))
                wanted[free[0]] = int(np.prod(x.sizes, dtype=np.int64)) // max(rest, 1)
            if tuple(wanted) == x.shape:
                return x
            if x.array is not None and -1 not in wanted:
                return self.constant(x.array.reshape(wanted))
            return self.op("reshape", x, np.array(wanted, np.int32))
        result = self.op("reshape", x, self.vector(sizes))
        return self.refined(result, [size if isinstance(size, int) and size >= 0 else None for size in sizes])

    def expand(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Insert dimensions of size 1 at these positions of the result."""
        if not axes:
            return x
        if x.array is not None:
            return self.constant(np.expand_dims(x.array, tuple(axes)))
        return self.op("expand_dims", x, np.array(axes, np.int32))

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Remove dimensions of size 1."""
        if not axes:
            return x
        if all(x.shape[axis] == 1 for axis in axes):
            return self.op("shrink_dims", x, np.array(axes, np.int32))
        gone = {axis % x.rank for axis in axes}
        return self.reshape(x, [self.size(x, axis) for axis in range(x.rank) if axis not in gone])

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Dimension ``i`` of the result is dimension ``permutation[i]``."""
        order = [axis % x.rank for axis in permutation]
        if order == list(range(x.rank)):
            return x
        if x.array is not None:
            return self.constant(np.ascontiguousarray(x.array.transpose(order)))
        return self.op("transpose", x, np.array(order, np.uint32))

    def move(self, x: Tensor, source: int, target: int) -> Tensor:
        """Move the dimension ``source`` to the position ``target``."""
        order = [axis for axis in range(x.rank) if axis != source % x.rank]
        order.insert(target % x.rank, source % x.rank)
        return self.transpose(x, order)

    def broadcast(self, x: Tensor, sizes: Sequence[int | Tensor]) -> Tensor:
        """Broadcast to the given shape."""
        if all(isinstance(size, int) for size in sizes):
            return x if tuple(sizes) == x.shape else self.op("broadcast_to", x, np.array(sizes, np.uint32))
        result = self.op("broadcast_to", x, self.cast(self.vector(sizes), np.uint32))
        return self.refined(result, [size if isinstance(size, int) else None for size in sizes])

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Join along a dimension."""
        if len(parts) == 1:
            return parts[0]
        return self.wrap(dialect.concat(np.array(axis, np.int32), [self.raw(part) for part in parts]))

    def slice(self, x: Tensor, begin: Any, end: Any, stride: Any) -> Tensor:
        """``x[begin:end:stride]`` in every dimension, by Apple's rules for negative numbers.

        ``begin``, ``end`` and ``stride`` are vectors, each given as a tensor or as a sequence of numbers.
        """
        return self.op("slice_", x, *(_ints(item) for item in (begin, end, stride)))

    def narrow(self, x: Tensor, axis: int, start: int, stop: int | None) -> Tensor:
        """``x[..., start:stop, ...]`` along one dimension; negative numbers count from its end."""
        axis %= x.rank
        begin, end = [0] * x.rank, [INT_MAX] * x.rank
        begin[axis], end[axis] = start, INT_MAX if stop is None else stop
        return self.slice(x, begin, end, [1] * x.rank)

    def pad(self, x: Tensor, widths: Sequence[tuple[Any, Any]], value: float = 0.0, mode: str = "constant") -> Tensor:
        """Pad before and after each dimension; widths are numbers or tensors of rank 0."""
        flat = [width for pair in widths for width in pair]
        if all(isinstance(width, int) and width == 0 for width in flat):
            return x
        amounts = self.vector(flat)
        filler = self.like(value, x)
        return self.op("pad", x, self.cast(amounts, np.uint32), filler, mode)

    def reduce(self, name: str, x: Tensor, axes: Sequence[int], keep: bool = True) -> Tensor:
        """Reduce along dimensions."""
        if not axes:
            return x
        result = self.op(name, x, np.array(sorted(axis % x.rank for axis in axes), np.int32))
        return result if keep else self.squeeze(result, sorted(axis % x.rank for axis in axes))

    def positions(self, count: int | Tensor) -> Tensor:
        """0, 1, … up to but not including ``count``, as int32."""
        if isinstance(count, int):
            return self.constant(np.arange(count, dtype=np.int32))
        zero, one = self.constant(np.int32(0)), self.constant(np.int32(1))
        return self.op("range_", zero, self.cast(count, np.int32), one)

    def gather(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """``x[..., indices, ...]`` with ``indices`` at ``axis``."""
        axis %= x.rank
        index = self.expand(self.cast(indices, np.int32), [indices.rank])
        front = self.move(x, axis, 0)
        found = self.op("gather_nd", front, index)
        # [*indices, *before, *after] -> [*before, *indices, *after]
        own, before = indices.rank, axis
        order = [*range(own, own + before), *range(own), *range(own + before, found.rank)]
        return self.transpose(found, order)

    def along_axis(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """``x[p with indices[p] at axis]`` for every position of ``indices``."""
        return self.op("gather_along_axis", x, self.cast(indices, np.int32), np.array(axis % x.rank, np.int32))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Matrix product of operands of rank 2 or more, the batches broadcast."""
        if self._lost_trailing_unit(y):
            # For such a right operand the compiler of coreai-core 1.0.0b3 uses the tensor before the reshape, and so
            # computes another product; left operands are not affected.
            return self.swapped(self.matmul(self.swapped(y), self.swapped(x)))
        if x.is_static and y.is_static and x.rank == y.rank and x.shape[:-2] == y.shape[:-2]:
            return self.op("batch_matmul", x, y)
        return self.op("broadcasting_batch_matmul", x, y)

    def _lost_trailing_unit(self, y: Tensor) -> bool:
        """Whether the tensor is the result of a reshape that removed a last dimension of size 1."""
        if not y._value or y.array is not None:
            return False
        producer = y._value[0].owner
        if isinstance(producer, ir.Block) or producer.name not in ("coreai.reshape", "coreai.shrink_dims"):
            return False
        return self.wrap(producer.operands[0]).shape == (*y.shape, 1)

    def swapped(self, x: Tensor) -> Tensor:
        """The last two dimensions exchanged."""
        return self.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])

    # --- attributes and regions -------------------------------------------------------------------------------------

    def conv(self, name: str, x: Tensor, weight: Tensor, strides: Any, dilations: Any, groups: int) -> Tensor:
        """Correlation without padding."""
        return self.op(name, x, weight, list(strides), list(dilations), groups)

    def conv_transpose(
        self,
        x: Tensor,
        weight: Tensor,
        shape: Sequence[int | None],
        strides: Any,
        pad: Any,
        dilations: Any,
        extra: Any,
        groups: int,
    ) -> Tensor:
        """Transposed convolution, the gradient of a correlation; ``shape`` is the shape of the result."""
        operation = dialect.ConvTranspose2dOp if x.rank == 4 else dialect.ConvTranspose3dOp
        numbers = [self.constant(np.array(item, np.uint32)) for item in (strides, pad, dilations, extra, groups)]
        made = operation(
            tensor_type(shape, x.dtype), self.raw(x), self.raw(weight), *(self.raw(item) for item in numbers)
        )
        return self.wrap(made.result)

    def max_pool(self, x: Tensor, shape: Sequence[int | None], sizes: Any, strides: Any) -> Tensor:
        """Maximum of each window, without padding; ``shape`` is the shape of the result."""
        function = dialect.maxpool2d if x.rank == 4 else dialect.maxpool3d
        ones = np.ones(x.rank - 2, np.uint32)
        sizes, strides = np.array(sizes, np.uint32), np.array(strides, np.uint32)
        rounds_up = np.array(False)  # the shape is given
        return self.wrap(function(tensor_type(shape, x.dtype), self.raw(x), sizes, strides, ones, rounds_up))

    def sum_pool(self, x: Tensor, sizes: Any, strides: Any) -> Tensor:
        """Sum of each window, without padding."""
        name = "sumpool2d" if x.rank == 4 else "sumpool3d"
        ones = self.constant(np.ones(x.rank - 2, np.uint32))
        return self.op(name, x, np.array(sizes, np.uint32), np.array(strides, np.uint32), ones)

    def gelu(self, x: Tensor, approximate: str) -> Tensor:
        """Gaussian error linear unit; ``approximate`` is ``none``, ``tanh`` or ``sigmoid``."""
        return self._call(dialect.gelu, x, approximate=approximate)

    def interpolate(self, x: Tensor, sizes: Sequence[int | Tensor], scale: Any, offset: Any, mode: str) -> Tensor:
        """Resize every dimension; see Apple's ``interpolate``."""
        kind = ir.Attribute.parse(f"#coreai.interpolation_mode<{mode}>")
        return self.op("interpolate", x, self.vector(sizes), scale, offset, kind)

    def scatter(self, data: Tensor, indices: Tensor, updates: Tensor, axis: int, mode: str) -> Tensor:
        """Write to positions along a dimension, which are given as for ``along_axis``.

        ``mode`` says how: ``update``, ``add``, ``mul``, ``max`` …
        """
        attribute = ir.Attribute.parse(f"#coreai.scatter_mode<{mode}>")
        return self.wrap(
            dialect.ScatterAlongAxisOp(
                tensor_type(data.shape, data.dtype),
                self.raw(data),
                self.raw(self.cast(indices, np.int32)),
                self.raw(updates),
                self.raw(self.constant(np.array(axis % data.rank, np.int32))),
                scatter_mode=attribute,
            ).result
        )

    def scan_sum(self, x: Tensor, axis: int, *, reverse: bool) -> Tensor:
        """Running sum along a dimension, from its end if ``reverse``."""
        return self.op("scan", x, np.array(axis % x.rank, np.uint32), np.array(reverse, np.bool_), "sum")

    def argsort(self, x: Tensor, axis: int, *, descending: bool) -> Tensor:
        """Indices that sort ``x`` along a dimension, stably."""
        flags = np.array(descending, np.bool_), np.array(True, np.bool_)
        return self.op("argsort", x, np.array(axis % x.rank, np.int32), *flags)

    def condition(
        self,
        predicate: Tensor,
        kinds: Sequence[tuple[tuple[int | None, ...], Any]],
        branches: Sequence[Callable[[], Sequence[Tensor]]],
    ) -> list[Tensor]:
        """Results of the first branch if the predicate holds, else of the second; ``kinds`` are shapes and types."""
        types = [tensor_type(shape, dtype) for shape, dtype in kinds]
        operation = dialect.IfOp(types, self.raw(predicate))
        written = []
        regions = (operation.then_region_builder, operation.else_region_builder)
        for region, branch in zip(regions, branches, strict=True):
            with region:
                made = branch()
                written.append([self._as(item, shape) for item, (shape, _) in zip(made, kinds, strict=True)])
                dialect.yield_([self.raw(item) for item in written[-1]])
        return [
            # If both branches only pass a value on, Apple's compiler selects between buffers, which it cannot lower.
            self.select(predicate, *pair) if all(_is_outside(item, operation) for item in pair) else self.wrap(result)
            for result, *pair in zip(operation.results, *written, strict=True)
        ]

    def loop(
        self,
        initial: Sequence[Tensor],
        kinds: Sequence[tuple[tuple[int | None, ...], Any]],
        test: Callable[[list[Tensor]], Tensor],
        body: Callable[[list[Tensor]], Sequence[Tensor]],
        fixed: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """Replace the variables by the results of the body while the test holds; returns the last variables.

        Args:
            initial: The variables' initial values.
            kinds: The variables' shapes and element types, the same in all iterations.
            test: Writes the test; gets the variables, followed by ``fixed``.
            body: Writes the body; gets the variables, followed by ``fixed``, and returns only the variables.
            fixed: Values computed before the loop that the body reads. They have to be passed through the loop:
                coreai-core 1.0.0b3 overwrites the buffer of a value that a loop captures after the first iteration.
        """
        count = len(initial)
        shapes = [*kinds, *((item.shape, item.dtype) for item in fixed)]
        values = [*initial, *fixed]
        inits = [self.raw(self._as(item, shape)) for item, (shape, _) in zip(values, shapes, strict=True)]
        operation = dialect.WhileOp([tensor_type(shape, dtype) for shape, dtype in shapes], inits)
        before, after = operation.before_region_builder, operation.after_region_builder
        with before:
            arguments = list(before.arguments)
            dialect.condition(self.raw(test([self.wrap(item) for item in arguments])), *arguments)
        with after:
            arguments = list(after.arguments)
            made = body([self.wrap(item) for item in arguments])
            held = [self.raw(self._as(item, shape)) for item, (shape, _) in zip(made, kinds, strict=True)]
            dialect.yield_([*held, *arguments[count:]])
        return [self.wrap(result) for result in list(operation.results)[:count]]

    def _as(self, x: Tensor, shape: Sequence[int | None]) -> Tensor:
        """The same tensor with exactly this static shape, in which more or fewer sizes may be known."""
        if tuple(shape) == x.shape:
            return x
        return self._call(lambda value: dialect.cast(value, tensor_type(shape, x.dtype)), x)

    def read_handle(self, handle: Any, token: Any) -> tuple[Tensor, Any]:
        """Returns the content of a state after the access that ``token`` represents, and the token for the next one."""
        value, out = dialect.read_handle(handle, token)
        return self.wrap(value), out

    def write_handle(self, handle: Any, value: Tensor, token: Any) -> Any:
        """Replace the content of a state; returns the token for the next access."""
        return dialect.write_handle(handle, self.raw(value), token)

    def new_token(self) -> Any:
        """The token for the first access to a state."""
        return dialect.create_token()


def _is_outside(x: Tensor, operation: Any) -> bool:
    """Whether a value is a constant, or is defined outside of the regions of an operation."""
    if x.array is not None:
        return True
    owner = x._value[0].owner
    block = owner if isinstance(owner, ir.Block) else owner.block
    return all(block != region.blocks[0] for region in operation.regions)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Operations written in this context have this name in the reports of Apple's tools."""
    with ir.Location.fused([ir.Location.name(name)], ir.StringAttr.get(name)):
        yield


_PLAIN = {"and": "and_", "or": "or_", "xor": "xor_", "pow": "pow_"}


def _ints(item: Any) -> Any:
    return item if isinstance(item, Tensor) else np.array(item, np.int32)

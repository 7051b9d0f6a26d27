"""8-bit weights that have few different values: stored as indices into palettes of these values, without loss.

A quantizer may choose integers of which few values occur; :mod:`edgekit_mil.passes.weight_compression` chooses palettes
for float weights instead. A palette is for the whole tensor or for neighboring slices along the axis of the scales,
whichever takes less room. Needs iOS 18, in which a scale may follow a look-up table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program, block_context_manager, ct, mb, types
from edgekit_mil.passes.pipeline import run
from edgekit_mil.passes.sparse_storage import saves_room, sparse_bytes
from edgekit_mil.passes.weight_compression import LEAST_ELEMENTS

BITS = (1, 2, 3, 4, 6)
"""Widths of indices that Core ML stores, below the 8 bits of the integers themselves."""
SLICES = (4, 8, 16, 32, 64)
"""Numbers of slices that may share a palette, if not all slices share one."""
VALUES = 256


@dataclass(frozen=True)
class Palettes:
    """The values that occur in each group of slices, and how they would be stored."""

    bits: int
    present: np.ndarray
    """bool ``[groups, VALUES]``: whether a value occurs in a group. The index of a value is the value plus 128."""
    size: float
    """Bytes of indices and palettes."""


def store_few_levels(program: Program, target_name: str) -> None:
    """Replace 8-bit weights by palettes if these take less room, also less than sparse storage, in place.

    Args:
        program: The program, its types chosen.
        target_name: The deployment target by coremltools' name.
    """
    if ct.target[target_name] < ct.target.iOS18:
        return
    for function in program.functions.values():
        _replace(function, ct.target[target_name])
    run(program, "common::dead_code_elimination")


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def _replace(block: Any, target: ct.target) -> None:
    for operation in list(block.operations):
        for inner in operation.blocks:
            _replace(inner, target)
        if operation.op_type != "constexpr_affine_dequantize" or operation.outputs[0] in block.outputs:
            continue
        levels, scale = np.asarray(operation.quantized_data.val), np.asarray(operation.scale.val)
        if levels.dtype != np.int8 or levels.size < LEAST_ELEMENTS or np.any(operation.zero_point.val):
            continue
        axis = int(operation.axis.val) % levels.ndim
        best = min(_palettes(levels, axis, scale.dtype.itemsize), key=lambda found: found.size, default=None)
        sparse = sparse_bytes(levels) if saves_room(operation, target) else levels.size
        if best is None or best.size >= sparse:
            continue
        old = operation.outputs[0]
        new = _stored(levels, scale, axis, best, operation)
        # forced: coremltools forbids replacing what decompresses weights, so that they are not stored as floats again
        block.replace_uses_of_var_after_op(anchor_op=new.op, old_var=old, new_var=new, force_replace=True)
        block.remove_ops([operation])


def _palettes(levels: np.ndarray, axis: int, entry_bytes: int) -> Iterator[Palettes]:
    """Yields every way to store the levels in fewer than 8 bits."""
    slices = levels.shape[axis]
    rows = np.moveaxis(levels, axis, 0).reshape(slices, -1).astype(np.int16) + VALUES // 2
    present = np.zeros((slices, VALUES), bool)
    present[np.arange(slices)[:, None], rows] = True
    for together in (slices, *(count for count in SLICES if count < slices and slices % count == 0)):
        grouped = np.asarray(present.reshape(-1, together, VALUES).any(axis=1))
        most = int(grouped.sum(axis=1).max())
        bits = next((width for width in BITS if most <= 2**width), None)
        if bits is not None:
            yield Palettes(bits, grouped, levels.size * bits / 8 + len(grouped) * 2**bits * entry_bytes)


def _stored(levels: np.ndarray, scale: np.ndarray, axis: int, palettes: Palettes, before: Any) -> Any:
    """Inserts the operations that compute the weights before another operation, and returns their result."""
    groups, rank = len(palettes.present), levels.ndim
    place = np.cumsum(palettes.present, axis=1) - 1
    owner = np.repeat(np.arange(groups), levels.shape[axis] // groups).reshape(
        [-1 if at == axis else 1 for at in range(rank)]
    )
    indices = place[owner, levels.astype(np.int16) + VALUES // 2]
    tables = np.zeros((groups, 2**palettes.bits), scale.dtype)
    for table, values in zip(tables, palettes.present, strict=True):
        found = np.flatnonzero(values) - VALUES // 2
        table[:] = np.pad(found, (0, len(table) - len(found)), mode="edge")
    dtype = types.nptype_from_builtin(types.string_to_builtin(f"uint{palettes.bits}"))
    wide = [groups if at == axis else 1 for at in range(rank)]
    alike = mb.constexpr_lut_to_dense(
        indices=indices.astype(np.uint8).astype(dtype),
        lut=tables.reshape(*wide, -1, 1),
        before_op=before,
        name=f"{before.name}_levels",
    )
    each = [levels.shape[axis] if at == axis and scale.ndim else 1 for at in range(rank)]
    return mb.constexpr_blockwise_shift_scale(
        data=alike, scale=scale.reshape(each), before_op=before, name=f"{before.name}_weights"
    )

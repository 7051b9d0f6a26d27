"""TopK on OpenVINO: the first of equal numbers comes first, as ONNX defines.

The plugin's own way to keep their order (``stable``) compares each number with all that are kept: keeping 1000 of 8400
takes up to a thousand times as long (OpenVINO 2026.4). Here the places of equal floating-point numbers are sorted
afterwards, unless their number is known at run time only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import hand_over

FEWEST_SORTED = 6
"""Fewer kept numbers than this are left to the plugin's own ``stable``, which takes the same time."""
LARGEST_KEY = np.iinfo(np.int32).max
_PLACES = 1


def keep_the_order_of_equals(greatest: Any) -> None:
    """Makes the first of equal numbers come first in a TopK whose values are sorted; names stay.

    A TopK that keeps one number is marked as sorted: the frontend marks Hardmax's unsorted, and the plugin takes any.
    """
    length, kept = _sizes(greatest)
    if kept == 1:
        greatest.set_attribute("sort", "value")
    if greatest.get_attributes().get("sort") != "value":
        return
    is_integral = greatest.get_output_element_type(0).is_integral()
    if is_integral or length is None or kept is None or kept < FEWEST_SORTED:
        greatest.set_attribute("stable", True)
    elif length * kept <= LARGEST_KEY:
        _sort_places_of_equals(greatest, length, kept)


def _sizes(greatest: Any) -> tuple[int | None, int | None]:
    """Returns how many numbers lie along the axis, and how many of them are kept; None for a number that is open."""
    axis = int(greatest.get_attributes()["axis"])
    shapes = greatest.get_input_partial_shape(0), greatest.get_output_partial_shape(0)
    if any(shape.rank.is_dynamic for shape in shapes):
        return None, None
    length, kept = (int(size.get_length()) if size.is_static else None for size in (shape[axis] for shape in shapes))
    return length, kept


def _sort_places_of_equals(greatest: Any, length: int, kept: int) -> None:
    """Replaces the places that a TopK gives by places that are sorted among equal values.

    All in integers, since places do not fit into the 16 bits in which a device may compute floating-point numbers.
    """
    from openvino import opset13

    values, places = greatest.output(0), greatest.output(_PLACES)
    readers = places.get_target_inputs()
    if not readers:
        return
    rank = greatest.get_output_partial_shape(0).rank.get_length()
    along = _Along(int(greatest.get_attributes()["axis"]) % rank, rank)
    found = opset13.convert(places, "i32")
    if kept > 1:
        found = _sorted_within_equals(along, values, found, length, kept)
    if kept < length:
        found = _first_of_the_least(along, greatest.input_value(0), values, found, length, kept)
    sorted_places = opset13.convert(found, places.get_element_type()).output(0)
    hand_over(places, sorted_places, readers)


class _Along:
    """Nodes that work along one axis.

    Args:
        axis: The axis, counted from the first.
        rank: The number of axes.
    """

    def __init__(self, axis: int, rank: int) -> None:
        self.axis = axis
        self._rank = rank

    def numbers(self, count: int) -> Any:
        """0, 1, … along the axis."""
        from openvino import opset13

        sizes = [1] * self._rank
        sizes[self.axis] = count
        return opset13.constant(np.arange(count, dtype=np.int32).reshape(sizes))

    def part(self, value: Any, start: int, stop: int) -> Any:
        """The elements from ``start`` to before ``stop``."""
        from openvino import opset13

        start_stop_step_axis = [opset13.constant(np.array([one], np.int64)) for one in (start, stop, 1, self.axis)]
        return opset13.slice(value, *start_stop_step_axis)

    def sums(self, value: Any) -> Any:
        """Cumulative sums."""
        from openvino import opset13

        return opset13.cum_sum(value, opset13.constant(np.array(self.axis, np.int64)))

    def least(self, value: Any, count: int) -> Any:
        """The ``count`` least integers, values and places; for integers that differ, or equal ones in any order."""
        from openvino import opset13

        kept = opset13.constant(np.array(count, np.int32))
        return opset13.topk(value, kept, self.axis, "min", "value", index_element_type="i32")

    def at(self, value: Any, places: Any) -> Any:
        """The elements at the given places."""
        from openvino import opset13

        return opset13.gather_elements(value, places, self.axis)


def _sorted_within_equals(along: _Along, values: Any, places: Any, length: int, kept: int) -> Any:
    """Returns the places, those of equal values in order: sorted by the rank of the value, then by place."""
    from openvino import opset13

    differs = opset13.not_equal(along.part(values, 1, kept), along.part(values, 0, kept - 1))
    steps = along.sums(opset13.convert(differs, "i32"))
    numbered = opset13.multiply(steps, opset13.constant(np.int32(length)))
    first, others = along.part(places, 0, 1), along.part(places, 1, kept)
    keys = opset13.concat([first, opset13.add(others, numbered)], axis=along.axis)
    return along.at(places, along.least(keys, kept).output(_PLACES))


def _first_of_the_least(along: _Along, value: Any, values: Any, places: Any, length: int, kept: int) -> Any:
    """Returns the places, with the first ones for the last kept value, which may occur more often than it is kept."""
    from openvino import opset13

    last = along.part(values, kept - 1, kept)
    nowhere = opset13.constant(np.int32(length))
    equal = opset13.select(opset13.equal(value, last), along.numbers(length), nowhere)
    first = along.least(equal, kept).output(0)
    is_last = opset13.equal(values, last)
    number = opset13.subtract(along.sums(opset13.convert(is_last, "i32")), opset13.constant(np.int32(1)))
    moved = along.at(first, opset13.maximum(number, opset13.constant(np.int32(0))))
    return opset13.select(opset13.logical_and(is_last, opset13.less(moved, nowhere)), moved, places)

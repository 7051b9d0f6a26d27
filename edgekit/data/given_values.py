"""Values that a caller gives in place of a sample: as arrays that fit a model's inputs."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from edgekit.data.axes import rearranged
from edgekit.data.npy import in_native_order
from edgekit.errors import InputError
from edgekit.features.tokens import numbers_for
from edgekit.features.vocabularies import are_texts, as_numbers
from edgekit.model import ValueSpec

_MOST_SHOWN = 80
"""Most characters of a value that an error shows."""
_WHOLE = {"bool": (0, 1)} | {
    f"{sign}int{bits}": (int(np.iinfo(f"{sign}int{bits}").min), int(np.iinfo(f"{sign}int{bits}").max))
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
"""The least and the greatest value of integer types and booleans, by type."""


def fitting_array(value: Any, spec: ValueSpec) -> np.ndarray:
    """The value as an array that fits an input; Python's own numbers become the input's type, words their numbers.

    Arrays keep their element type, with two exceptions. ``float64``, NumPy's default, becomes ``float32`` if the input
    takes that. Integers and booleans become the input's integer type or booleans if that type holds their values: ids
    of 32 bits become ids of 64, say, and a mask of booleans becomes integers.

    Args:
        value: An array, or numbers or texts in lists.
        spec: The input.

    Raises:
        InputError: The element type or the shape is not the input's, the input's type cannot hold the numbers, or an
            element of texts is not a text.
    """
    text = spec.dtype == "str"
    subject = f"input {spec.name!r}"
    if text or spec.vocabulary is not None:
        value = _checked_texts(value, subject, spec)
    if spec.vocabulary is not None and are_texts(given := _plain(value, subject, spec)):
        value = numbers_for(given, spec.vocabulary, spec.tokens, subject)
    array = in_native_order(value) if isinstance(value, np.ndarray) else _converted(value, spec, subject)
    if array.dtype == np.float64 and spec.dtype == "float32" and _narrows(array):
        array = array.astype(np.float32)
    elif array.dtype.kind in "biu" and not text:
        array = _same_whole_numbers(array, spec.dtype)
    if not (array.dtype.kind in "OU" if text else array.dtype.name == spec.dtype):
        raise InputError(
            "the array's element type is not the model's",
            subject=subject,
            expected=str(spec),
            found={"U": "str", "S": "bytes"}.get(array.dtype.kind, array.dtype.name),
            hint=_type_hint(array, spec.dtype) if array.dtype.kind not in "OUScmM" and not text else None,
        )
    if not spec.takes_shape(array.shape):
        missing = spec.takes_shape((1, *array.shape))
        raise InputError(
            "the array's shape is not the model's",
            subject=subject,
            expected=str(spec),
            found=str(ValueSpec(spec.name, array.dtype.name, array.shape)),
            hint=_shape_hint(array, spec, missing=missing),
        )
    return array if spec.vocabulary is None else as_numbers(array, spec.vocabulary, subject)


def _type_hint(array: np.ndarray, dtype: str) -> str:
    """A hint how to convert an array to the input's type; a cast to integers makes zeros of sounds from -1 to 1."""
    cast = f"array.astype({dtype!r})"
    fractions = array.dtype.kind == "f" and "int" in dtype and bool((np.isfinite(array) & (array % 1 != 0)).any())
    if not fractions:
        return f"give {cast}"
    if np.nanmax(np.abs(array)) > 1:
        return f"its numbers have fractions, which {cast} cuts off: round or scale them as the training did"
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    scaled = f"numpy.clip(numpy.rint(array * {most + 1 if least else most}), {least}, {most}).astype({dtype!r})"
    return f"{cast} makes zeros of numbers from -1 to 1: scale them as the training did, such as {scaled} for sounds"


def _same_whole_numbers(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array cast to ``dtype`` if that is an integer type or boolean and holds its values; else the array itself."""
    if array.dtype.name == dtype or dtype not in _WHOLE:
        return array
    low, high = _WHOLE[dtype]
    fits = not array.size or (int(array.min()) >= low and int(array.max()) <= high)
    return array.astype(dtype) if fits else array


def _shape_hint(array: np.ndarray, spec: ValueSpec, *, missing: bool) -> str | None:
    if missing:
        return "the batch dimension is missing: give array[numpy.newaxis]"
    if spec.shape is not None and (expression := rearranged(array.shape, spec.shape)) is not None:
        return f"the model takes the axes in another order: give {expression}"
    if array.ndim == 0 and spec.shape is not None and spec.takes_shape((1,) * len(spec.shape)):
        return (
            "give one sample's numbers as nested lists, [[number]]; predict() takes tables with a row for each sample"
        )
    if array.ndim and len(array) > 1 and any(spec.takes_shape((1, *tail)) for tail in (array.shape[1:], (1,))):
        return f"if these are {len(array)} samples, predict() runs them one after the other"
    return None


def _narrows(array: np.ndarray) -> bool:
    """Whether float32 holds the numbers once they are rounded: no finite number is beyond its range."""
    greatest = np.finfo(np.float32).max
    return bool((~np.isfinite(array) | (np.abs(array) <= greatest)).all())


def _converted(value: Any, spec: ValueSpec, subject: str) -> np.ndarray:
    """Python's own numbers as an array of the input's type."""
    given = _plain(value, subject, spec)
    if given.dtype.kind in "US":
        raise _unfit(value, subject, spec)
    if given.dtype == object and any(each is None for each in given.flat):  # NumPy would make NaN or False of None
        raise _unfit(
            value,
            subject,
            spec,
            hint="None is not a number: give float('nan') for a missing value, if the input takes missing values",
        )
    try:
        with np.errstate(invalid="ignore"):
            array = given.astype(spec.dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise _unfit(value, subject, spec) from error
    if array.dtype.kind in "iu" and given.dtype.kind in "iuf" and not np.array_equal(array, given):
        raise _unfit(value, subject, spec)
    return array


def _checked_texts(value: Any, subject: str, spec: ValueSpec) -> Any:
    """Returns texts once it is checked that each is one: NumPy and runtimes turn ``None`` into the text ``"None"``.

    Arrays that hold no Python objects, and lists with the numbers of words, are returned unchanged.
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    if spec.dtype != "str" and not are_texts(_plain(value, subject, spec)):
        return value
    elements = _plain(value, subject, spec, object)
    texts = str if spec.vocabulary is None else (str, bytes)
    strays = [each for each in elements.flat if not isinstance(each, texts)]
    if strays:
        raise InputError(
            "holds a value that is not a text",
            subject=subject,
            expected=str(spec),
            found=_shortened(strays[0]),
            hint=(
                "give texts as in the training: str(value), bytes.decode(), and for a missing value the text that "
                "the training used"
            ),
        )
    return elements


def _plain(value: Any, subject: str, spec: ValueSpec, dtype: type | None = None) -> np.ndarray:
    """The value as an array of ``dtype``, or of the type that NumPy chooses if ``dtype`` is None."""
    try:
        return np.asarray(value, dtype)
    except (ValueError, TypeError, OverflowError) as error:  # lists of several lengths
        raise _unfit(value, subject, spec) from error


def _unfit(value: Any, subject: str, spec: ValueSpec, hint: str | None = None) -> InputError:
    return InputError(
        "cannot be made an array of the input's type",
        subject=subject,
        expected=str(spec),
        found=_shortened(value),
        hint=hint,
    )


def _shortened(value: Any) -> str:
    shown = reprlib.repr(value)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"

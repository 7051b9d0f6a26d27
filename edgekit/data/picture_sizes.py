"""Height and width of a picture input that leaves them free: as they are declared, or as all pictures have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgekit.data.samples import sample_files
from edgekit.errors import InputError
from edgekit.files.regular_file import SAMPLE_BYTES, open_regular
from edgekit.graph.sizes.default_sizes import MediaSize
from edgekit.model import Dim, ValueSpec
from edgekit.preprocessing import ImagePreprocessing, Preprocessing, fixed_by
from edgekit.preprocessing.image import FORMATS, SUFFIXES, fitting_layouts

_TURNED = {5, 6, 7, 8}
"""The orientations of EXIF that exchange height and width."""
_ORIENTATION = 0x0112


@dataclass(frozen=True)
class PictureSizes:
    """The sizes of pictures, (height, width), and how many pictures have each size."""

    counts: Mapping[tuple[int, int], int]

    @property
    def agreed(self) -> tuple[int, int] | None:
        """The one size of all pictures; None if there are several sizes, or no pictures."""
        return next(iter(self.counts)) if len(self.counts) == 1 else None

    @property
    def most_frequent(self) -> tuple[int, int] | None:
        """The size that more than half of the pictures have, or None if there is no such size."""
        size = max(self.counts, key=lambda size: self.counts[size], default=None)
        return size if size is not None and 2 * self.counts[size] > sum(self.counts.values()) else None

    def __str__(self) -> str:
        if not self.counts:
            return "no pictures"
        if self.agreed is not None:
            return "pictures of {}×{} (height × width)".format(*self.agreed)
        least, greatest = (pick(self.counts, key=lambda size: size[0] * size[1]) for pick in (min, max))
        return "pictures of {}×{} to {}×{} (height × width)".format(*least, *greatest)


def sizes_of_pictures(files: Sequence[Path]) -> PictureSizes:
    """The sizes of those of the files that are pictures, by their headers; unreadable ones are left out."""
    return PictureSizes(Counter(size for file in files if (size := _size_of(file)) is not None))


def picture_size(
    inputs: Sequence[ValueSpec], preprocessing: Preprocessing | None, *folders: Path | None
) -> MediaSize | None:
    """The height and the width for a model's only input, if it leaves them free; None if they are not known.

    Args:
        inputs: The model's inputs.
        preprocessing: How pictures become the input, as it was declared.
        folders: The samples.

    Raises:
        InputError: A folder is missing or empty.
    """
    declared = _declared(inputs, preprocessing)
    if declared is None or len(inputs) != 1:
        return None
    spec = inputs[0]
    free = {letter: axis for letter, axis in _axes(spec, declared).items() if not isinstance(_dims(spec)[axis], int)}
    if not free:
        return None
    if declared.size is not None:
        return _at(spec, free, declared.size, "as size in [preprocessing] says")
    found = sizes_of_pictures([file for folder in folders if folder is not None for file in sample_files(folder)])
    if declared.resize == "none" and found.agreed is not None:
        return _at(spec, free, found.agreed, "as in the pictures")
    return None


def require_size(inputs: Sequence[ValueSpec], preprocessing: Preprocessing | None, *folders: Path | None) -> None:
    """Checks that height and width of a picture input are known once sizes are fixed.

    Args:
        inputs: The inputs, shapes fixed as far as they are known.
        preprocessing: How pictures become the input, as it was declared.
        folders: The samples.

    Raises:
        InputError: They are not known; the hint names dimensions and sizes.
    """
    declared = _declared(inputs, preprocessing)
    if declared is None or len(inputs) != 1:
        return
    spec = inputs[0]
    axes = _axes(spec, declared)
    if all(isinstance(_dims(spec)[axis], int) for axis in axes.values()):
        return
    found = sizes_of_pictures([file for folder in folders if folder is not None for file in sample_files(folder)])
    sizes = found.agreed or ("HEIGHT", "WIDTH")
    known = {axis: sizes["HW".index(letter)] for letter, axis in axes.items()}
    raise InputError(
        "a picture needs an input of a fixed shape",
        subject=f"input {spec.name!r}",
        expected="height and width",
        found=f"{spec}; {found}",
        hint=f"size = [{sizes[0]}, {sizes[1]}] in [preprocessing] gives them, or {fixed_by(spec, known)}",
    )


def _declared(inputs: Sequence[ValueSpec], preprocessing: Preprocessing | None) -> ImagePreprocessing | None:
    """How pictures become the input; a ``uint8`` input needs no declaration. None if samples are not pictures."""
    if preprocessing is None and len(inputs) == 1 and inputs[0].dtype == "uint8":
        return ImagePreprocessing(scale=1.0)
    return preprocessing if isinstance(preprocessing, ImagePreprocessing) else None


def _dims(spec: ValueSpec) -> tuple[Dim, ...]:
    return spec.shape or ()


def _axes(spec: ValueSpec, declared: ImagePreprocessing) -> dict[str, int]:
    """The axes of height and width, by ``H`` and ``W``; empty if the layout is not clear."""
    shape = _dims(spec)
    fitting = fitting_layouts(shape)
    layout = declared.layout or (fitting[0] if len(fitting) == 1 else "")
    return {letter: layout.index(letter) for letter in "HW" if letter in layout} if len(layout) == len(shape) else {}


def _at(spec: ValueSpec, free: Mapping[str, int], size: tuple[int, int], why: str) -> MediaSize:
    return MediaSize(spec.name, {axis: size["HW".index(letter)] for letter, axis in free.items()}, why)


def _size_of(file: Path) -> tuple[int, int] | None:
    """Height and width as the picture is shown; None for another file, or one that cannot be read."""
    from PIL import Image

    if file.suffix.casefold() not in SUFFIXES:
        return None
    try:
        with open_regular(file, SAMPLE_BYTES) as content, Image.open(content, formats=FORMATS) as opened:
            turned = opened.getexif().get(_ORIENTATION) in _TURNED
            return (opened.width, opened.height) if turned else (opened.height, opened.width)
    except Exception:  # reading the sample later reports the error
        return None

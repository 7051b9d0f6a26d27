"""Pictures as model inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edgekit.errors import InputError
from edgekit.files.encoded import Encoded, open_source
from edgekit.files.regular_file import SAMPLE_BYTES
from edgekit.model import Dim, ValueSpec
from edgekit.preprocessing._values import as_dtype, factor, fixed_by, require_levels, resolve_dtype

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF", "PPM")
"""Pillow's names of the formats that are decoded, independent of a file's name."""
OTHER_BUNDLES = (
    "if it is meant for another bundle of the project file, [bundle.preprocessing] replaces it for this one, and "
    "preprocessing = false under [[bundle]] leaves it out"
)
MOST_PIXELS = 100_000_000
BATCH_RANK = 4
"""The number of dimensions of an input whose first dimension counts pictures."""
LARGEST_PIXEL = 255
_LAYOUTS = {4: ("NCHW", "NHWC"), 3: ("CHW", "HWC"), 2: ("HW",)}
"""Layouts of inputs, by the number of their dimensions."""
_DEEP_MODES = ("I", "F")
"""How the modes begin in which Pillow keeps more than 8 bits a channel."""
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})

Color = Literal["RGB", "BGR", "GRAY"]
Resize = Literal["none", "stretch", "crop", "pad"]


@dataclass(frozen=True)
class ImagePreprocessing:
    """``[preprocessing]`` with ``kind = "image"``; what is None follows from the model's input.

    ``input = (pixel · scale - mean) / std``, with pixels from 0 to 255. Pictures are rotated as their EXIF data says,
    then resized by Pillow, then their channels are ordered. A gray picture gives a color input three equal channels;
    a color picture gives a gray input its luma (ITU-R BT.601).
    """

    scale: float
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    """One number per channel in the model's order, or one for all channels."""
    color: Color | None = None
    """None: ``GRAY`` for an input with one channel, ``RGB`` for one with three."""
    size: tuple[int, int] | None = None
    """Height and width."""
    resize: Resize = "none"
    crop_fraction: float = 1.0
    pad_value: int = 0
    pad_align: Literal["center", "start"] = "center"
    interpolation: Literal["nearest", "box", "bilinear", "bicubic", "lanczos"] = "bilinear"
    layout: str | None = None
    """The input's dimensions, such as ``NCHW``. None for the layout whose channel dimension has 1 or 3 entries."""
    dtype: str | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> ImagePreprocessing:
        """The declaration that a valid table holds."""
        parsed = dict(values, scale=factor(values["scale"]))
        for key in ("mean", "std"):
            if key in parsed:
                numbers = parsed[key] if isinstance(parsed[key], list) else [parsed[key]]
                parsed[key] = tuple(map(float, numbers))
        if "size" in parsed:
            parsed["size"] = tuple(parsed["size"])
        return cls(**parsed)

    def as_record(self) -> dict[str, Any]:
        """Plain data, as it stands in ``edgekit.toml``."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        return {"kind": "image", **{key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}}

    def resolve(self, spec: ValueSpec) -> ImagePreprocessing:
        """Returns the declaration completed from the model's input.

        Raises:
            InputError: The input is not a single picture, or not as declared, or its layout is ambiguous.
        """
        layout = self.layout or _infer_layout(spec)
        dims = dict(zip(layout, _static_shape(spec), strict=False))
        size = (dims.get("H", 0), dims.get("W", 0))
        channels = dims.get("C", 1)
        if len(layout) != len(spec.shape or ()) or dims.get("N", 1) != 1 or channels not in (1, 3):
            batch = ", a batch of 1" if "N" in layout else ""
            raise _misfit(spec, f"one picture as {layout}{batch}, with 1 or 3 channels")
        if self.size not in (None, size):
            asked, taken = (f"{height}×{width}" for height, width in (self.size or size, size))
            raise _misfit(
                spec,
                f"height and width as in size: {asked}",
                f"leave size out, or write size = {list(size)}: the model takes pictures of {taken}",
            )
        color: Color = self.color or ("GRAY" if channels == 1 else "RGB")
        if (color == "GRAY") != (channels == 1):
            fitting = '"GRAY"' if channels == 1 else '"RGB" or "BGR"'
            raise _misfit(
                spec,
                f"as many channels as {color} has: {1 if color == 'GRAY' else 3}",
                f"write color = {fitting}: in the layout {layout} the model takes {channels} channel"
                f"{'s' if channels > 1 else ''}",
            )
        for key in ("mean", "std"):
            if len(getattr(self, key)) not in (1, channels):
                raise _misfit(
                    spec,
                    f"as many channels as {key} has numbers: {len(getattr(self, key))}",
                    f"write {key} with one number" + (f", or with {channels}" if channels > 1 else ""),
                )
        if 0 in self.std:
            raise InputError("a standard deviation is zero", subject="[preprocessing] std", found=list(self.std))
        mean, std = (np.array(numbers)[:, np.newaxis] for numbers in (self.mean, self.std))
        require_levels((np.arange(256) * self.scale - mean) / std, spec)
        return replace(self, layout=layout, size=size, color=color, dtype=resolve_dtype(self.dtype, spec))

    def decoder(self, spec: ValueSpec) -> ImageDecoder:
        """Returns the decoder of files for this input."""
        return ImageDecoder(self.resolve(spec), spec)


class ImageDecoder:
    """Reads pictures with Pillow."""

    def __init__(self, preprocessing: ImagePreprocessing, spec: ValueSpec) -> None:
        self._preprocessing = preprocessing
        self._dtype = spec.dtype
        self._layout = preprocessing.layout or ""
        self._size = preprocessing.size or (0, 0)

    def __call__(self, file: Path | Encoded) -> np.ndarray:
        """The picture as the model's input."""
        return self._as_input(self.upright(file), file)

    def upright(self, file: Path | Encoded) -> Image.Image:
        """Returns the picture in a file, read and rotated as its EXIF data says.

        Raises:
            InputError: The file is no picture, damaged, or too large.
        """
        from PIL import Image, UnidentifiedImageError

        try:
            # Other formats are decoded by external programs (EPS by Ghostscript), or rare in folders of pictures.
            with open_source(file, SAMPLE_BYTES) as content, Image.open(content, formats=FORMATS) as opened:
                return _upright(opened, file)
        except InputError:
            raise
        except UnidentifiedImageError as error:  # its message is an object's address
            another = "not of the kind that its suffix says" if isinstance(file, Path) else "no picture"
            raise InputError(
                f"the picture cannot be read: it is damaged, or {another}",
                subject=file,
                expected=None if isinstance(file, Path) else f"one of {', '.join(FORMATS)}",
            ) from error
        except Exception as error:  # Pillow's decoders raise errors of any type
            raise InputError(f"the picture cannot be read: {error}", subject=file) from error

    def from_picture(self, opened: Image.Image) -> np.ndarray:
        """Returns the model's input for a picture that Pillow has opened.

        Raises:
            InputError: The picture is damaged, too large, or does not fit the declaration.
        """
        return self._as_input(self.upright_picture(opened), _named(opened))

    def upright_picture(self, opened: Image.Image) -> Image.Image:
        """Returns a picture that Pillow has opened, read and rotated as its EXIF data says.

        Raises:
            InputError: The picture is damaged, or too large.
        """
        subject = _named(opened)
        try:
            return _upright(opened, subject)
        except InputError:
            raise
        except Exception as error:  # as above: its pixels may not have been read yet
            raise InputError(f"the picture cannot be read: {error}", subject=subject) from error

    @property
    def preprocessing(self) -> ImagePreprocessing:
        """How a picture becomes the input, with all that the declaration leaves out."""
        return self._preprocessing

    def _as_input(self, picture: Image.Image, subject: object) -> np.ndarray:
        gray = self._preprocessing.color == "GRAY"
        picture = self._resized(_eight_bits(picture, "L" if gray else "RGB", subject), subject)
        pixels = np.asarray(picture, dtype=np.float64).reshape(*self._size, -1)
        return self.from_pixels(pixels[..., ::-1] if self._preprocessing.color == "BGR" else pixels)

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a picture that needs no resizing."""
        height, width = self._size
        return height, width, 1 if self._preprocessing.color == "GRAY" else 3

    def from_pixels(self, pixels: np.ndarray) -> np.ndarray:
        """The model's input for pixels from 0 to 255: height, width, channel in the model's order."""
        mean, std = np.array(self._preprocessing.mean), np.array(self._preprocessing.std)
        values = (pixels * self._preprocessing.scale - mean) / std
        return as_dtype(self._laid_out(values), self._dtype)

    def _laid_out(self, values: np.ndarray) -> np.ndarray:
        """Transposes height, width, channel to the layout."""
        if "C" not in self._layout:
            values = values[..., 0]
        values = values.transpose(["HWC".index(letter) for letter in self._layout if letter != "N"])
        return np.ascontiguousarray(values[np.newaxis] if "N" in self._layout else values)

    def _resized(self, picture: Image.Image, file: object) -> Image.Image:
        from PIL import Image, ImageOps

        declared = self._preprocessing
        height, width = self._size
        size = (width, height)
        method = Image.Resampling[declared.interpolation.upper()]
        if declared.resize == "stretch":
            return picture.resize(size, method)
        if declared.resize == "crop":
            factor = max(width / picture.width, height / picture.height) / declared.crop_fraction
            if round(picture.width * factor) * round(picture.height * factor) > MOST_PIXELS:
                raise InputError(
                    "the picture would become too large before it is cropped",
                    subject=file,
                    expected=f"{MOST_PIXELS} pixels at most",
                    found=f"{picture.width}×{picture.height}, {factor:.3g} times that",
                )
            scaled = picture.resize((round(picture.width * factor), round(picture.height * factor)), method)
            left, top = round((scaled.width - width) / 2), round((scaled.height - height) / 2)
            return scaled.crop((left, top, left + width, top + height))
        if declared.resize == "pad":
            fill = declared.pad_value if picture.mode == "L" else (declared.pad_value,) * 3
            centering = (0.5, 0.5) if declared.pad_align == "center" else (0.0, 0.0)
            if not min(round(picture.height / picture.width * width), round(picture.width / picture.height * height)):
                raise InputError(
                    "the picture is too narrow: less than half a pixel is left of it in the input",
                    subject=file,
                    found=f"{picture.width}×{picture.height}, for {width}×{height} (width × height)",
                )
            return ImageOps.pad(picture, size, method, fill, centering)
        if picture.size != size:
            raise InputError(
                "the picture has another size than the model's input",
                subject=file,
                expected=f"{width}×{height} (width × height)",
                found=f"{picture.width}×{picture.height}",
                hint='set resize in [preprocessing] to "stretch", "crop" or "pad", whichever the training used',
            )
        return picture


def require_eight_bits(file: Path) -> None:
    """Checks in a picture's header that it has 8 bits per channel, as samples need; unreadable files are ignored.

    Raises:
        InputError: The picture has more bits per channel.
    """
    from PIL import Image

    try:
        with open_source(file, SAMPLE_BYTES) as content, Image.open(content, formats=FORMATS) as opened:
            found = f"mode {opened.mode}" if opened.mode.startswith(_DEEP_MODES) else _wide_form(opened)
    except Exception:  # reading the sample reports what is wrong with it
        return
    if found is not None:
        raise _too_deep(file, found)


def _named(picture: Image.Image) -> str:
    return f"the picture of {picture.width}×{picture.height}"


def _upright(opened: Image.Image, subject: object) -> Image.Image:
    """Returns the picture with its pixels read, rotated as its EXIF data says."""
    from PIL import ImageOps

    if opened.width * opened.height > MOST_PIXELS:
        raise InputError(
            "the picture is too large",
            subject=subject,
            expected=f"{MOST_PIXELS} pixels at most",
            found=f"{opened.width}×{opened.height}",
        )
    if not opened.mode.startswith(_DEEP_MODES) and (wide := _wide_form(opened)) is not None:
        raise _too_deep(subject, wide)
    if opened.format == "TIFF" and getattr(opened, "n_frames", 1) > 1:
        raise InputError(
            "the file holds several pictures",
            subject=subject,
            expected="one picture a file",
            found=f"{getattr(opened, 'n_frames', 1)} pages",
            hint="save each in a file of its own",
        )
    picture = ImageOps.exif_transpose(opened)
    picture.load()
    return picture


def _wide_form(opened: Image.Image) -> str | None:
    """Returns how a file stores channels of more than 8 bits, in Pillow's words, or None if it does not.

    Pillow reduces such color channels to 8 bits, and the picture's mode does not show it.
    """
    for codec, _extents, _offset, arguments in getattr(opened, "tile", ()):  # plain tuples before Pillow 11
        form, *rest = (arguments,) if isinstance(arguments, str) else tuple(arguments or ()) or ("",)
        if ";16" in str(form):
            return str(form)
        if codec.startswith("ppm") and rest and isinstance(rest[0], int) and rest[0] > LARGEST_PIXEL:
            return f"values up to {rest[0]}"
    return None


def _too_deep(subject: object, found: str) -> InputError:
    return InputError(
        "the picture has more than 8 bits a channel",
        subject=subject,
        expected="8 bits a channel",
        found=found,
        hint="save the samples as .npz files, with the numbers that the training fed the model; with 8 bits only if it "
        "was trained on these",
    )


def _eight_bits(picture: Image.Image, mode: str, file: object) -> Image.Image:
    """Returns the picture with 8 bits per channel in the given mode; visible content that would be lost is an error."""
    if picture.mode.startswith(_DEEP_MODES):
        raise _too_deep(file, f"mode {picture.mode}")
    if picture.has_transparency_data:
        lowest = np.asarray(picture.convert("RGBA"))[..., 3].min()
        if lowest < 255:
            raise InputError(
                "the picture is transparent in places, and what lies behind it is not known",
                subject=file,
                hint="flatten it onto the background that the training used",
            )
        picture = picture.convert("RGB")
    if picture.mode == "LAB":  # Pillow converts it to no other mode
        picture = picture.convert("RGB")
    return picture.convert(mode)


def _infer_layout(spec: ValueSpec) -> str:
    """Returns the layout for the model's input, which is unambiguous if exactly one position fits the channels."""
    shape = _static_shape(spec)
    fitting = fitting_layouts(shape)
    if len(fitting) != 1:
        candidates = _LAYOUTS.get(len(shape), ())
        raise InputError(
            "whether the model's input is a picture, and in which layout, is not clear",
            subject=f"input {spec.name!r}",
            expected=f"one layout of {', '.join(candidates)}" if candidates else "2, 3 or 4 dimensions",
            found=spec,
            hint='set layout in [preprocessing], for instance to "NCHW", or save the samples as .npz files',
        )
    return fitting[0]


def fitting_layouts(shape: Sequence[Dim]) -> list[str]:
    """The layouts of pictures in which the channel dimension of an input has 1 or 3 entries."""
    layouts = _LAYOUTS.get(len(shape), ())
    return [layout for layout in layouts if "C" not in layout or shape[layout.index("C")] in (1, 3)]


def _static_shape(spec: ValueSpec) -> tuple[int, ...]:
    if spec.shape is None or not spec.is_static:
        raise InputError(
            "a picture needs an input of a fixed shape",
            subject=f"input {spec.name!r}",
            found=spec,
            hint=f"fix it with {fixed_by(spec)}",
        )
    return tuple(dim for dim in spec.shape if isinstance(dim, int))


def _misfit(spec: ValueSpec, expected: str, remedy: str | None = None) -> InputError:
    """The error for a declaration that does not fit; ``remedy`` says which key to change, and how."""
    other = OTHER_BUNDLES if remedy is None else f"{remedy}; {OTHER_BUNDLES}"
    return InputError(
        "[preprocessing] does not fit the model's input",
        subject=f"input {spec.name!r}",
        expected=expected,
        found=spec,
        hint=_batch_hint(spec) or other,
    )


def _batch_hint(spec: ValueSpec) -> str | None:
    """Returns advice if the input takes several pictures at once, else None."""
    batch = (spec.shape or (1,))[0]
    if len(spec.shape or ()) != BATCH_RANK or not isinstance(batch, int) or batch == 1:
        return None
    return (
        f"the model takes {batch} pictures at once, a batch that the file fixes: export it with a batch of 1, "
        "or with a dynamic one"
    )

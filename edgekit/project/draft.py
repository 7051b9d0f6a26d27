"""Drafts ``edgekit.toml`` from a model and its samples; comments in it name what the user has to fill in."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.config import read_config
from edgekit.data import stated
from edgekit.data.labels import CSV_FILE, LINES_FILE, numbered_folders
from edgekit.data.picture_sizes import PictureSizes, picture_size, sizes_of_pictures
from edgekit.data.sampled_shapes import SampledShapes, sampled_shapes
from edgekit.data.samples import require_sample_files, sample_files
from edgekit.errors import InputError
from edgekit.files.atomic import atomic_file
from edgekit.files.regular_file import real_path
from edgekit.files.utf8_names import require_utf8_name
from edgekit.graph.sizes.default_sizes import AcceptedSizes, MediaSize, SampledSizes, with_default_sizes
from edgekit.graph.sizes.shape_request import ShapeRequest, at_sizes
from edgekit.model import Model, ValueSpec
from edgekit.packaging.tables import sample_folders
from edgekit.preprocessing import ImagePreprocessing, wav
from edgekit.preprocessing.image import require_eight_bits
from edgekit.registry import find_profile, installed_targets
from edgekit.stages.load import Load

BASELINE_FILE = "edgekit-baseline.json"
_PLAIN = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "æ": "ae", "Æ": "Ae"}
_PLAIN |= {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D"}
"""Letters beyond ASCII, each with how it is written in ASCII; other letters only lose their accents."""
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9._-]+")
BOXED = ("detect", "segment", "pose")
"""Tasks of Ultralytics' models whose boxes are axis-aligned."""
_CHANNELS = {1: "GRAY", 3: "RGB"}


@dataclass(frozen=True)
class Draft:
    """A project file that was written."""

    path: Path
    bundles: tuple[str, ...]
    """The names of the bundles that the file declares."""
    open_dims: tuple[str, ...]
    """Free dimensions whose sizes the model and its samples do not show."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Default device profiles that nothing on this machine builds for, each with the reason and a hint."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "config": str(self.path),
            "bundles": list(self.bundles),
            "open_dimensions": list(self.open_dims),
            "left_out": dict(self.left_out),
        }


def draft_project(
    model: Path, data: Path | None, targets: Sequence[str], output: Path, label: str | None = None
) -> Draft:
    """Writes a project file for a model.

    Args:
        model: The ONNX file.
        data: Folder of samples, or a table of them; None without samples.
        targets: Device profiles; empty for the first profile of each target that builds on this machine.
        output: The file, which must not exist.
        label: The column that holds the class, if the samples are the rows of a table.

    Raises:
        InputError: The model or the data cannot be read, a target is unknown, or the file exists.
    """
    if output.exists():
        raise InputError(
            "exists already",
            subject=output,
            hint="add a [[bundle]] with a model of its own to it, or name another file with -o",
        )
    for place in (output, data):
        if place is not None:
            require_utf8_name(place)
    with sample_folders(model, (data,), {}, label, None, lambda _: None) as (folder,):
        if folder is not None:
            require_sample_files(folder)
        lines, unknown, left_out = _drafted(model, data, folder, targets, output, label)
    with atomic_file(output) as place:
        place.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return Draft(output, tuple(bundle.name for bundle in read_config(output).bundles), tuple(unknown), left_out)


def _drafted(
    model: Path, data: Path | None, folder: Path | None, targets: Sequence[str], output: Path, label: str | None
) -> tuple[list[str], Sequence[str], dict[str, str]]:
    """The lines of the project file, the free dimensions of unknown sizes, and the profiles that are left out.

    Args:
        model: The ONNX file.
        data: The path of the samples that the project file names.
        folder: The samples as a folder.
        targets: Device profiles.
        output: The project file.
        label: The column that holds the class.
    """
    profiles = list(dict.fromkeys(find_profile(name)[1].name for name in targets))  # a device may have two names
    left_out: dict[str, str] = {}
    if not profiles:
        profiles, left_out = _first_profiles()
    sampled = sampled_shapes(folder)
    loaded = Load(sampled.names)(model).model
    sampled = sampled.for_inputs(loaded.inputs)
    files = [] if folder is None else sample_files(folder)
    pictures = sizes_of_pictures(files)
    free = _free_picture_size(loaded.inputs, pictures)
    if pictures.most_frequent is not None:
        sampled = replace(sampled, media=free)
    sizes, unknown = _sizes(loaded, sampled)
    how = _stated(loaded, sizes)
    if sampled.media is not None and how is None:
        shape = loaded.inputs[0].shape or ()
        declared_once = {shape[axis] for axis in sampled.media.sizes}
        sizes = {name: size for name, size in sizes.items() if name not in declared_once}
    lines = [
        "# What this project ships. `edgekit build` builds it, `edgekit gate --update` keeps it as the baseline,",
        "# `edgekit gate` judges later builds by it. `edgekit targets` lists the targets.",
        "",
        "[defaults]",
        f"model = {_text(_relative(model, output))}",
        f"targets = [{', '.join(map(_text, profiles))}]",
    ]
    if data is not None and folder is not None:
        lines.append(f"data = {_text(_relative(data, output))}")
        lines += _labels(folder, files, label, loaded.class_names)
    if sizes:
        lines.append(f"dims = {{ {', '.join(f'{_text(name)} = {size}' for name, size in sizes.items())} }}")
    lines += [f"# The size of {name} is open: dims = {{ {_text(name)} = SIZE }}" for name in unknown]
    lines.append("")
    if how is not None:
        lines += _remark_of_stated(how)
    else:
        lines += _preprocessing(loaded.inputs, files, None if free is None else pictures)
    lines += ["[[bundle]]", f"name = {_text(_name(model))}"]
    if data is not None and stated.task(loaded.metadata) in BOXED:
        lines.append('# postprocess = "nms"  # suppresses boxes in the model, which then gives each object once')
    return [*lines, "", *_gate(profiles)], unknown, left_out


def _labels(folder: Path, files: Sequence[Path], label: str | None, class_names: Sequence[str]) -> Iterator[str]:
    """The lines that say which class a sample belongs to."""
    if label is not None:
        yield f"label = {_text(label)}"
    numbered = None if (folder / CSV_FILE).exists() else numbered_folders(folder, files, class_names)
    if numbered is not None:
        yield f"# labels = {_text(LINES_FILE)}, a class name a line in the model's order; without it"
        yield f"# {numbered.replace('were', 'are')}."


def _gate(profiles: Sequence[str]) -> Iterator[str]:
    """The lines of ``[gate]``, and budgets to fill in."""
    yield from ("[gate]", f"baseline = {_text(BASELINE_FILE)}", "")
    yield from ("# [budget]", '# size = "5 MB"', '# accuracy_drop = "1%"  # of samples with labels')
    for name in profiles:
        if find_profile(name)[1].runs_here:  # a budget whose figure is not measured does not pass
            yield from ("", f"# [defaults.overrides.{name}]", "# budget = { latency_ratio = 1.0 }")


def _first_profiles() -> tuple[list[str], dict[str, str]]:
    """The first profile of each target that builds here, and the first profile of each other target with the reason."""
    names: list[str] = []
    left_out: dict[str, str] = {}
    for target in installed_targets().targets:
        profile = target.profiles[0]
        try:
            target.require_installed(profile)
        except InputError as error:
            left_out[profile.name] = "; ".join(text for text in (error.message, error.hint) if text)
        else:
            names.append(profile.name)
    return names, left_out


def _free_picture_size(inputs: Sequence[ValueSpec], pictures: PictureSizes) -> MediaSize | None:
    """The axes of the only input's free height and width with the most frequent picture size; None if not free."""
    size = pictures.most_frequent or next(iter(pictures.counts), None)
    return None if size is None else picture_size(inputs, ImagePreprocessing(scale=1.0, size=size))


def _sizes(model: Model, sampled: SampledShapes) -> tuple[dict[str, int], list[str]]:
    """The sizes of named free dimensions that all samples share, and the names of dimensions of unknown size.

    A dimension for which samples have several sizes is in neither: packaging makes of them what the device takes.
    """
    sizes = SampledSizes(sampled.ranges, sampled.count, AcceptedSizes.RANGE, sampled.media)
    request, found = with_default_sizes(ShapeRequest(), model.inputs, model.metadata, sizes)
    bare, _ = with_default_sizes(ShapeRequest(), model.inputs, model.metadata)
    fixed = {
        one.dimension: one.size
        for one in found
        if one.dimension is not None and isinstance(one.size, int) and bare.dims.get(one.dimension) != one.size
    }
    names = [dim for spec in model.inputs for dim in spec.shape or () if isinstance(dim, str)]
    return fixed, [dim for dim in dict.fromkeys(names) if dim not in request.dims]


def _stated(model: Model, sizes: Mapping[str, int]) -> ImagePreprocessing | None:
    """How pictures become the input, if the model's file states it; else None."""
    request, _ = with_default_sizes(ShapeRequest(), model.inputs, model.metadata)
    known = {dim: size for dim, size in {**request.dims, **sizes}.items() if isinstance(size, int)}
    return stated.preprocessing(model.metadata, at_sizes(model.inputs, known))


def _remark_of_stated(how: ImagePreprocessing) -> Iterator[str]:
    """The comment lines for a model whose file states how pictures become the input."""
    height, width = how.size or (0, 0)
    yield "# The model's file states how pictures become the input; a table [preprocessing] here counts in its place:"
    yield (
        f"# {how.color}, pixels from 0 to 255 times {how.scale:.6g}, resize = {_text(how.resize)} to {width}×{height}"
        + (f" with pad_value = {how.pad_value}." if how.resize == "pad" else ".")
    )
    yield ""


def _preprocessing(inputs: Sequence[ValueSpec], files: Sequence[Path], pictures: PictureSizes | None) -> Iterator[str]:
    """The lines of ``[preprocessing]``, as far as the samples show it; none for arrays.

    Args:
        inputs: The model's inputs.
        files: The samples.
        pictures: The sizes of the pictures, if the model leaves height and width free; else None.

    Raises:
        InputError: The first picture has more than 8 bits per channel, which no declaration can turn into an input.
    """
    if not files or len(inputs) != 1 or files[0].suffix.lower() == ".npz":
        return
    yield "# These values depend on the training, and the files do not state them: change those that differ from it."
    yield "[preprocessing]"
    if files[0].suffix.lower() in wav.SUFFIXES:
        sound = wav.read_wav(files[0])
        yield from ('kind = "audio"', f"sample_rate = {sound.sample_rate}", 'fit = "pad-crop"')
        if sound.channels > 1:
            yield 'channel = "mix"'
    else:
        require_eight_bits(files[0])
        shape = inputs[0].shape or ()
        color = next((_CHANNELS[dim] for dim in shape[1:] if isinstance(dim, int) and dim in _CHANNELS), None)
        yield 'kind = "image"'
        if color is not None:
            yield f'color = "{color}"'
        yield 'scale = "1/255"' if np.dtype(inputs[0].dtype).kind == "f" else "scale = 1"
        yield "# mean = 0.5 and std = 0.5, or a number a channel: input = (pixel * scale - mean) / std"
        if pictures is not None and pictures.most_frequent is None:
            yield f"# There are {pictures}, and no size is that of most: size = [HEIGHT, WIDTH], as in the training"
        elif pictures is not None and pictures.most_frequent is not None:
            if pictures.agreed is None:
                yield f"# There are {pictures}; most have this size."
            yield "size = [{}, {}]".format(*pictures.most_frequent)
        yield 'resize = "stretch"'
    yield ""


def _name(model: Path) -> str:
    """The name of the model's bundles."""
    plain = "".join(_PLAIN.get(letter, letter) for letter in unicodedata.normalize("NFC", model.stem))
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter))
    return _UNFIT_FOR_NAME.sub("-", bare).strip("._-") or "model"


def _relative(path: Path, output: Path) -> str:
    """The path as the project file writes it: relative to its own folder."""
    return Path(os.path.relpath(real_path(path), real_path(output).parent)).as_posix()


def _text(value: str) -> str:
    """A TOML text; JSON's escapes are among TOML's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

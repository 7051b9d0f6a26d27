"""Sizes that an input of pictures or sounds leaves free: as they are declared, or as all samples have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgekit.data.picture_sizes import picture_size
from edgekit.data.samples import sample_files
from edgekit.errors import InputError
from edgekit.graph.sizes.default_sizes import MediaSize
from edgekit.model import ValueSpec
from edgekit.preprocessing import AudioPreprocessing, Preprocessing
from edgekit.preprocessing.wav import SUFFIXES, read_wav


def media_size(
    inputs: Sequence[ValueSpec], preprocessing: Preprocessing | None, *folders: Path | None
) -> MediaSize | None:
    """The sizes of a model's only input, if it leaves them free; None if they are not known.

    Args:
        inputs: The model's inputs.
        preprocessing: How pictures or sounds become the input, as it was declared.
        folders: The samples.

    Raises:
        InputError: A folder is missing or empty.
    """
    if isinstance(preprocessing, AudioPreprocessing):
        return _sound_length(inputs, preprocessing, *folders)
    return picture_size(inputs, preprocessing, *folders)


def _sound_length(inputs: Sequence[ValueSpec], declared: AudioPreprocessing, *folders: Path | None) -> MediaSize | None:
    """The length of a sound, which is the last dimension: the declared one, or that of all sounds if they agree."""
    if len(inputs) != 1 or not inputs[0].shape or isinstance(inputs[0].shape[-1], int):
        return None
    spec, axis = inputs[0], len(inputs[0].shape) - 1
    if declared.length is not None:
        return MediaSize(spec.name, {axis: declared.length}, "as length in [preprocessing] says")
    if declared.fit != "none":
        return None
    files = [file for folder in folders if folder is not None for file in sample_files(folder)]
    lengths = {_length_of(file) for file in files if file.suffix.casefold() in SUFFIXES}
    agreed = lengths.pop() if len(lengths) == 1 else None
    return MediaSize(spec.name, {axis: agreed}, "as in the sounds") if agreed else None


def _length_of(file: Path) -> int | None:
    """The number of samples in a WAV file; None if it cannot be read, which reading the sample reports later."""
    try:
        wav = read_wav(file)
    except InputError:
        return None
    return len(wav.data) // (wav.channels * wav.width)

"""WAV files as model inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgekit.errors import InputError
from edgekit.files.encoded import Encoded
from edgekit.model import ValueSpec
from edgekit.preprocessing._values import as_dtype, factor, fixed_by, require_levels, resolve_dtype
from edgekit.preprocessing.wav import Wav, read_wav


@dataclass(frozen=True)
class AudioPreprocessing:
    """``[preprocessing]`` with ``kind = "audio"``; what is None follows from the model's input."""

    sample_rate: int
    """The sample rate in Hz; sounds are not resampled."""
    length: int | None = None
    """The number of samples in the input."""
    fit: Literal["none", "pad-crop"] = "none"
    channel: int | Literal["mix"] | None = None
    """The channel to use of a file with several; None if files have one channel."""
    scale: float = 1.0
    """The factor for samples, which are from -1 to 1 for floating-point inputs, and PCM values for integer inputs."""
    dtype: str | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> AudioPreprocessing:
        """The declaration that a valid table holds."""
        return cls(**{**values, "scale": factor(values.get("scale", 1.0))})

    def as_record(self) -> dict[str, Any]:
        """Plain data, as it stands in ``edgekit.toml``."""
        return {"kind": "audio", **{key: value for key, value in asdict(self).items() if value is not None}}

    def resolve(self, spec: ValueSpec) -> AudioPreprocessing:
        """Returns the declaration completed from the model's input.

        Raises:
            InputError: The input is not a single row of samples, or does not have the declared length.
        """
        if spec.shape is None or not spec.is_static:
            free = [axis for axis, dim in enumerate(spec.shape or ()) if not isinstance(dim, int)]
            sizes = {free[0]: self.length or "LENGTH"} if len(free) == 1 else {}
            meant = ", the number of samples in a file" if sizes and self.length is None else ""
            raise InputError(
                "a WAV file needs an input of a fixed shape",
                subject=f"input {spec.name!r}",
                found=spec,
                hint=f"fix it with {fixed_by(spec, sizes)}{meant}",
            )
        dims = [dim for dim in spec.shape if isinstance(dim, int)]
        size = math.prod(dims)
        if max(dims, default=1) != size or self.length not in (None, size):
            raise InputError(
                "a WAV file does not fit the model's input",
                subject=f"input {spec.name!r}",
                expected=f"{self.length} samples" if self.length else "one dimension of samples, all others 1",
                found=spec,
            )
        wide, narrow = (np.linspace(-(2**bits), 2**bits - 1, 256)[np.newaxis] * self.scale for bits in (15, 7))
        require_levels(wide, spec, narrow)
        return replace(self, length=size, dtype=resolve_dtype(self.dtype, spec))

    def decoder(self, spec: ValueSpec) -> AudioDecoder:
        """Returns the decoder of files for this input."""
        return AudioDecoder(self.resolve(spec), spec)


class AudioDecoder:
    """Reads WAV files (:mod:`edgekit.preprocessing.wav`)."""

    def __init__(self, preprocessing: AudioPreprocessing, spec: ValueSpec) -> None:
        self._preprocessing = preprocessing
        self._dtype = spec.dtype
        self._shape = tuple(dim for dim in spec.shape or () if isinstance(dim, int))

    def __call__(self, file: Path | Encoded) -> np.ndarray:
        """The samples of one file as the model's input."""
        declared = self._preprocessing
        sound = read_wav(file)
        if sound.sample_rate != declared.sample_rate:
            raise InputError(
                "the WAV file has another sample rate",
                subject=file,
                expected=f"{declared.sample_rate} Hz",
                found=f"{sound.sample_rate} Hz",
                hint=f"`ffmpeg -i IN -ar {declared.sample_rate} OUT.wav` resamples it",
            )
        samples = self._fitted(self._one_channel(self._frames(sound, file), file), file)
        return as_dtype(samples * declared.scale, self._dtype).reshape(self._shape)

    def _frames(self, sound: Wav, file: Path | Encoded) -> np.ndarray:
        """Returns the samples from -1 to 1, or as stored for integer inputs."""
        if np.dtype(self._dtype).kind not in "iu":
            waveform = sound.waveform
            strays = np.count_nonzero(~np.isfinite(waveform))
            if strays:
                raise InputError(
                    "the WAV file holds samples that are NaN or infinite",
                    subject=file,
                    expected="numbers",
                    found=f"{strays} of {waveform.size} samples",
                )
            return waveform
        if sound.is_float:
            raise InputError(
                "the WAV file holds floating-point samples, and the input takes integers",
                subject=file,
                expected="PCM samples",
                hint="`ffmpeg -i IN -c:a pcm_s16le OUT.wav` writes such a file",
            )
        return sound.pcm

    def _one_channel(self, frames: np.ndarray, file: Path | Encoded) -> np.ndarray:
        channel, channels = self._preprocessing.channel, frames.shape[1]
        if not len(frames):
            raise InputError("the WAV file holds no samples", subject=file)
        if channel == "mix":
            return np.asarray(frames.mean(axis=1))
        if channels > 1 if channel is None else channel >= channels:
            raise InputError(
                "which channel to take is not clear" if channel is None else "the WAV file lacks the declared channel",
                subject=file,
                expected="one channel" if channel is None else f"channel {channel}",
                found=f"{channels} channels",
                hint='set channel in [preprocessing] to a number from 0, or to "mix"',
            )
        return frames[:, channel or 0]

    def _fitted(self, samples: np.ndarray, file: Path | Encoded) -> np.ndarray:
        length = self._preprocessing.length or len(samples)
        if len(samples) != length and self._preprocessing.fit == "none":
            raise InputError(
                "the WAV file has another length",
                subject=file,
                expected=f"{length} samples",
                found=f"{len(samples)} samples",
                hint='fit = "pad-crop" in [preprocessing] adds zeros, or cuts, at the end',
            )
        return np.pad(samples[:length], (0, max(0, length - len(samples))))

"""The float model as the target builds it, which other forms of the model have to be better than."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir as ir

from edgekit.data.samples import Samples
from edgekit.device import Session
from edgekit.devices.local import LocalDevice
from edgekit.devices.own_check import draft_bundle
from edgekit.errors import RequirementError
from edgekit.files.atomic import temporary_folder
from edgekit.graph.integer_products import multiplies_integers
from edgekit.model import Model
from edgekit.quantizer import LEAST_SAVED, is_smaller
from edgekit.stages.build import Built
from edgekit.stages.bundle import loaded_bytes
from edgekit.target import Artifact, BuildOptions, Profile, Target
from edgekit.timing.latency import Interval, ratio_interval, time_in_turns
from edgekit.units import bytes_text, bytes_texts

AUTO = "auto"
"""The precision that the target chooses if it is accurate enough; else float32."""
FLOAT16 = "float16"
FLOAT32 = "float32"
SAME_SPEED = 1.05
"""Latencies whose ratio is below this count as equal: the noise of the machine is as large."""
AS_FAST = 0.95
"""If the whole interval of the ratio is below this, the latencies are not measured again."""
LOOKS = 3
"""How many times both models are opened and timed if the result is not clear: how one was loaded may make it slow."""


class NotWorthItError(RequirementError):
    """A quantized model is no better than the float model, or a model is too large."""


def name_of_given(model: Model) -> str:
    """What messages call the model to quantize: a model that multiplies integers already is not a float model."""
    return "the model as it came" if multiplies_integers(model) else "the float model"


class SlowerError(NotWorthItError):
    """A form of the model takes longer than the float model."""


class FloatForm:
    """The float model as the target builds it: another form has to be smaller than it, and not slower.

    With the precision ``auto``, sizes are compared with the float model in half precision and in single precision, and
    latencies with the float model in single precision, which is faster where a runtime widens half weights as it
    computes.

    Args:
        model: The float model.
        target: The target that builds it.
        profile: The device.
        options: How it is built.
    """

    def __init__(self, model: Model, target: Target, profile: Profile, options: BuildOptions) -> None:
        self._model = model
        self._target = target
        self._profile = profile
        asked = options.precision
        self._smallest, self._fastest = (FLOAT16, FLOAT32) if asked == AUTO else (asked, asked)
        self._options = replace(options, compression=None)

    def require_smaller(self, built: Built, *, in_half: bool = False) -> None:
        """Checks that another form saves space.

        Args:
            built: The build of the other form.
            in_half: Whether the other form is the float model in half precision. It is compared with single precision,
                and has to save the share :data:`edgekit.quantizer.LEAST_SAVED` of that.

        Raises:
            NotWorthItError: The other form is as large as the float model, or hardly smaller.
        """
        size = loaded_bytes(built.artifact)
        precisions, share = ([FLOAT32], 1) if in_half else ([*dict.fromkeys((self._smallest, self._fastest))], 2)
        of_weights = int(sum(map(_bytes_without_zeros, self._model.tensors())) / share)
        if is_smaller(size, of_weights, multiplies_integers=not in_half):
            return  # the float weights alone are larger, even if their zeros take no bytes
        for precision in precisions:  # of a tiny model half precision is larger, since more nodes describe it
            self._require_smaller_than(precision, size, in_half=in_half)

    def _require_smaller_than(self, precision: str, size: int, *, in_half: bool) -> None:
        with self._built(precision, draft=False) as artifact:  # a draft may be larger than what ships
            of_float = loaded_bytes(artifact)
        if size == of_float:
            raise NotWorthItError(
                f"is no smaller than {name_of_given(self._model)}, built in {precision} ({bytes_text(size)} each)"
            )
        if not is_smaller(size, of_float, multiplies_integers=not in_half):
            hardly = size < of_float
            found, most = bytes_texts(size, int(of_float * (1 - LEAST_SAVED)) if hardly else of_float)
            raise NotWorthItError(
                f"is {'hardly' if hardly else 'no'} smaller than {name_of_given(self._model)}",
                expected=f"{'at most' if hardly else 'less than'} {most}",
                found=found,
            )

    def require_as_fast(self, built: Artifact, samples: Samples, *, in_half: bool = False) -> None:
        """Checks that another form takes no longer, where the device's own runtime runs here.

        Args:
            built: The build of the other form.
            samples: Both are timed on the first sample.
            in_half: Whether the other form is the float model in half precision. It is refused only if it is slower in
                every measurement, not just in most, since a form of twice the size would ship in its place.

        Raises:
            SlowerError: The other form is slower than the float model.
        """
        if not self._profile.runs_here:
            return
        feeds = next(iter(samples)).feeds
        slower, refused_from = 0, LOOKS if in_half else LOOKS // 2 + 1
        with self._built(self._fastest, draft=True) as of_float:
            for look in range(LOOKS):
                if self._options.progress is not None:
                    self._options.progress("timing beside the float model", look, LOOKS)
                ratio = self._ratio(built, of_float, feeds)
                if ratio is None or ratio[1] < AS_FAST:
                    return
                slower += ratio[0] > 1 and math.sqrt(ratio[0] * ratio[1]) > SAME_SPEED
                if slower + LOOKS - 1 - look < refused_from:
                    return  # the remaining measurements cannot change the result
        # The message gives no factor, which would differ from run to run.
        raise SlowerError(f"is slower than {name_of_given(self._model)}")

    def _ratio(self, built: Artifact, of_float: Artifact, feeds: Mapping[str, np.ndarray]) -> Interval | None:
        """The interval of the ratio of the latencies of ``built`` and ``of_float``; None after too few runs.

        Each runs in a process of its own: after other work in a process, a model may be slower than in an app.
        """
        with ExitStack() as processes:
            sessions = [processes.enter_context(self._alone(each)) for each in (built, of_float)]
            timers = {
                name: partial(_milliseconds, session, feeds)
                for name, session in zip(("built", "float"), sessions, strict=True)
            }
            times = time_in_turns(timers, self._options.progress)
        return ratio_interval(times["built"], times["float"])

    def _alone(self, artifact: Artifact) -> AbstractContextManager[Session]:
        draft = draft_bundle(artifact, self._profile, artifact.main.parent)
        return LocalDevice().open_alone(draft)

    @contextmanager
    def _built(self, precision: str, *, draft: bool) -> Iterator[Artifact]:
        with temporary_folder() as folder:
            options = replace(self._options, precision=precision, draft=draft)
            yield self._target.build(self._model, self._profile, folder, options)


def _bytes_without_zeros(tensor: ir.TensorProtocol) -> float:
    """Bytes of the elements of a tensor that are not zero."""
    if tensor.dtype == ir.DataType.STRING or not tensor.size:
        return tensor.nbytes
    return tensor.nbytes * np.count_nonzero(tensor.numpy()) / tensor.size


def _milliseconds(session: Session, feeds: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Sequence[float]:
    return session.time(feeds, runs, warm_up).milliseconds

"""This machine: the target's own runtime, or a stand-in for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from typing import Self

import numpy as np

from edgekit.bundle import Bundle
from edgekit.device import Device, Session, Timing
from edgekit.device_check.check_service import run_times
from edgekit.device_check.python_check import IN_DEFAULT_PRECISION, ON_PROCESSOR, PROGRAM, SERVE, together
from edgekit.devices import LOCAL
from edgekit.devices.channel import Channel
from edgekit.devices.own_check import with_own_check
from edgekit.devices.service_session import ServiceSession, require_python_check
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.execution.recurrence import restart
from edgekit.model import Arrays
from edgekit.registry import find_profile
from edgekit.target import Inspectable, Runner

_LONGEST_TEXT = 500


class LocalDevice(Device):
    """This machine."""

    contract_version = 1
    url_form = LOCAL

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Returns the device; the URL has no parameters.

        Raises:
            InputError: Something follows the scheme.
        """
        if url != LOCAL:
            raise InputError("this machine has nothing to choose", subject="--device", expected=LOCAL, found=url)
        return cls()

    def builds(self, bundle: Bundle) -> Sequence[Bundle]:
        """All builds of the bundle: its target's runtime, or a stand-in for it, executes each."""
        return bundle.builds

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """Loads the bundle's model with what executes it on this machine.

        Raises:
            InputError: The target that built the bundle is not installed.
        """
        start = time.perf_counter()
        runner = open_runner(bundle)
        load_ms = (time.perf_counter() - start) * 1e3
        runs_here = bool(bundle.manifest["target"]["runs_here"])
        if not runs_here or not (bundle.path / PROGRAM).is_file():
            yield InProcessSession(runner, bundle, load_ms, is_stand_in=not runs_here)
            return
        with ExitStack() as processes:
            yield LocalSession(runner, bundle, lambda: processes.enter_context(self._open_process(bundle, SERVE)))

    @contextmanager
    def open_in_default_precision(self, bundle: Bundle) -> Iterator[Session]:
        """Starts the bundle's check in a separate process, in the precision that the runtime chooses by default."""
        with self._open_process(bundle, (*SERVE, IN_DEFAULT_PRECISION)) as session:
            yield session

    @contextmanager
    def open_for_throughput(self, bundle: Bundle, streams: int | None, batch: int) -> Iterator[Session]:
        """Starts the bundle's check in a separate process, for inferences that run at the same time.

        Raises:
            RequirementError: A stand-in executes the bundle here.
        """
        if not bundle.manifest["target"]["runs_here"]:
            raise RequirementError(
                "is executed by a stand-in here, whose throughput says nothing about the device",
                subject=bundle.path,
                hint="measure it on the device",
            )
        with self._open_process(bundle, (*SERVE, *together(streams, batch))) as session:
            yield session

    def open_alone(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Starts the bundle's check in a new process, in which nothing else has run before.

        Raises:
            RequirementError: The bundle has no check for Python.
        """
        return self._open_process(bundle, (*SERVE, ON_PROCESSOR))

    @contextmanager
    def _open_process(self, bundle: Bundle, arguments: Sequence[str]) -> Iterator[Session]:
        with with_own_check(bundle) as ours:
            require_python_check(ours, LOCAL)
            with Channel([sys.executable, *arguments], self.timeout, folder=ours.path) as channel:
                yield ServiceSession(channel, bundle, LOCAL)


class _RunnerSession(Session):
    """A session with a runner in this process."""

    def __init__(self, runner: Runner, bundle: Bundle) -> None:
        self._runner = runner
        self._bundle = bundle

    @property
    def executed_by(self) -> str:
        """What the runner says of itself."""
        return self._runner.executed_by

    def restart(self) -> None:
        """Sets the states that the model keeps to zero; does nothing if it keeps none."""
        restart(self._runner)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name.

        Raises:
            RequirementError: The model cannot be executed.
        """
        try:
            return self._runner.run(feeds)
        except (EdgeKitError, MemoryError):
            raise
        except Exception as error:  # as in `open_runner`
            raise _unusable("its model cannot be executed", self._bundle, error) from error

    def intermediates(self, sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays | None:
        """Values inside the model by their ONNX names; None if the target's runner cannot show them."""
        return self._runner.intermediates(sample, names) if isinstance(self._runner, Inspectable) else None


class LocalSession(_RunnerSession):
    """The device's own runtime: runs samples in this process; the bundle's check times it in a separate process.

    Args:
        runner: The bundle's model in this process.
        bundle: The bundle.
        start: Starts the separate process.
    """

    def __init__(self, runner: Runner, bundle: Bundle, start: Callable[[], Session]) -> None:
        super().__init__(runner, bundle)
        self._start = start

    @cached_property
    def _process(self) -> Session:
        return self._start()

    @property
    def default_precision(self) -> str | None:
        """The precision that the runtime would choose by default; None if it computes in that precision."""
        return self._process.default_precision

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The latency of one sample, with the memory and the load time of this model alone."""
        return self._process.time(sample, runs, warm_up)


class InProcessSession(_RunnerSession):
    """A runner that is also timed in this process: a stand-in, or one whose bundle has no check that could be timed."""

    def __init__(self, runner: Runner, bundle: Bundle, load_ms: float, *, is_stand_in: bool) -> None:
        super().__init__(runner, bundle)
        self._load_ms = load_ms
        self._is_stand_in = is_stand_in

    @property
    def is_stand_in(self) -> bool:
        """Whether something else executes in place of the device."""
        return self._is_stand_in

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The latency of one sample, without a peak memory: other models share the process."""
        return Timing(tuple(run_times(lambda: self._runner.run(sample), runs, warm_up)), self._load_ms, None, {})


def open_runner(bundle: Bundle) -> Runner:
    """The runner that executes the bundle's model in this process.

    Raises:
        InputError: The target that built the bundle is not installed.
    """
    target, profile = find_profile(bundle.profile_name)
    try:
        return target.load(bundle.main, profile)
    except EdgeKitError:
        raise
    except Exception as error:  # a damaged model can make a runtime raise any exception
        raise _unusable("its model cannot be loaded", bundle, error) from error


def _unusable(what: str, bundle: Bundle, error: Exception) -> RequirementError:
    text = " ".join(str(error).split())[:_LONGEST_TEXT]
    return RequirementError(
        what, subject=bundle.path, found=f"{type(error).__name__}: {text}", hint="package the model again"
    )

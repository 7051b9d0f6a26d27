"""This machine: the target's own runtime, or what stands in for it here."""

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
        """The device, which has nothing to choose.

        Raises:
            InputError: Something follows the scheme.
        """
        if url != LOCAL:
            raise InputError("this machine has nothing to choose", subject="--device", expected=LOCAL, found=url)
        return cls()

    def builds(self, bundle: Bundle) -> Sequence[Bundle]:
        """All of them: each is executed by its own target's runtime, or what stands in for it."""
        return bundle.builds

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        """The bundle's model in what executes it here.

        Raises:
            InputError: The target that built it is not installed.
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
        """The bundle's check in a process of its own, in the precision that the runtime chooses by itself."""
        with self._open_process(bundle, (*SERVE, IN_DEFAULT_PRECISION)) as session:
            yield session

    @contextmanager
    def open_for_throughput(self, bundle: Bundle, streams: int | None, batch: int) -> Iterator[Session]:
        """The bundle's check in a process of its own, for inferences that run at the same time.

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
        """The bundle's check in a process of its own, where nothing else was done before.

        Raises:
            RequirementError: It has no check that runs so.
        """
        return self._open_process(bundle, (*SERVE, ON_PROCESSOR))

    @contextmanager
    def _open_process(self, bundle: Bundle, arguments: Sequence[str]) -> Iterator[Session]:
        with with_own_check(bundle) as ours:
            require_python_check(ours, LOCAL)
            with Channel([sys.executable, *arguments], self.timeout, folder=ours.path) as channel:
                yield ServiceSession(channel, bundle, LOCAL)


class _RunnerSession(Session):
    """A runner of this process."""

    def __init__(self, runner: Runner, bundle: Bundle) -> None:
        self._runner = runner
        self._bundle = bundle

    @property
    def executed_by(self) -> str:
        """What the runner says."""
        return self._runner.executed_by

    def restart(self) -> None:
        """Sets the states to zero, where the model keeps some."""
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
        """Values inside the model by their ONNX names; None where the target's runner cannot show them."""
        return self._runner.intermediates(sample, names) if isinstance(self._runner, Inspectable) else None


class LocalSession(_RunnerSession):
    """The device's own runtime: it runs samples in this process, and is timed in one of its own, by the bundle's check.

    Args:
        runner: The bundle's model in this process.
        bundle: The bundle.
        start: Starts the other process.
    """

    def __init__(self, runner: Runner, bundle: Bundle, start: Callable[[], Session]) -> None:
        super().__init__(runner, bundle)
        self._start = start

    @cached_property
    def _process(self) -> Session:
        return self._start()

    @property
    def default_precision(self) -> str | None:
        """What the runtime would compute in by itself; None where that is what it computes in."""
        return self._process.default_precision

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The latency of one sample, with the memory and the load time of nothing but this model."""
        return self._process.time(sample, runs, warm_up)


class InProcessSession(_RunnerSession):
    """A runner that is timed in this process, too: a stand-in, or one whose bundle has no check that could be timed."""

    def __init__(self, runner: Runner, bundle: Bundle, load_ms: float, *, is_stand_in: bool) -> None:
        super().__init__(runner, bundle)
        self._load_ms = load_ms
        self._is_stand_in = is_stand_in

    @property
    def is_stand_in(self) -> bool:
        """Whether something executes in the device's stead."""
        return self._is_stand_in

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        """The latency of one sample. Other models share the process, so that its memory says nothing about this one."""
        return Timing(tuple(run_times(lambda: self._runner.run(sample), runs, warm_up)), self._load_ms, None, {})


def open_runner(bundle: Bundle) -> Runner:
    """What executes the bundle's model in this process.

    Raises:
        InputError: The target that built it is not installed.
    """
    target, profile = find_profile(bundle.profile_name)
    try:
        return target.load(bundle.main, profile)
    except EdgeKitError:
        raise
    except Exception as error:  # a damaged model makes a runtime raise whatever it stumbles over
        raise _unusable("its model cannot be loaded", bundle, error) from error


def _unusable(what: str, bundle: Bundle, error: Exception) -> RequirementError:
    text = " ".join(str(error).split())[:_LONGEST_TEXT]
    return RequirementError(
        what, subject=bundle.path, found=f"{type(error).__name__}: {text}", hint="package the model again"
    )

"""The process in which Apple's code runs: translates packages and executes models, one request after the other.

``python -m edgekit_coreai.worker TRACE`` reads pickled requests from its standard input and writes pickled answers to
its standard output; what Apple's libraries print goes to its standard error. It ends when its input ends. It notes what
it is about to do in the file with the descriptor TRACE, which its parent process reads after a crash.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from edgekit_coreai.trace import Trace
from edgekit_coreai.translation.apple import authoring, runtime


class _Model:
    """A model that is ready to be executed."""

    def __init__(self, stack: AsyncExitStack, function: Any) -> None:
        self.stack = stack
        self.function = function


class Worker:
    """Answers requests; a request is the name of a method of this class and its arguments."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._models: dict[int, _Model] = {}
        self._count = 0

    async def translate(
        self,
        package: Path,
        function: str | None,
        out: Path,
        extra: Mapping[str, str],
        picture: Mapping[str, Any] | None,
    ) -> None:
        """Write a package's function as a Core AI model."""
        from edgekit_coreai.translation.writing import write

        self._trace.note("reading the ML Program")
        write(package, function, out, extra, picture, self._trace)

    async def expose(self, package: Path, names: Sequence[str], out: Path) -> None:
        """Write a package's default function as a model whose outputs are the values with these native names."""
        from edgekit_coreai.translation.translate import translate
        from edgekit_mlruntime.package import read_package

        program = read_package(package)
        translate(program.functions[program.default_function], names, package, self._trace).save_asset(out)

    async def open(self, path: Path, entry: str = "main") -> tuple[int, dict[str, Any]]:
        """Compile a model for this machine; returns its number and the inputs, outputs and states of an entry.

        The entry is the one with the given name, or else the model's first one.
        """
        self._trace.note("compiling the model for this machine")
        asset = authoring.AIModelAsset.load(path)
        stack = AsyncExitStack()
        try:
            model = await stack.enter_async_context(asset.executable())
            (name,) = [name for name in model.function_names if name == entry] or model.function_names[:1]
            function = model.load_function(name)
        except BaseException:
            await stack.aclose()
            raise
        self._count += 1
        self._models[self._count] = _Model(stack, function)
        return self._count, _described(function.desc)

    async def run(
        self, number: int, inputs: Mapping[str, np.ndarray], states: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Returns the outputs, and the states after the run."""
        self._trace.note("executing the model")
        fed = {name: runtime.NDArray(np.asarray(array, order="C")) for name, array in inputs.items()}
        held = {name: runtime.NDArray(np.asarray(array, order="C")) for name, array in states.items()}
        results = await self._models[number].function(fed, state=held)
        return _arrays(results), _arrays(held)

    async def close(self, number: int) -> None:
        """Release a model."""
        model = self._models.pop(number, None)
        if model is not None:
            del model.function
            await model.stack.aclose()


def _arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(value.numpy()) for name, value in values.items()}


def _described(description: Any) -> dict[str, Any]:
    def ports(names: list[str], descriptor: Any) -> list[tuple[str, str, tuple[int | None, ...]]]:
        found: list[tuple[str, str, tuple[int | None, ...]]] = []
        for name in names:
            kind = descriptor(name)
            if isinstance(kind, runtime.ImageDescriptor):
                found.append((name, str(kind.pixel_format_type), (kind.height, kind.width)))
                continue
            shape = tuple(None if size is None or size < 0 else int(size) for size in kind.shape)
            found.append((name, str(kind.dtype), shape))
        return found

    return {
        "inputs": ports(description.input_names, description.input_descriptor),
        "outputs": ports(description.output_names, description.output_descriptor),
        "states": ports(description.state_names, description.state_descriptor),
    }


def answer_of(error: Exception) -> tuple[str, Any]:
    """Returns an error as a pickleable answer: ``error`` with an EdgeKitError, or ``failed`` with texts."""
    from edgekit.errors import EdgeKitError

    if isinstance(error, EdgeKitError):
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return "failed", (f"{type(error).__name__}: {error}", traceback.format_exc())
        return "error", error
    return "failed", (f"{type(error).__name__}: {error}", traceback.format_exc())


async def _serve(requests: BinaryIO, answers: BinaryIO, worker: Worker) -> None:
    while True:
        try:
            name, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = ("done", await getattr(worker, name)(*arguments))
        except Exception as error:
            answer = answer_of(error)
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def main(trace: str) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # anything printed to standard output goes to standard error
    asyncio.run(_serve(sys.stdin.buffer, answers, Worker(Trace(int(trace)))))
    answers.close()
    os._exit(0)  # Apple's threads may outlive Python's


if __name__ == "__main__":
    main(*sys.argv[1:])

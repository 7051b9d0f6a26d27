"""The operator tests of the ONNX standard, converted and executed: right, wrong, refused, crashed.

    python benchmarks/onnx_tests.py coreml openvino openvino-frontend onnxruntime onnxruntime-itself [--only TEXT]

The ``onnx`` package contains the tests: small models, inputs, and the outputs that the standard's reference
implementation gives. Tests are counted if their inputs and outputs are tensors of float32, float64, float16, int32,
int64 or bool, and their operators are the standard's. Names that end in ``-frontend`` or ``-itself`` stand for the
runtime alone, without EdgeKit. A test that fails with all inputs open is repeated with all inputs but the first as
constants, as they are in most models. Values agree if they differ by at most 1e-3 relative and 1e-4 absolute.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

Arrays = dict[str, np.ndarray]
Run = Callable[[onnx.ModelProto, Arrays], Mapping[str, np.ndarray]]
SECONDS = 120
"""How long one attempt may take."""
RELATIVE, ABSOLUTE = 1e-3, 1e-4
DTYPES = frozenset(np.dtype(name) for name in ("float16", "float32", "float64", "int32", "int64", "bool"))


@dataclass(frozen=True)
class Case:
    """A test of an operator."""

    name: str
    model: bytes
    feeds: Arrays
    expected: Arrays


def cases(only: str) -> Iterator[Case]:
    """The tests whose name contains ``only``."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        if case.model is None or not case.data_sets:
            continue
        inputs, outputs = case.data_sets[0]
        arrays = [*inputs, *outputs]
        plain = all(isinstance(array, np.ndarray | np.generic) and array.dtype in DTYPES for array in arrays)
        standard = all(entry.domain in ("", "ai.onnx") for entry in case.model.opset_import)
        if plain and standard and only in case.name:
            model = _fixed(case.model, inputs)
            feeds = {value.name: np.asarray(array) for value, array in zip(model.graph.input, inputs, strict=False)}
            names = [value.name for value in model.graph.output]
            expected = {name: np.asarray(array) for name, array in zip(names, outputs, strict=False)}
            yield Case(case.name, model.SerializeToString(), feeds, expected)


def _fixed(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> onnx.ModelProto:
    """The model with its inputs' shapes fixed to those of the given arrays."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value, array in zip(fixed.graph.input, inputs, strict=False):
        shape = value.type.tensor_type.shape
        shape.Clear()
        for size in np.shape(array):
            shape.dim.add().dim_value = size
    return fixed


def _with_constants(model: onnx.ModelProto, feeds: Arrays) -> tuple[onnx.ModelProto, Arrays]:
    """The model with all inputs but the first as constants, and the remaining inputs to feed."""
    first, *rest = feeds
    kept = [value for value in model.graph.input if value.name not in rest]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[name], name) for name in rest)
    return model, {first: feeds[first]}


def _by_edgekit(package: str) -> Run:
    module = importlib.import_module(package)

    def run(model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            made = module.convert(model, Path(folder) / "model", precision="float32")
            results: Mapping[str, np.ndarray] = module.load(made).run(feeds)
            return {name: np.array(array) for name, array in results.items()}

    return run


def _by_openvino(model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
    import openvino

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(model.SerializeToString())
        file.flush()
        settings = {"INFERENCE_PRECISION_HINT": "f32"}
        compiled = openvino.Core().compile_model(openvino.convert_model(file.name), "CPU", settings)
        results = compiled([feeds[value.name] for value in model.graph.input])
    return dict(zip((value.name for value in model.graph.output), results.values(), strict=True))


def _by_onnxruntime(model: onnx.ModelProto, feeds: Arrays) -> Mapping[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip((value.name for value in model.graph.output), session.run(None, feeds), strict=True))


CONVERTERS: Mapping[str, Callable[[], Run]] = {
    "coreml": lambda: _by_edgekit("edgekit_coreml"),
    "coreai": lambda: _by_edgekit("edgekit_coreai"),
    "openvino": lambda: _by_edgekit("edgekit_openvino"),
    "openvino-frontend": lambda: _by_openvino,
    "onnxruntime": lambda: _by_edgekit("edgekit_onnxruntime"),
    "onnxruntime-itself": lambda: _by_onnxruntime,
}


def attempt(converter: str, case: Case, constants: bool) -> str:
    """How a test ends: ``right``, ``wrong`` or ``refused``."""
    model, feeds = onnx.ModelProto.FromString(case.model), case.feeds
    if constants:
        model, feeds = _with_constants(model, feeds)
    try:
        found = CONVERTERS[converter]()(model, feeds)
    except Exception:  # a converter that is not EdgeKit's may raise anything
        return "refused"
    return "right" if all(_agree(array, found[name]) for name, array in case.expected.items()) else "wrong"


def _agree(expected: np.ndarray, found: np.ndarray) -> bool:
    shapes = {expected.shape, np.shape(found)}
    if len(shapes) > 1 and shapes != {(), (1,)}:
        return False
    return np.allclose(
        np.asarray(found, np.float64).reshape(expected.shape),
        expected.astype(np.float64),
        RELATIVE,
        ABSOLUTE,
        equal_nan=True,
    )


class Attempts:
    """Makes attempts in a separate process, so that a crash ends only that process."""

    def __init__(self) -> None:
        self._pool = self._started()

    @staticmethod
    def _started() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def outcome(self, converter: str, case: Case) -> str:
        """``right`` if the test is so with open inputs or constants; else the worst of the outcomes."""
        outcomes = []
        for constants in (False, True) if len(case.feeds) > 1 else (False,):
            try:
                outcomes.append(self._pool.submit(attempt, converter, case, constants).result(SECONDS))
            except BrokenExecutor:
                outcomes.append("crashed")
                self._pool = self._started()
            except TimeoutError:
                outcomes.append("endless")
                for process in self._pool._processes.values():
                    process.kill()
                self._pool = self._started()
            if outcomes[-1] == "right":
                return "right"
        return next(outcome for outcome in ("wrong", "crashed", "endless", "refused") if outcome in outcomes)


def main() -> None:
    """Counts, converter by converter."""
    parser = argparse.ArgumentParser(description="The operator tests of the ONNX standard, converted and executed.")
    parser.add_argument("converters", nargs="+", choices=CONVERTERS)
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the tests that do not end right")
    arguments = parser.parse_args()
    tests = list(cases(arguments.only))
    attempts = Attempts()
    for converter in arguments.converters:
        outcomes = {case.name: attempts.outcome(converter, case) for case in tests}
        counts = Counter(outcomes.values())
        others = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("wrong", "refused", "crashed", "endless"))
        sys.stdout.write(f"{converter}: {counts['right']} of {len(tests)} right; {others}\n")
        if arguments.list:
            sys.stdout.writelines(f"  {name}: {how}\n" for name, how in outcomes.items() if how != "right")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Executes OpenVINO IR on the CPU plugin."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.errors import InputError
from edgekit.model import Arrays
from edgekit_openvino.cores import new_core

SETTINGS = {"INFERENCE_PRECISION_HINT": "f32"}
"""Without it the plugin computes in bfloat16 or float16 on processors that have instructions for it."""


class CompiledRunner:
    """A model in OpenVINO's CPU plugin, made to compute in float32 so that the conversion itself is what is checked.

    Args:
        path: The IR's ``.xml`` file.
        threads: Threads that the plugin may use.
        settings: The plugin's settings, as an app sets them; without :data:`SETTINGS` the plugin chooses the precision.

    Raises:
        edgekit.errors.InputError: The file is not a model that OpenVINO can read.
    """

    def __init__(self, path: Path, *, threads: int = 1, settings: Mapping[str, str] = SETTINGS) -> None:
        import openvino

        from edgekit_openvino.report import last_line, ranks_hint

        core = new_core()
        config = {**settings, **_on_threads(threads)}
        try:
            model = core.read_model(path)
            # Not the ports' names: an output that is also an input cannot have its own, and compiling adds names.
            self._inputs = [node.get_friendly_name() for node in model.get_parameters()]
            self._outputs = [node.get_friendly_name() for node in model.get_results()]
            self._double_inputs = {
                node.get_friendly_name()
                for node in model.get_parameters()
                if node.get_element_type() == openvino.Type.f64
            }
            self._double_outputs = _exchange_doubles_as_floats(model)
            self._is_dynamic = model.is_dynamic()
            self._model = core.compile_model(model, "CPU", config)
        except RuntimeError as error:
            raise InputError(
                f"OpenVINO cannot load the model: {last_line(error)}", subject=path, hint=ranks_hint(str(error))
            ) from error
        self._request = self._model.create_infer_request()
        self._turn = threading.Lock()
        self._held: dict[int, np.ndarray] = {}
        self._threads = threads
        self._settings = settings
        self._path = path

    @property
    def executed_by(self) -> str:
        """Runtime, version, device, precision and threads."""
        import openvino

        version = openvino.__version__.split("-")[0]
        threads = f"{self._threads} thread{'s' if self._threads != 1 else ''}"
        precision = self._model.get_property("INFERENCE_PRECISION_HINT").to_string()
        return f"OpenVINO {version}, CPU, {precision}, {threads}"

    def by_default(self) -> CompiledRunner | None:
        """Returns a runner of the model in the precision that the plugin chooses, or None if that is float32 here.

        It has two threads at least: on processors with AMX the plugin fuses the three products of a gated feed-forward
        layer in bfloat16 and float16 (its layer LLMMLP), and on one thread the fused layer divides by zero, which ends
        the process (OpenVINO 2026.4.1).
        """
        chosen = new_core().get_property("CPU", "INFERENCE_PRECISION_HINT").to_string()
        same = chosen == SETTINGS["INFERENCE_PRECISION_HINT"]
        return None if same else CompiledRunner(self._path, threads=max(2, self._threads), settings={})

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name. Threads that call it at once take turns: they share one request.

        Raises:
            edgekit.errors.InputError: A name, shape or dtype is not the model's, or an integer needs more than 32 bits.
        """
        from edgekit_openvino.report import last_line

        self._require_inputs(feeds)
        with self._turn:
            try:
                self._infer(self._request, feeds, self._held)
            except (RuntimeError, TypeError, ValueError) as error:
                raise InputError(f"OpenVINO cannot run the model: {last_line(error)}", subject=self._path) from error
            return {
                name: _as_array(self._request.get_output_tensor(n)).astype(np.float64)
                if n in self._double_outputs
                else _as_array(self._request.get_output_tensor(n))
                for n, name in enumerate(self._outputs)
            }

    def intermediates(self, feeds: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays:
        """Returns inner values by the names of their tensors, from a copy of the model that has them as outputs, too.

        Raises:
            edgekit.errors.InputError: A name, shape or dtype is not the model's, or OpenVINO cannot show the values.
        """
        from edgekit_openvino.report import last_line

        self._require_inputs(feeds)
        core = new_core()
        model = core.read_model(self._path)
        _exchange_doubles_as_floats(model)
        ports = {
            name: port
            for operation in model.get_ordered_ops()
            if operation.get_type_name() not in ("Parameter", "Constant", "Result")
            for port in operation.outputs()
            for name in port.get_names()
        }
        shown = [name for name in names if name in ports]
        model.add_outputs([ports[name] for name in shown])  # adds no output a second time
        places = {name: place for place, output in enumerate(model.outputs) for name in output.get_names()}
        try:
            request = core.compile_model(
                model, "CPU", {**self._settings, **_on_threads(self._threads)}
            ).create_infer_request()
            self._infer(request, feeds, {})
        except (RuntimeError, TypeError, ValueError) as error:
            raise InputError(f"OpenVINO cannot show the values: {last_line(error)}", subject=self._path) from error
        return {name: _as_array(request.get_output_tensor(places[name])) for name in shown}

    def _require_inputs(self, feeds: Mapping[str, np.ndarray]) -> None:
        if set(feeds) != set(self._inputs):
            raise InputError(
                "the inputs' names are not the model's", subject=self._path, expected=self._inputs, found=list(feeds)
            )
        for name, array in feeds.items():
            _require_32_bits(name, np.asarray(array))
            _require_floats(name, np.asarray(array))

    def _infer(self, request: Any, feeds: Mapping[str, np.ndarray], held: dict[int, np.ndarray]) -> None:
        for position, name in enumerate(self._inputs):
            array = np.asarray(feeds[name])
            if array.dtype == np.float64 and name in self._double_inputs:
                array = array.astype(np.float32)
            _feed(request, position, array, held)
        if self._is_dynamic:  # on one thread infer() hides a failure at some size, and keeps the previous results
            request.start_async()
            request.wait()
        else:
            request.infer()


def _feed(request: Any, position: int, array: np.ndarray, held: dict[int, np.ndarray]) -> None:
    """Sets an input of a request: copies into the tensor that the request has, if its shape and type are the array's.

    The plugin has to connect the memory of every new tensor, which may take longer than the inference of a small model.

    Args:
        request: An inference request.
        position: The position of the input.
        array: The numbers that the input is to hold.
        held: The memory of the tensors that the request has, by position.
    """
    import openvino

    before = held.get(position)
    if before is not None and before.shape == array.shape and before.dtype == array.dtype:
        before[...] = array
        return
    tensor = openvino.Tensor(np.array(array))
    request.set_input_tensor(position, tensor)
    if array.dtype.kind in "biuf":
        held[position] = tensor.data


def _on_threads(threads: int) -> dict[str, Any]:
    """Settings of the plugin that pin on how many threads it computes."""
    return {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1}


def _exchange_doubles_as_floats(model: Any) -> set[int]:
    """Makes inputs and outputs of doubles float32, as the plugin computes; of infinite doubles it makes finite ones.

    Returns:
        The positions of the outputs that were doubles.
    """
    from openvino import Type, opset13

    for parameter in model.get_parameters():
        if parameter.get_element_type() == Type.f64:
            readers = parameter.output(0).get_target_inputs()
            widened = opset13.convert(parameter, "f64")
            for reader in readers:
                reader.replace_source_output(widened.output(0))
            parameter.set_element_type(Type.f32)
    doubles = set()
    for place, result in enumerate(model.get_results()):
        if result.get_element_type() == Type.f64:
            doubles.add(place)
            result.input(0).replace_source_output(opset13.convert(result.input_value(0), "f32").output(0))
    model.validate_nodes_and_infer_types()
    return doubles


def _require_32_bits(name: str, array: np.ndarray) -> None:
    """Refuse integers that the plugin would cut off: it computes 64-bit integers in 32 bits."""
    limits = np.iinfo(np.int32)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        least, greatest = array.min(), array.max()
        if least < limits.min or greatest > limits.max:
            raise InputError(
                "OpenVINO's CPU plugin computes 64-bit integers in 32 bits",
                subject=f"input {name!r}",
                expected=f"numbers from {limits.min} to {limits.max}",
                found=f"{least} to {greatest}",
            )


def _require_floats(name: str, array: np.ndarray) -> None:
    """Refuse doubles that the plugin would change: it computes in float32."""
    if array.dtype == np.float64 and array.size:
        greatest = np.abs(array[np.isfinite(array)]).max(initial=0)
        if greatest > np.finfo(np.float32).max:
            raise InputError(
                "OpenVINO's CPU plugin computes doubles in 32 bits",
                subject=f"input {name!r}",
                expected=f"numbers up to {np.finfo(np.float32).max:g}",
                found=f"{greatest:g}",
            )


def _as_array(tensor: Any) -> np.ndarray:
    """A copy of the tensor's elements, which the next inference overwrites."""
    return np.array(tensor.str_data if tensor.element_type.get_type_name() == "string" else tensor.data)

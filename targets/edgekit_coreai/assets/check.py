"""Runs the bundle's golden samples in Core AI itself, on a Mac or on Linux: ``python check.py``.

Needs the packages ``numpy`` and ``coreai-core``, nothing of EdgeKit.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

try:
    import numpy as np
    from coreai.authoring import AIModelAsset
    from coreai.runtime import NDArray
except ModuleNotFoundError as error:
    sys.exit(f"ModuleNotFoundError: {error}: `{sys.executable} -m pip install numpy coreai-core` installs it")

sys.dont_write_bytecode = True  # a folder __pycache__ does not belong in the bundle
from check_service import OpenModel  # type: ignore[import-not-found]  # noqa: E402  # a file of the bundle
from golden_check import BUNDLE, main  # type: ignore[import-not-found]  # noqa: E402  # a file of the bundle


def open_model(manifest: dict[str, Any], arguments: argparse.Namespace) -> OpenModel:
    """Opens the bundle's model in Core AI; it has native names, types and shapes, the golden data has those of ONNX."""
    loop, stack = asyncio.new_event_loop(), AsyncExitStack()
    asset = AIModelAsset.load(BUNDLE / manifest["model"]["main"])
    model = loop.run_until_complete(stack.enter_async_context(asset.executable()))
    function = model.load_function("main")
    known = set(function.desc.input_names)
    # The golden samples of a model with states are the steps of one sequence.
    states = {
        state["native_name"]: NDArray(np.zeros(state["native_shape"], state["native_dtype"]))
        for state in manifest.get("states", [])
    }

    def execute(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        feeds = {
            feature["native_name"]: NDArray(as_native(array, feature))
            for feature, array in zip(manifest["inputs"], inputs, strict=True)
            if feature["native_name"] in known
        }
        results = loop.run_until_complete(function(feeds, state=states))
        return [as_golden(results[feature["native_name"]].numpy(), feature) for feature in manifest["outputs"]]

    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    return OpenModel(execute, f"Core AI {importlib.metadata.version('coreai-core')} on {system}", {})


def as_native(array: np.ndarray, feature: dict[str, Any]) -> np.ndarray:
    """An input in the model's type and shape; if a size of the native shape is open, the sample's shape is kept."""
    shape = feature["native_shape"]
    is_fixed = all(isinstance(size, int) for size in shape)
    return np.asarray((array.reshape(shape) if is_fixed else array).astype(feature["native_dtype"]), order="C")


def as_golden(array: np.ndarray, feature: dict[str, Any]) -> np.ndarray:
    """A result in the ONNX model's type and rank."""
    array = np.array(array).astype(feature["dtype"])
    return array.reshape(()) if not feature["shape"] else array


if __name__ == "__main__":
    sys.exit(main(open_model, argparse.ArgumentParser(description=__doc__)))

"""Records what a framework computes, as samples that an export and its bundles are compared with."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.data.npz import OUTPUT_PREFIX, write_npz
from edgekit.errors import InputError
from edgekit.files.atomic import atomic_directory
from edgekit.model import Arrays


def record(model: Any, inputs: Iterable[Any], folder: Path | str) -> Path:
    """Runs a model of a framework in inference mode, and writes inputs and outputs as samples.

    Outputs that the model returns by name keep their name (``output:logits``). Other outputs are named by their
    position (``output:0``), which is the position among the exported model's outputs.

    Args:
        model: A PyTorch module or a Keras model. It stays in the mode that it is in.
        inputs: One entry a sample: arrays or tensors by input name, a sequence of these in the order of the model's
            inputs, or a single array or tensor.
        folder: The folder to write; samples that it holds are replaced.

    Returns:
        The folder, for ``--data``.

    Raises:
        InputError: The model is of no known framework, there are no inputs, or the folder holds something else.
    """
    run = _runner(model)
    path = Path(folder)
    with atomic_directory(path, what="folder of samples", may_replace=_holds_samples, chosen_with=None) as written:
        count = 0
        for count, sample in enumerate(inputs, 1):
            feeds, outputs = run(sample)
            arrays = {**feeds, **{OUTPUT_PREFIX + name: array for name, array in outputs.items()}}
            write_npz(written / f"sample-{count:04d}.npz", arrays)
        if count == 0:
            raise InputError("there are no inputs to record", subject=path, hint="give one entry a sample")
    return path


def _runner(model: Any) -> Any:
    frameworks = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    if frameworks & {"keras", "tf_keras", "tensorflow"}:
        return lambda sample: _run_keras(model, sample)
    if "torch" in frameworks:
        return lambda sample: _run_torch(model, sample)
    raise InputError(
        "the model is not of a framework whose outputs can be recorded",
        subject=type(model).__qualname__,
        expected="a PyTorch module or a Keras model",
    )


def _run_torch(model: Any, sample: Any) -> tuple[Arrays, Arrays]:
    import torch

    parameters = list(inspect.signature(model.forward).parameters)
    feeds = _named(sample, parameters)
    device = next((tensor.device for tensor in model.parameters()), torch.device("cpu"))
    tensors = {name: torch.from_numpy(array.copy()).to(device) for name, array in feeds.items()}
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            returned = model(**tensors) if set(tensors) <= set(parameters) else model(*tensors.values())
    finally:
        for module in training:
            module.training = True
    return feeds, dict(_outputs(returned))


def _run_keras(model: Any, sample: Any) -> tuple[Arrays, Arrays]:
    names = [tensor.name.partition(":")[0] for tensor in model.inputs]
    feeds = _named(sample, names)
    ordered = [feeds[name] for name in names] if set(names) == set(feeds) else list(feeds.values())
    returned = model(ordered if len(ordered) > 1 else ordered[0], training=False)
    return feeds, dict(_outputs(returned))


def _named(sample: Any, names: Sequence[str]) -> Arrays:
    """The sample's arrays by name."""
    if isinstance(sample, Mapping):
        return {str(name): _array(value) for name, value in sample.items()}
    values = list(sample) if isinstance(sample, (tuple, list)) else [sample]
    if len(values) > len(names):
        raise InputError(
            "the sample has more arrays than the model has inputs",
            subject="record()",
            expected=", ".join(names),
            found=f"{len(values)} arrays",
        )
    return {name: _array(value) for name, value in zip(names, values, strict=False)}


def _outputs(returned: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(returned, Mapping):
        for name, value in returned.items():
            if isinstance(value, (tuple, list, Mapping)):
                yield from ((f"{name}.{inner}", array) for inner, array in _outputs(value))
            elif value is not None:
                yield str(name), _array(value)
        return
    flat = list(_flat(returned))
    yield from ((str(place), array) for place, array in enumerate(flat))


def _flat(returned: Any) -> Iterator[np.ndarray]:
    if isinstance(returned, Mapping):
        returned = list(returned.values())
    if isinstance(returned, (tuple, list)):
        for value in returned:
            yield from _flat(value)
    elif returned is not None:
        yield _array(returned)


def _array(value: Any) -> np.ndarray:
    """The array of an array or of a tensor of PyTorch or Keras."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def _holds_samples(folder: Path) -> bool:
    return all(file.suffix == ".npz" for file in folder.iterdir())

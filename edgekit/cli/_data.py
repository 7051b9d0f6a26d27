"""How commands find out what a data folder's pictures and sounds mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgekit.data.samples import Samples
    from edgekit.model import Model
    from edgekit.preprocessing import Preprocessing


def declared_preprocessing(config: Path | None, data: Path | None, model: Path | None) -> Preprocessing | None:
    """What the project file declares for a model: the one that ``--config`` names, or the nearest one to the data."""
    from edgekit.config import find_config, read_config

    path = config or (find_config(data) if data is not None else None)
    return None if path is None else read_config(path).preprocessing_of(model)


def open_data(data: Path, config: Path | None, model: Model) -> Samples:
    """The samples in ``--data``, for the model's inputs."""
    from edgekit.data.samples import open_samples
    from edgekit.dimensions import defaults
    from edgekit.graph.shape_request import at_sizes
    from edgekit.preprocessing import resolve_preprocessing

    at_defaults = at_sizes(model.inputs, defaults(model.open_dims))
    preprocessing = resolve_preprocessing(declared_preprocessing(config, data, model.source), at_defaults)
    return open_samples(data, model.inputs, preprocessing, open_dims=model.open_dims)

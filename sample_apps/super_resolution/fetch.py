"""Fetches the network and pictures into ``fetched/``, and cuts the samples for the bundles."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

APP = Path(__file__).resolve().parent
sys.path.insert(0, str(APP.parent))
from packages import take  # noqa: E402  # packages.py is in the parent folder

FETCHED = APP / "fetched"
TILE = 128
"""Height and width of the network's input in pixels."""
CALIBRATION = ("chelsea.png", "rocket.jpg", "motorcycle_left.png", "ihc.png")
TEST = ("astronaut.png", "coffee.png")


def main() -> None:
    """Fetch and cut."""
    member = "qonnx/data/onnx/bsd300x3-espcn/nn_resize/float_model.onnx"
    take("qonnx==1.0.0", {member: FETCHED / "espcn.onnx"})
    pictures = {name: FETCHED / "pictures" / name for name in (*CALIBRATION, *TEST)}
    take("scikit-image==0.26.0", {f"skimage/data/{name}": file for name, file in pictures.items()})
    for folder, names in (("calibration", CALIBRATION), ("test", TEST)):
        for name in names:
            cut(pictures[name], FETCHED / folder)
    (FETCHED / "small").mkdir(exist_ok=True)
    for name in TEST:
        halved(pictures[name]).save(FETCHED / "small" / f"{Path(name).stem}.png")


def cut(file: Path, folder: Path) -> None:
    """Write all whole tiles of a picture at half its size."""
    folder.mkdir(exist_ok=True)
    picture = halved(file)
    for top in range(0, picture.height - TILE + 1, TILE):
        for left in range(0, picture.width - TILE + 1, TILE):
            tile = picture.crop((left, top, left + TILE, top + TILE))
            tile.save(folder / f"{file.stem}-{top}-{left}.png")


def halved(file: Path) -> Image.Image:
    """The picture at half its height and width."""
    picture = Image.open(file).convert("RGB")
    return picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.BICUBIC)


if __name__ == "__main__":
    main()

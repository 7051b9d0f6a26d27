"""Trains the sample model and writes what lies beside this file: two ONNX files and labelled digits as pictures.

Run by hand, with PyTorch, onnxscript, Pillow and npm at hand: ``python train.py``. Takes some minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import math
import shutil
import sys
from pathlib import Path

import mnist
import numpy as np
import torch
from export import export_both
from network import DigitClassifier
from PIL import Image
from torch.nn import functional

HERE = Path(__file__).resolve().parent
SEED = 0
MEAN, STD = 0.1307, 0.3081
"""Mean and standard deviation of the training pixels, scaled to 0..1; edgekit.toml declares the same values."""
LABEL_SMOOTHING = 0.05
MAX_LEARNING_RATE = 0.01
BATCH = 128
MAX_ANGLE, MAX_SHIFT, MAX_SCALE = math.radians(12), 0.12, 0.15
"""Limits of the random rotation (radians), shift (as a share of half the width) and scaling of training pictures."""


def normalized(digits: mnist.Digits) -> torch.Tensor:
    """The pictures as the network's input: float32, (count, 1, 28, 28), normalized."""
    return (torch.from_numpy(digits.images.copy()).float().unsqueeze(1) / 255 - MEAN) / STD


def distorted(images: torch.Tensor) -> torch.Tensor:
    """The pictures, each with a small random rotation, shift and scaling."""
    count = len(images)
    angle = (torch.rand(count) * 2 - 1) * MAX_ANGLE
    scale = 1 + (torch.rand(count) * 2 - 1) * MAX_SCALE
    shift = (torch.rand(count, 2, 1) * 2 - 1) * MAX_SHIFT
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    rotation = torch.stack([cos, -sin, sin, cos], dim=1).view(count, 2, 2)
    grid = functional.affine_grid(torch.cat([rotation, shift], dim=2), list(images.shape), align_corners=False)
    black = -MEAN / STD
    moved: torch.Tensor = functional.grid_sample(images - black, grid, align_corners=False) + black
    return moved


def train(network: torch.nn.Module, digits: mnist.Digits, epochs: int) -> None:
    """Train with AdamW and one cycle of the learning rate (Smith and Topin, arXiv:1708.07120)."""
    images, labels = normalized(digits), torch.from_numpy(digits.labels.astype(np.int64))
    steps = epochs * (len(images) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, MAX_LEARNING_RATE, steps)
    network.train()
    for epoch in range(epochs):
        order = torch.randperm(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            scores = network(distorted(images[chosen]))
            loss = functional.cross_entropy(scores, labels[chosen], label_smoothing=LABEL_SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        sys.stderr.write(f"epoch {epoch + 1} of {epochs}: loss {loss.item():.4f}\n")


def accuracy(network: torch.nn.Module, digits: mnist.Digits) -> float:
    """The share of digits that the network recognizes."""
    network.eval()
    with torch.inference_mode():
        found = torch.cat([network(batch).argmax(1) for batch in normalized(digits).split(500)])
    return float((found.numpy() == digits.labels).mean())


def balanced(digits: mnist.Digits, of_each: int, random: np.random.Generator) -> mnist.Digits:
    """Returns ``of_each`` random digits of each class, in random order."""
    positions = [random.choice(np.flatnonzero(digits.labels == label), of_each, replace=False) for label in range(10)]
    return digits.select(random.permutation(np.concatenate(positions)))


def write_pictures(digits: mnist.Digits, folder: Path) -> None:
    """Write the digits as ``000.png``, ``001.png``, … and ``labels.csv``; previous files in the folder are removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["file", "label"])
        for position, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
            name = f"{position:03}.png"
            Image.fromarray(image).save(folder / name, optimize=True)
            table.writerow([name, label])


def main() -> None:
    """Train, export, and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8, help="passes over the 60,000 training digits (%(default)s)")
    parser.add_argument(
        "--mnist", type=Path, default=Path("mnist"), help="where the MNIST archive is kept (%(default)s)"
    )
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    training, test = mnist.fetch(arguments.mnist)
    network = DigitClassifier()
    train(network, training, arguments.epochs)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    sys.stderr.write(f"{parameters} parameters, {accuracy(network, test):.2%} of the 10,000 test digits recognized\n")
    for path in export_both(network, HERE):
        sys.stderr.write(f"{path.name}: {path.stat().st_size} bytes\n")
    random = np.random.default_rng(SEED)
    write_pictures(balanced(training, 10, random), HERE / "samples" / "calibration")
    write_pictures(balanced(test, 30, random), HERE / "samples" / "test")


if __name__ == "__main__":
    main()

"""The digit classifier: a small residual network."""

from __future__ import annotations

import torch
from torch import nn


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A 3×3 convolution with batch normalization and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Residual(nn.Module):
    """Adds the result of a convolution of the input to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = convolution(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Input and output have the shape (batch, channels, height, width)."""
        return x + self.body(x)


class DigitClassifier(nn.Module):
    """Classifies pictures of digits: ``image`` (batch, 1, 28, 28), normalized, to ``logits`` (batch, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolution(1, 16),
            convolution(16, 32, stride=2),
            Residual(32),
            convolution(32, 64, stride=2),
            Residual(64),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.classify = nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """The digits' scores before softmax."""
        scores: torch.Tensor = self.classify(self.features(image))
        return scores

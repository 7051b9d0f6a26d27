"""What a program offers to applications beyond arrays: a picture as its input, the class as a text, states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgekit.preprocessing import ImagePreprocessing


@dataclass(frozen=True)
class Interface:
    """What was asked for; nothing by default."""

    image: ImagePreprocessing | None = None
    """How pixels become the model's only input, resolved for it; with it, the program takes a picture."""
    classes: tuple[str, ...] = ()
    """Names of the classes by index; with them, the program also tells the class and every class's probability."""
    class_output: str | None = None
    """Name of the output that scores the classes; None if only one output fits."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Inputs that the program keeps from one run to the next, each with the output that replaces it."""

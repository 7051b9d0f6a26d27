"""``edgekit.toml``: the bundles that a project ships, how its data is prepared, and what a bundle may cost."""

from edgekit.config.budget import Budget
from edgekit.config.matrix import BUNDLES_FOLDER
from edgekit.config.project_file import (
    TIME_LIMIT,
    Config,
    Declared,
    DeclaredBundle,
    GateSettings,
    Inconclusive,
    declared_for,
    find_config,
    read_config,
)
from edgekit.config.values import SIZES, parse_bytes, parse_fraction, parse_loss, parse_max_drop

__all__ = [
    "BUNDLES_FOLDER",
    "SIZES",
    "TIME_LIMIT",
    "Budget",
    "Config",
    "Declared",
    "DeclaredBundle",
    "GateSettings",
    "Inconclusive",
    "declared_for",
    "find_config",
    "parse_bytes",
    "parse_fraction",
    "parse_loss",
    "parse_max_drop",
    "read_config",
]

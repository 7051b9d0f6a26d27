"""The verdicts as GitHub annotations: commands in the log that put a remark on a file of the pull request.

Described in GitHub's documentation as "workflow commands"; the runner takes them from stdout and from stderr.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from edgekit.files.regular_file import read_text, real_path
from edgekit.quality_gate.bundles import Judged

WORKSPACE_VARIABLE = "GITHUB_WORKSPACE"
"""Environment variable with the folder that the paths of annotations start from."""


def annotation_lines(
    judged: Sequence[Judged], config: Path | None, declared_as: Mapping[str, str] | None = None
) -> Iterator[str]:
    """One line for each verdict that fails or warns, and one for each bundle that could not be judged.

    Args:
        judged: The bundles.
        config: The project file, to which the remarks are attached at the line that names the bundle.
        declared_as: The name in the project file by the bundle's name; a name that is missing is the same in both.
    """
    for one in judged:
        place = {} if config is None else place_of(config, (declared_as or {}).get(one.name, one.name))
        if one.error is not None:
            yield workflow_command("error", {**place, "title": one.name}, str(one.error))
        for verdict in one.verdicts:
            title = {**place, "title": f"{one.name}: {verdict.budget}"}
            text = f"{verdict.outcome}: {verdict.found}; wanted {verdict.limit}"
            if one.fails(verdict):
                yield workflow_command("error", title, text)
            elif one.warns(verdict):
                yield workflow_command("warning", title, text)


def place_of(config: Path, name: str) -> dict[str, str]:
    """The project file, and the line that declares the bundle; line 1 if no line does."""
    named = re.compile(rf"""\s*name\s*=\s*["']{re.escape(name)}["']""")
    lines = read_text(config).splitlines()
    line = next((number for number, text in enumerate(lines, 1) if named.match(text)), 1)
    root = Path(os.environ.get(WORKSPACE_VARIABLE) or Path.cwd()).resolve()
    file = real_path(config)
    return {"file": (file.relative_to(root) if file.is_relative_to(root) else file).as_posix(), "line": str(line)}


def workflow_command(kind: str, properties: Mapping[str, str], message: str) -> str:
    """The line that makes the runner attach a remark to a file: an ``error`` or a ``warning`` with its properties."""
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{kind} {written}::{_message(message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")

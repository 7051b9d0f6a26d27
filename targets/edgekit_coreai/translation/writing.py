"""Writes an ``.mlpackage`` as an ``.aimodel``, with the metadata that the runner needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgekit.errors import InputError
from edgekit_coreai.interface import INTERFACE_KEY, TEXTS, exported_outputs, interface_record
from edgekit_coreai.translation.apple import runtime
from edgekit_coreai.translation.translate import Notes, translate
from edgekit_mlruntime.package import read_package

OF_COREMLTOOLS = "com.github.apple.coremltools."
"""Prefix of the entries that coremltools has written to the package's metadata."""


def write(
    package: Path,
    function: str | None,
    out: Path,
    extra: Mapping[str, str],
    picture: Mapping[str, Any] | None,
    notes: Notes,
) -> None:
    """Translate a function of a package, and write it as a Core AI model.

    Args:
        package: The ``.mlpackage``.
        function: Name of the function; None for the default one.
        out: The ``.aimodel`` to write.
        extra: Texts and further entries for the metadata.
        picture: How pixels become the only input, for entries that take a picture; None for no such entries.
        notes: Receives notes of progress.

    Raises:
        edgekit.errors.InputError: The package is not a readable ML Program package, or has no such function.
        edgekit.errors.UnsupportedOpsError: Operations cannot be translated; the error lists all of them.
    """
    program = read_package(package)
    name = function or program.default_function
    if name not in program.functions:
        raise InputError("no such function", subject=package, expected=", ".join(program.functions), found=name)
    chosen = program.functions[name]
    made = translate(chosen, exported_outputs(chosen), package, notes, picture)
    notes.note("writing the model")
    metadata = runtime.AIModelAssetMetadata()
    for text in TEXTS:
        if extra.get(text):
            setattr(metadata, "model_description" if text == "description" else text, extra[text])
    metadata.set_custom(INTERFACE_KEY, interface_record(program, chosen))
    for key, value in extra.items():
        if key not in TEXTS:
            metadata.set_custom(key, value)
    for key, text in program.user_metadata.items():
        if not key.startswith(OF_COREMLTOOLS):
            metadata.set_custom(key, text)
    made.save_asset(out, metadata)

"""Assembles the Python check of a bundle: the target's ``check.py``, and EdgeKit's common modules beside it."""

from __future__ import annotations

from importlib.resources import files

from edgekit.target import DeviceCheck

PROGRAM = "check.py"
SERVE = (PROGRAM, "--serve")
"""The program with the argument that makes it serve a host."""
IN_DEFAULT_PRECISION = "--device-precision"
"""Argument to run in the precision that the runtime chooses by default."""
ON_PROCESSOR = "--cpu"
"""Argument to run on the processor even if the bundle is for another unit, which an emulator does not have."""
_BESIDE_IT = {
    "golden_check.py": "edgekit.device_check",
    "check_service.py": "edgekit.device_check",
    "instruction_sets.py": "edgekit",
}
"""EdgeKit's files that ship beside the program, each with the package that contains it."""


def together(streams: int | None, batch: int) -> tuple[str, ...]:
    """Arguments to run ``streams`` inferences at once (None: as the runtime chooses), each of ``batch`` samples."""
    return "--streams", "auto" if streams is None else str(streams), "--batch", str(batch)


def python_check(package: str) -> DeviceCheck:
    """The check whose program is ``assets/check.py`` in the target's package.

    The program opens the model with the device's runtime and hands it to ``golden_check.main``, which compares the
    golden outputs, or with ``--serve`` runs what a host sends.

    Args:
        package: The target's package, such as ``edgekit_openvino``.
    """
    program = files(package).joinpath("assets", PROGRAM).read_text(encoding="utf-8")
    beside = {name: files(home).joinpath(name).read_text(encoding="utf-8") for name, home in _BESIDE_IT.items()}
    return DeviceCheck(files={PROGRAM: program, **beside}, command=f"python {PROGRAM}")

"""What every Python check in a bundle is made of: the target's ``check.py``, and the host's part beside it."""

from __future__ import annotations

from importlib.resources import files

from edgekit.target import DeviceCheck

PROGRAM = "check.py"
SERVE = (PROGRAM, "--serve")
"""Its arguments when a host is to be served."""
IN_DEFAULT_PRECISION = "--device-precision"
"""A further one: in the precision that the runtime chooses by itself."""
ON_PROCESSOR = "--cpu"
"""A further one: on the processor, where the bundle is for something beside it that an emulator does not have."""
_BESIDE_IT = {
    "golden_check.py": "edgekit.device_check",
    "check_service.py": "edgekit.device_check",
    "instruction_sets.py": "edgekit",
}
"""Files of the host's that stand beside the program, each with the package that has it."""


def together(streams: int | None, batch: int) -> tuple[str, ...]:
    """Further ones: how many inferences run at once, by the runtime's choice where None, and of how many samples."""
    return "--streams", "auto" if streams is None else str(streams), "--batch", str(batch)


def python_check(package: str) -> DeviceCheck:
    """The check whose program is ``assets/check.py`` in the target's package.

    The program opens the model with the device's runtime and hands it to ``golden_check.main``, which compares the
    golden outputs, or with ``--serve`` runs what a host sends.

    Args:
        package: The target's package, such as ``edgekit_openvino``.
    """
    program = files(package).joinpath("assets", PROGRAM).read_text(encoding="utf-8")
    beside = {name: files(room).joinpath(name).read_text(encoding="utf-8") for name, room in _BESIDE_IT.items()}
    return DeviceCheck(files={PROGRAM: program, **beside}, command=f"python {PROGRAM}")

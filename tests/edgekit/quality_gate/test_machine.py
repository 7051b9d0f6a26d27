import os
import platform

from edgekit.quality_gate.machine import Machine, cpu_of_linux, this_machine


def test_names_on_linux() -> None:
    assert cpu_of_linux("processor\t: 0\nmodel name\t: AMD  EPYC 7763\n\nmodel name\t: other\n") == "AMD EPYC 7763"
    assert cpu_of_linux("CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0c\n") == "ARM 0x41 0xd0c"
    assert cpu_of_linux("processor\t: 0\n") is None


def test_this_machine() -> None:
    machine = this_machine()
    assert machine == this_machine()
    assert machine.cpu
    assert machine.processors == os.cpu_count()
    assert machine.system == f"{platform.system()} {platform.machine()}"


def test_a_machine_in_words() -> None:
    assert str(Machine("A", 1, "Linux x86_64")) == "A, 1 processor, Linux x86_64"
    assert str(Machine("A", 4, "Linux x86_64")) == "A, 4 processors, Linux x86_64"

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from edgekit import registry
from edgekit.cli._errors import as_edgekit_error
from edgekit.config import parse_fraction
from edgekit.devices.local import LocalDevice
from edgekit.devices.opening import open_device
from edgekit.errors import InputError, InternalError
from edgekit.registry import find_profile, installed_quantizer, installed_targets
from edgekit.target import Profile
from edgekit_onnxruntime.target import ONNXRuntimeTarget


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """What is installed; a test adds to it. What really is installed is read anew afterwards."""
    found: list[EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(found).select(group=group))
    installed_targets.cache_clear()
    installed_quantizer.cache_clear()
    yield found
    installed_targets.cache_clear()
    installed_quantizer.cache_clear()


def test_the_targets_of_this_distribution_are_found() -> None:
    assert {"coreml", "openvino", "onnxruntime"} <= {target.name for target in installed_targets().targets}
    assert installed_targets().broken == ()


@pytest.mark.parametrize(
    ("name", "target", "profile"),
    [
        ("ios18", "coreml", "ios18"),
        ("IOS18", "coreml", "ios18"),
        ("intel-cpu", "openvino", "intel-cpu"),
        ("intel", "openvino", "intel-cpu"),
        ("openvino", "openvino", "intel-cpu"),
        ("onnxruntime", "onnxruntime", "onnxruntime"),
    ],
)
def test_a_profile_by_its_names(name: str, target: str, profile: str) -> None:
    found_target, found_profile = find_profile(name)
    assert (found_target.name, found_profile.name) == (target, profile)


def test_a_targets_own_name_stands_for_its_first_profile() -> None:
    for target in installed_targets().targets:
        assert find_profile(target.name)[1].name == target.profiles[0].name


def test_no_name_stands_for_two_profiles() -> None:
    names = [name for _, profile in installed_targets().profiles() for name in (profile.name, *profile.aliases)]
    assert len(names) == len(set(names))


def test_an_unknown_target_names_the_near_ones() -> None:
    with pytest.raises(InputError) as caught:
        find_profile("intel-cpus")
    first, expected, hint = str(caught.value).splitlines()
    assert first == "--target: there is no target 'intel-cpus'"
    assert expected.startswith("expected: 'intel-cpu'")
    assert hint == "hint: `edgekit targets` lists what is installed"


def test_a_broken_plugin_does_not_hide_the_others(entry_points: list[EntryPoint]) -> None:
    entry_points += [
        EntryPoint("absent", "no_such_package.target:Target", registry.TARGETS.group),
        EntryPoint("onnxruntime", "edgekit_onnxruntime.target:ONNXRuntimeTarget", registry.TARGETS.group),
        EntryPoint("wrong", "edgekit.errors:InputError", registry.TARGETS.group),
    ]
    installed = installed_targets()
    assert [target.name for target in installed.targets] == ["onnxruntime"]
    assert [str(plugin) for plugin in installed.broken] == [
        "absent (no_such_package.target:Target): does not load: ModuleNotFoundError: No module named 'no_such_package'",
        "wrong (edgekit.errors:InputError): is not an edgekit.target.Target",
    ]
    with pytest.raises(InputError) as caught:
        find_profile("absent")
    assert "found: targets that do not load: absent (no_such_package.target:Target): " in str(caught.value)


def test_a_failure_is_the_plugin_s_that_it_came_from(entry_points: list[EntryPoint]) -> None:
    entry_points.append(EntryPoint("hailo", "edgekit_hailo.target:Target", registry.TARGETS.group))
    space: dict[str, Any] = {"__name__": "edgekit_hailo.build"}
    exec("def build(): raise KeyError('conv9')\ndef call(back): back()", space)
    with pytest.raises(KeyError) as failure:
        space["build"]()
    error = as_edgekit_error(failure.value)
    assert error.message == "a fault of the plugin edgekit_hailo: KeyError: 'conv9'"
    assert str(error.hint).endswith("report it with the command that you ran to who makes edgekit_hailo")
    assert error.exit_code == 3
    with pytest.raises(ValueError, match="half") as failure_of_ours:
        space["call"](lambda: parse_fraction("half"))
    assert as_edgekit_error(failure_of_ours.value).message.startswith("a fault of EdgeKit itself: ValueError: ")


def test_edgekit_s_own_targets_are_edgekit_itself() -> None:
    assert registry.plugin_of("edgekit_onnxruntime.build") is None
    assert registry.plugin_of("numpy.linalg") is None


def test_a_class_that_is_no_target_is_broken(entry_points: list[EntryPoint]) -> None:
    entry_points.append(EntryPoint("set", "builtins:set", registry.TARGETS.group))
    assert [plugin.reason for plugin in installed_targets().broken] == ["is not an edgekit.target.Target"]


def test_the_quantizer_of_this_distribution_is_found() -> None:
    assert installed_quantizer().name == "edgekit"
    assert installed_quantizer("edgekit") is not None


def test_an_unknown_quantizer() -> None:
    with pytest.raises(InputError) as caught:
        installed_quantizer("edgkit")
    assert str(caught.value) == "--quantizer: there is no quantizer 'edgkit'\nexpected: 'edgekit'"


def test_no_quantizer(entry_points: list[EntryPoint]) -> None:
    del entry_points[:]
    with pytest.raises(InputError) as caught:
        installed_quantizer()
    assert str(caught.value) == (
        "quantize: no quantizer is installed\n"
        "hint: install a package with an entry point in the group 'edgekit.quantizers'"
    )


def test_a_quantizer_that_does_not_load(entry_points: list[EntryPoint]) -> None:
    entry_points.append(EntryPoint("absent", "no_such_package:Quantizer", registry.QUANTIZERS.group))
    with pytest.raises(InternalError) as caught:
        installed_quantizer()
    assert str(caught.value) == (
        "no_such_package:Quantizer: does not load: ModuleNotFoundError: No module named 'no_such_package'"
    )


@pytest.mark.parametrize(
    ("version", "says"),
    [(2, "is written for version 2 of the device contract"), (None, "names no version of the device contract")],
)
def test_a_plugin_for_another_version_of_the_contract(
    entry_points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, version: int | None, says: str
) -> None:
    entry_points.append(EntryPoint("local", "edgekit.devices.local:LocalDevice", registry.DEVICES.group))
    monkeypatch.setattr(LocalDevice, "contract_version", version)
    with pytest.raises(InternalError) as caught:
        open_device("local")
    assert str(caught.value) == (
        f"edgekit.devices.local:LocalDevice: {says}, and this EdgeKit has version 1\n"
        "hint: install releases of both that belong together"
    )
    assert registry.device_forms() == [f"local ({says}, and this EdgeKit has version 1)"]


def test_edgekit_s_own_plugin_stays_where_another_brings_its_name(entry_points: list[EntryPoint]) -> None:
    entry_points += [
        EntryPoint("local", "another.device:Device", registry.DEVICES.group),
        EntryPoint("local", "edgekit.devices.local:LocalDevice", registry.DEVICES.group),
    ]
    assert registry.device_class("local") is LocalDevice


def test_two_packages_with_a_plugin_of_one_name(entry_points: list[EntryPoint]) -> None:
    entry_points += [EntryPoint("board", f"{package}:Device", registry.DEVICES.group) for package in ("acme", "other")]
    with pytest.raises(InternalError) as caught:
        registry.device_class("board")
    assert str(caught.value) == (
        "device 'board': two packages bring a device of that name: acme:Device and other:Device\n"
        "hint: uninstall one of them"
    )


class _Profiles(ONNXRuntimeTarget):
    name = "another"
    given: Any = ()

    @property
    def profiles(self) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (KeyError("devices"), "its profiles: KeyError: 'devices'"),
        (("npu",), "its profiles are not of type edgekit.target.Profile: str"),
        ((), "its profiles are not of type edgekit.target.Profile: there is none"),
        (
            (Profile("npu", "an NPU", aliases=("Web",)),),
            "the name 'web' is that of a profile of edgekit_onnxruntime.target:ONNXRuntimeTarget already",
        ),
    ],
)
def test_a_target_without_profiles_of_its_own(
    entry_points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, given: Any, reason: str
) -> None:
    monkeypatch.setattr(_Profiles, "given", given)
    entry_points += [
        EntryPoint("profiles", f"{__name__}:_Profiles", registry.TARGETS.group),
        EntryPoint("onnxruntime", "edgekit_onnxruntime.target:ONNXRuntimeTarget", registry.TARGETS.group),
    ]
    monkeypatch.setitem(sys.modules, __name__, sys.modules[_Profiles.__module__])
    assert [target.name for target in installed_targets().targets] == ["onnxruntime"]
    assert [plugin.reason for plugin in installed_targets().broken] == [reason]


class _Declares(ONNXRuntimeTarget):
    """A target whose members a test replaces."""

    name = "declares"
    profiles: Any = (Profile("board", "a board"),)


@pytest.mark.parametrize(
    ("member", "given", "reason"),
    [
        ("name", 5, "its name is not a text: 5"),
        ("options", ["layout"], "its options are not a mapping from texts to texts: ['layout']"),
        ("options", {"layout": 1}, "its options are not a mapping from texts to texts: {'layout': 1}"),
        (
            "profiles",
            (Profile("../board", "d"),),
            "a profile's name may have only letters, digits, '.', '_' and '-': '../board'",
        ),
        ("profiles", (Profile("board", None),), "profile 'board': its description is not a text: None"),  # type: ignore[arg-type]  # what is tested
        (
            "profiles",
            (Profile("board", "d", aliases="alias"),),  # type: ignore[arg-type]  # what is tested
            "profile 'board': its aliases are not a tuple of texts: 'alias'",
        ),
        (
            "profiles",
            (Profile("board", "d", runs_here="no"),),  # type: ignore[arg-type]  # what is tested
            "profile 'board': its runs_here is not a bool: 'no'",
        ),
        ("profiles", (Profile("board", "d"), Profile("Board", "e")), "two of its profiles are called 'board'"),
        ("contract_version", "1", "is written for version '1' of the target contract, and this EdgeKit has version 1"),
    ],
)
def test_a_target_that_declares_other_types_than_the_contract_says(
    entry_points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, member: str, given: Any, reason: str
) -> None:
    """One such target ended every command with a fault of EdgeKit itself."""
    monkeypatch.setattr(_Declares, member, given)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[_Declares.__module__])
    entry_points += [
        EntryPoint("declares", f"{__name__}:_Declares", registry.TARGETS.group),
        EntryPoint("onnxruntime", "edgekit_onnxruntime.target:ONNXRuntimeTarget", registry.TARGETS.group),
    ]
    assert [target.name for target in installed_targets().targets] == ["onnxruntime"]
    assert [plugin.reason for plugin in installed_targets().broken] == [reason]


def test_a_plugin_that_ends_the_process_does_not_load(
    entry_points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "edgekit_ends.py").write_text("raise SystemExit(7)")
    monkeypatch.syspath_prepend(tmp_path)
    entry_points.append(EntryPoint("ends", "edgekit_ends:Target", registry.TARGETS.group))
    assert [plugin.reason for plugin in installed_targets().broken] == ["does not load: SystemExit: 7"]


def test_devices_quantizers_and_witnesses_that_do_not_fit_are_listed(
    entry_points: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "edgekit_unfit.py").write_text(
        "from edgekit.device import Device\n"
        "from edgekit.quantizer import Quantizer\n"
        "from edgekit.witness import Witness\n"
        "class Board(Device):\n"
        "    contract_version, url_form = 1, 'board:x'\n"
        "class Schemes(Quantizer):\n"
        "    contract_version, name, schemes = 1, 'unfit', ('int8',)\n"
        "    def quantize(self, request): ...\n"
        "class Second(Witness):\n"
        "    contract_version, name = 2, 'unfit'\n"
        "    targets = ('toy',)\n"
        "class Third(Second):\n"
        "    load = parting = None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry_points += [
        EntryPoint("board", "edgekit_unfit:Board", registry.DEVICES.group),
        EntryPoint("unfit", "edgekit_unfit:Schemes", registry.QUANTIZERS.group),
        EntryPoint("unfit", "edgekit_unfit:Second", registry.WITNESSES.group),
        EntryPoint("untold", "edgekit_unfit:Third", registry.WITNESSES.group),
    ]
    assert registry.device_forms() == ["board (it lacks open)"]
    assert [(noun, str(plugin)) for noun, plugin in registry.broken_others()] == [
        ("quantizer", "unfit (edgekit_unfit:Schemes): its schemes are not of type edgekit.quantizer.Scheme: 'int8'"),
        ("witness", "unfit (edgekit_unfit:Second): it lacks load, parting"),
        ("witness", "untold (edgekit_unfit:Third): its targets are not a frozenset: ('toy',)"),
    ]


def test_a_set_of_rewrites_that_does_not_load_leaves_the_others(entry_points: list[EntryPoint]) -> None:
    entry_points += [
        EntryPoint("absent", "no_such_package:Rewrites", registry.REWRITES.group),
        EntryPoint("standard", "edgekit.rewrites.standard:StandardRewrites", registry.REWRITES.group),
    ]
    registry.rewrite_sets.cache_clear()
    assert registry.installed_rewrites()
    assert [str(plugin) for plugin in registry.rewrite_sets().broken] == [
        "absent (no_such_package:Rewrites): does not load: ModuleNotFoundError: No module named 'no_such_package'"
    ]
    registry.rewrite_sets.cache_clear()

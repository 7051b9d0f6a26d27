"""What holds for one target of several: which table a key comes from."""

from pathlib import Path

import pytest

from edgekit.config import Budget, DeclaredBundle, read_config
from edgekit.errors import InputError

OVERRIDES = """
[budget]
size = 1000
latency_ratio = 2

[defaults]
model = "m.onnx"
targets = ["phone", "box"]
quantize = "int8"
max_drop = 0.1
[defaults.overrides.box]
quantize = "int8-weights"
max_drop = 0.2
floor = 20
budget = { latency_ratio = 1, load_ms = 10 }

[[bundle]]
name = "a"

[[bundle]]
name = "b"
max_drop = 0.3
device = "ssh:box"
[bundle.budget]
load_ms = 20
[bundle.overrides.box]
max_drop = 0.4
model = "other.onnx"
budget = { size = 500 }
[bundle.overrides.phone]
output = "phone"
device = "ssh:phone"

[[bundle]]
name = "c"
target = "box"
"""


def read(folder: Path, text: str) -> dict[str, DeclaredBundle]:
    file = folder / "edgekit.toml"
    file.write_text(text)
    return {one.name: one for one in read_config(file).bundles}


def test_a_target_s_overrides_come_before_the_table_that_holds_them(tmp_path: Path) -> None:
    bundles = read(tmp_path, OVERRIDES)
    assert list(bundles) == ["a-phone", "a-box", "b-phone", "b-box", "c"]
    assert {name: (one.quantize, one.max_drop, one.floor) for name, one in bundles.items()} == {
        "a-phone": ("int8", 0.1, None),
        "a-box": ("int8-weights", 0.2, 20),
        "b-phone": ("int8", 0.3, None),
        "b-box": ("int8-weights", 0.4, 20),
        "c": ("int8-weights", 0.2, 20),
    }
    assert {name for name, one in bundles.items() if one.model.name == "other.onnx"} == {"b-box"}
    assert bundles["b-phone"].output == tmp_path / "phone"
    assert bundles["b-box"].output == tmp_path / "bundles" / "b-box"
    assert {one.declared_as for one in bundles.values()} == {"a", "b", "c"}


@pytest.mark.parametrize("place", ["bundle", "defaults"])
def test_an_output_in_overrides_is_the_folder_itself(tmp_path: Path, place: str) -> None:
    """A target's name was appended to that of the defaults' overrides alone."""
    own = f'[{place}.overrides.web]\noutput = "site"\n'
    text = f"{BUNDLE}{own}" if place == "bundle" else f"{own}{BUNDLE}"
    outputs = {name: one.output for name, one in read(tmp_path, text).items()}
    assert outputs == {"a-ios18": tmp_path / "bundles" / "a-ios18", "a-web": tmp_path / "site"}


def test_budgets_are_filled_key_by_key(tmp_path: Path) -> None:
    bundles = read(tmp_path, OVERRIDES)
    assert bundles["a-phone"].budget == Budget(size=1000, latency_ratio=2)
    assert bundles["a-box"].budget == Budget(size=1000, latency_ratio=1, load_ms=10)
    assert bundles["b-phone"].budget == Budget(size=1000, latency_ratio=2, load_ms=20)
    assert bundles["b-box"].budget == Budget(size=500, latency_ratio=1, load_ms=20)


def test_each_bundle_may_have_a_device_of_its_own(tmp_path: Path) -> None:
    devices = {name: one.device for name, one in read(tmp_path, OVERRIDES).items()}
    assert devices == {"a-phone": None, "a-box": None, "b-phone": "ssh:phone", "b-box": "ssh:box", "c": None}


BUNDLE = '[[bundle]]\nname = "a"\nmodel = "m"\ntargets = ["ios18", "web"]\n'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            f'{BUNDLE}[bundle.overrides.ios-18]\nquantize = "none"',
            "bundle a overrides: there is no bundle for this target\nexpected: ios18, web\nfound: ios-18\n"
            "hint: did you mean ios18?",
        ),
        (
            f'[defaults.overrides.intel-cpu]\nquantize = "none"\n{BUNDLE}',
            "[defaults] overrides: there is no bundle for this target\nexpected: ios18, web\nfound: intel-cpu",
        ),
        (
            f'{BUNDLE}[bundle.overrides.web]\nname = "x"\ntarget = "ios18"',
            "bundle a overrides.web: is the same for all targets\nfound: name, target",
        ),
        (f"{BUNDLE}[bundle.overrides.web]\nsize = 1", "unknown key 'size' (expected one of name,"),
        (f"{BUNDLE}[bundle.overrides.web.budget]\naccuracy = 98", "accuracy: is not a share"),
    ],
)
def test_overrides_that_cannot_be_used(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(InputError) as failure:
        read(tmp_path, text)
    assert found in str(failure.value)


def test_bundles_are_chosen_by_their_names_or_by_that_of_all_their_targets(tmp_path: Path) -> None:
    read(tmp_path, OVERRIDES)
    project = read_config(tmp_path / "edgekit.toml")
    assert [one.name for one in project.only(["c", "b"]).bundles] == ["b-phone", "b-box", "c"]
    assert [one.name for one in project.only(["a-box"]).bundles] == ["a-box"]
    with pytest.raises(InputError) as failure:
        project.only(["c", "a-bix"])
    assert str(failure.value) == (
        f"{tmp_path}/edgekit.toml: declares no such bundle\nexpected: 'a-box' or 'b-box'\nfound: a-bix"
    )


def test_two_outputs_that_are_one_folder_are_refused(tmp_path: Path) -> None:
    bundle = '[[bundle]]\nname = "{}"\nmodel = "m"\ntarget = "t"\noutput = "{}"\n'
    with pytest.raises(InputError, match=r"two bundles have the same output\nfound: .*/b$"):
        read(tmp_path, bundle.format("one", "b") + bundle.format("two", "b/../b"))

from __future__ import annotations

import json
from typing import Any

import pytest

from edgekit.target import Feature
from edgekit_onnxruntime.devices import devices
from edgekit_onnxruntime.session_recipe import Options, SessionRecipe, session_text, unwritable_inputs

RECIPE: dict[str, Any] = {
    "source": "https://example.org/options",
    "date": "2026-01-02",
    "provider_options": {"level": "1", "config": {"B": {"X": "f32"}, "A": "{threads}"}},
    "session_options": {"session.entry": "0"},
    "precisions": {"float16": {"provider_options": {"half": "True", "config": {"B": {"X": "f16"}}}}},
    "cache": {"provider_options": {"config": {"B": {"DIR": "{cache}"}}}, "session_options": {"ep.keep": "1"}},
    "shape_profile": {"least": "min", "default": "opt", "greatest": "max"},
}


def feature(name: str, *shape: int | str) -> Feature:
    return Feature(name, "float32", shape, name, "float32", shape)


def record(precision: str = "auto", *inputs: Feature, **dimensions: Any) -> dict[str, Any]:
    return SessionRecipe.of(RECIPE).record("BoardExecutionProvider", precision, inputs, dimensions)


def test_objects_become_one_text_whose_keys_are_sorted() -> None:
    assert record() == {
        "provider": "BoardExecutionProvider",
        "provider_options": {"config": '{"A":"{threads}","B":{"X":"f32"}}', "level": "1"},
        "session_options": {"session.entry": "0"},
        "cache": {
            "provider_options": {"config": '{"A":"{threads}","B":{"DIR":"{cache}","X":"f32"}}'},
            "session_options": {"ep.keep": "1"},
        },
    }


def test_a_precision_changes_what_it_names_and_leaves_the_rest() -> None:
    found = record("float16")
    assert found["provider_options"] == {"config": '{"A":"{threads}","B":{"X":"f16"}}', "half": "True", "level": "1"}
    assert found["cache"]["provider_options"]["config"] == '{"A":"{threads}","B":{"DIR":"{cache}","X":"f16"}}'


def test_a_precision_without_options_changes_nothing() -> None:
    assert record("float32") == record("auto") == record("no such")


def test_sizes_of_open_dimensions_stand_in_the_shape_profile() -> None:
    """The form is that of TensorRT's documentation: input:1x3,other:2x4."""
    found = record(
        "auto",
        feature("image", "batch", 3, "side", "side"),
        feature("fixed", 1, 4),
        feature("mask", "batch", 8),
        batch=range(1, 9),
        side=(320, 224, 480),
    )["provider_options"]
    assert found["min"] == "image:1x3x224x224,mask:1x8"
    assert found["opt"] == "image:1x3x320x320,mask:1x8"
    assert found["max"] == "image:8x3x480x480,mask:8x8"


def test_fixed_shapes_have_no_profile() -> None:
    assert "min" not in record("auto", feature("image", 1, 3))["provider_options"]


@pytest.mark.parametrize("name", ["input:0", "a,b"])
def test_a_name_that_would_be_read_as_another_is_left_out(name: str) -> None:
    """TensorRT's provider splits at colons and commas, with no way to escape them."""
    inputs = (feature(name, "n", 2), feature("plain", "n", 2))
    assert unwritable_inputs(inputs) == [name]
    assert "min" not in record("auto", *inputs, n=range(1, 3))["provider_options"]


@pytest.mark.parametrize("dimensions", [{}, {"n": range(4, 3)}])
def test_sizes_that_are_not_known_have_no_profile(dimensions: dict[str, range]) -> None:
    """A manifest that somebody sent may say that a range ends before it begins."""
    assert "min" not in record("auto", feature("image", "n", 3), **dimensions)["provider_options"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"provider_option": {}}, "session: provider_option is not known"),
        ({"cache": {"options": {}}}, "session: options is not known"),
        ({"shape_profile": {"most": "max"}}, "session: most is not known"),
    ],
)
def test_a_key_that_is_not_known_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SessionRecipe.of({**RECIPE, **change})


@pytest.mark.parametrize("key", ["source", "date"])
def test_options_without_a_source_are_refused(key: str) -> None:
    with pytest.raises(KeyError, match=key):
        SessionRecipe.of({name: value for name, value in RECIPE.items() if name != key})


def test_flags_are_added_once() -> None:
    both = Options(flags=("A", "B")).with_added(Options(flags=("B", "C")))
    assert both.as_record()["flags"] == ["A", "B", "C"]


@pytest.mark.parametrize("name", sorted(name for name, device in devices().items() if device.session is not None))
def test_all_values_of_the_device_files_are_texts(name: str) -> None:
    """What every API of ONNX Runtime takes, the one for Java among them."""
    device = devices()[name]
    assert device.session is not None
    for precision in ("auto", "float16", "float32"):
        found = json.loads(session_text(device.session.record(device.provider, precision, (), {})))
        assert found["provider"] == device.provider
        for options in (found, found.get("cache", {})):
            for values in (options.get("provider_options", {}), options.get("session_options", {})):
                assert all(isinstance(value, str) and value for value in values.values())


def test_qnn_is_told_the_chip_that_the_check_compiles_for() -> None:
    """onnxruntime-qnn 2.7 refuses half precision where it is not told the chip."""
    qnn = devices()["android-qnn"]
    assert qnn.session is not None
    assert qnn.simulator is not None
    assert qnn.simulator.items() <= qnn.session.options.provider_options.items()

"""What a target's data file may say, and what it may not."""

from __future__ import annotations

import importlib.resources
import json

import pytest

from edgekit.errors import InternalError
from edgekit_quantize.settings import Placement, Settings


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(InternalError, match="no setting 'weigths'"):
        Settings.read({"weigths": "int8"})
    with pytest.raises(InternalError, match="no mode 'outputs' for Conv"):
        Settings.read({"layers": {"Conv": "outputs"}})


@pytest.mark.parametrize("target", ["edgekit_onnxruntime", "edgekit_openvino", "edgekit_coreml"])
def test_every_target_says_what_to_try(target: str) -> None:
    data = json.loads(importlib.resources.files(target).joinpath("placement.json").read_text())
    profiles = [data["default"], *({**data["default"], **own} for own in data.get("profiles", {}).values())]

    for given in profiles:
        found = Placement.read(given).candidates
        assert len(found) == len(given["candidates"])
        assert [*found.values()][-1].layers["Conv"] == "weights"  # what loses least comes last


DATA = {
    "activations": "int8",
    "equalize": True,
    "bias": "int32",
    "candidates": [{"name": "all", "layers": {"Conv": "both"}}, {"name": "some", "bias": "float"}],
}


def test_candidates_differ_from_what_stands_around_them_and_share_the_preparation() -> None:
    placement = Placement.read(DATA)

    assert (placement.preparation.activations, placement.preparation.equalize) == ("int8", True)
    assert {name: settings.bias for name, settings in placement.candidates.items()} == {"all": "int32", "some": "float"}
    assert placement.candidates["all"].layers == {"Conv": "both"}
    assert all(settings.preparation is placement.preparation for settings in placement.candidates.values())


@pytest.mark.parametrize("field", ["equalize", "smoothing", "padded_shifts_as_convolutions", "ranges"])
def test_a_candidate_cannot_set_what_is_done_once_for_all(field: str) -> None:
    data = {**DATA, "candidates": [{"name": "first"}, {"name": "second", field: True}]}

    with pytest.raises(InternalError) as caught:
        Placement.read(data)

    lines = str(caught.value).splitlines()
    assert lines[0] == (
        f"placement data: the candidate 'second' sets {field!r}, which holds for all candidates of a profile"
    )
    assert lines[1].startswith("expected: weights, weights_form, block, whole_blocks, bias, layers,")
    assert lines[2] == f"hint: move {field!r} beside 'candidates': the model is prepared once for all of them"


def test_a_candidate_may_have_activations_of_its_own() -> None:
    wide = {"name": "wide", "activations": "uint16"}
    placement = Placement.read({**DATA, "candidates": [{"name": "narrow"}, wide]})

    assert placement.preparation.activations == "int8"
    types = {name: settings.preparation.activations for name, settings in placement.candidates.items()}
    assert types == {"narrow": "int8", "wide": "uint16"}
    assert all(settings.preparation.equalize for settings in placement.candidates.values())


def test_activations_whose_channels_have_scales_of_their_own_are_of_one_type() -> None:
    data = {**DATA, "channel_scales": ["DepthwiseConv"], "candidates": [{"name": "wide", "activations": "uint16"}]}

    with pytest.raises(InternalError) as caught:
        Placement.read(data)

    assert str(caught.value).splitlines() == [
        "placement data: the candidate 'wide' sets 'activations' although 'channel_scales' is set",
        "expected: no 'channel_scales': scales of channels are computed for one integer type",
    ]


def test_two_candidates_need_two_names() -> None:
    with pytest.raises(InternalError, match="placement data: two candidates are called 'same'"):
        Placement.read({"candidates": [{"name": "same"}, {"name": "same", "bias": "int32"}]})

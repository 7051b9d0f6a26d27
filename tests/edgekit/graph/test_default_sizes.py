from __future__ import annotations

import pytest

from edgekit.graph.default_sizes import SampledSizes, with_default_sizes
from edgekit.graph.shape_request import ShapeRequest
from edgekit.model import Dim, ValueSpec

Shape = tuple[Dim, ...]


def completed(
    *shapes: Shape,
    request: ShapeRequest | None = None,
    metadata: dict[str, str] | None = None,
    sampled: SampledSizes | None = None,
) -> tuple[list[Shape], list[str]]:
    """The inputs' shapes with the default sizes put in, and what is said of them."""
    inputs = [ValueSpec(f"x{number}", "float32", shape) for number, shape in enumerate(shapes)]
    whole, found = with_default_sizes(request or ShapeRequest(), inputs, metadata or {}, sampled)
    sizes = whole.sizes(inputs)
    return [whole.shape(spec, sizes) or () for spec in inputs], list(map(str, found))


@pytest.mark.parametrize("name", ["batch", "N", "B", "batch_size", "Batch", "bs", "batch size", "batch_dim"])
def test_a_dimension_that_is_called_as_batches_are_is_one_wherever_it_stands(name: str) -> None:
    shapes, told = completed((name, 3, 8, 8), (2, name, 128))
    assert shapes == [(1, 3, 8, 8), (2, 1, 128)]
    assert told == [f"dimension 0 ({name}) of input 'x0' is 1, one sample; --dim {name}=SIZE makes it another"]


@pytest.mark.parametrize("name", [None, "unk__214", "DynamicDimension.0", "s6", "Identity463_dim_0"])
def test_a_dimension_that_stands_first_and_is_free_is_one(name: str | None) -> None:
    shapes, told = completed((name, 3, "h", "w"))
    assert shapes == [(1, 3, "h", "w")]
    assert len(told) == 1
    if name is None:
        assert told == ["dimension 0 of input 'x0' is 1, one sample; --shape x0=SIZE,… makes it another"]


@pytest.mark.parametrize(
    "shape",
    [
        ("sequence", 80),
        ("frames", 80),
        ("T", 80),
        ("past_sequence_length + sequence_length", 8),
        ("time", "batch", 40),
        ("samples",),
        ("N",),
        (1, "N"),
        (None,),
        ("W",),
    ],
)
def test_what_counts_steps_stays_free(shape: Shape) -> None:
    (found,), _ = completed(shape)
    assert found == tuple(1 if dim == "batch" else dim for dim in shape)


def test_behind_a_batch_there_is_no_second_one() -> None:
    assert completed(("batch_size", "N"), ("batch_size",))[0] == [(1, "N"), (1,)]
    assert completed(("N", "T", 80), (2, "N", 64), ("N",))[0] == [(1, "T", 80), (2, 1, 64), (1,)]


def test_a_name_that_stands_elsewhere_too_is_no_batch() -> None:
    assert completed(("k", 4), (1, "k")) == ([("k", 4), (1, "k")], [])


def test_what_was_asked_for_wins() -> None:
    request = ShapeRequest.parse(["N=4"], ["x1=2,5"])
    shapes, told = completed(("N", 3), (None, 5), request=request)
    assert shapes == [(4, 3), (2, 5)]
    assert told == []


def test_a_dimension_that_was_asked_to_stay_open_stays() -> None:
    assert completed(("N", 3), request=ShapeRequest.parse(["N=1..8"])) == ([("N", 3)], [])


def test_height_and_width_are_what_the_file_states() -> None:
    shapes, told = completed(("batch", 3, "height", "width"), metadata={"imgsz": "[480, 640]"})
    assert shapes == [(1, 3, 480, 640)]
    assert told[1] == (
        "dimension 2 (height) of input 'x0' is 480, which the file states (imgsz); --dim height=SIZE makes it another"
    )


@pytest.mark.parametrize("stated", ["", "[0, 640]", "large", "[640]", "(" * 400, "['a', 'b']"])
def test_a_size_that_says_nothing_is_passed_over(stated: str) -> None:
    assert completed((1, 3, "h", "w"), metadata={"imgsz": stated})[0] == [(1, 3, "h", "w")]


def test_free_dimensions_get_the_sizes_of_samples() -> None:
    sampled = {"x0": (1, 16000), "x1": (2, 5)}
    shapes, told = completed(("batch", "samples"), (2, None), sampled=sampled)
    assert shapes == [(1, 16000), (2, 5)]
    assert told == [
        "dimension 0 (batch) of input 'x0' is 1, one sample; --dim batch=SIZE makes it another",
        "dimension 1 (samples) of input 'x0' is 16000, as in the samples; --dim samples=SIZE makes it another",
        "dimension 1 of input 'x1' is 5, as in the samples; --shape x1=SIZE,… makes it another",
    ]


def test_samples_stacked_in_one_array_make_no_batch() -> None:
    """A folder with one array of all samples is refused later, with the shape that was expected."""
    sampled = {"x0": (100, 3, 96, 128)}
    assert completed(("batch", 3, "height", "width"), sampled=sampled)[0] == [(1, 3, 96, 128)]
    stated = {"imgsz": "[480, 640]"}
    assert completed(("batch", 3, "height", "width"), sampled=sampled, metadata=stated)[0] == [(1, 3, 480, 640)]


def test_sizes_that_say_nothing_of_a_dimension_are_ignored() -> None:
    sampled = {"x0": (None, 7), "x1": (3,), "other": (1, 1), "x2": (9,)}
    shapes, _ = completed(("time", "width"), (1, "steps"), ("width + 1",), sampled=sampled)
    assert shapes == [("time", 7), (1, "steps"), (8,)]


def test_what_was_asked_for_wins_over_samples() -> None:
    sampled = {"x0": (4, 7), "x1": (4,)}
    request = ShapeRequest.parse(["T=1..8"], ["x1=2"])
    assert completed((1, "T"), (None,), request=request, sampled=sampled)[0] == [(1, "T"), (2,)]

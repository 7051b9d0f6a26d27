from __future__ import annotations

import shlex

import pytest

from edgekit.features.dimensions import SizeRange
from edgekit.graph.sizes import default_sizes
from edgekit.graph.sizes.default_sizes import AcceptedSizes, SampledSizes, with_default_sizes
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import Dim, ValueSpec

Shape = tuple[Dim, ...]


def completed(
    *shapes: Shape,
    request: ShapeRequest | None = None,
    metadata: dict[str, str] | None = None,
    sampled: dict[str, tuple[int | tuple[int, int], ...]] | None = None,
    device: AcceptedSizes = AcceptedSizes.ONE,
    count: int = 3,
) -> tuple[list[Shape], list[str]]:
    """Returns the inputs' shapes with the default sizes put in, and the remarks about them."""
    inputs = [ValueSpec(f"x{number}", "float32", shape) for number, shape in enumerate(shapes)]
    ranges = {
        name: tuple(SizeRange(*size) if isinstance(size, tuple) else SizeRange(size, size) for size in sizes)
        for name, sizes in (sampled or {}).items()
    }
    known = None if sampled is None else SampledSizes(ranges, count, device)
    whole, found = with_default_sizes(request or ShapeRequest(), inputs, metadata or {}, known)
    sizes = whole.sizes(inputs)
    return [whole.shape(spec, sizes) or () for spec in inputs], list(map(str, found))


@pytest.mark.parametrize("name", ["batch", "N", "B", "batch_size", "Batch", "bs", "batch size", "batch_dim"])
def test_a_dimension_that_is_called_as_batches_are_is_one_wherever_it_stands(name: str) -> None:
    shapes, told = completed((name, 3, 8, 8), (2, name, 128))
    assert shapes == [(1, 3, 8, 8), (2, 1, 128)]
    (text,) = told
    assert text.startswith(f"dimension 0 ({name}) of input 'x0' is 1, one sample; --dim ")
    flag = text.partition("; ")[2].removesuffix(" makes it another")
    assert shlex.split(flag) == ["--dim", f"{name}=SIZE"]  # as a shell reads it


@pytest.mark.parametrize("name", [None, "unk__214", "DynamicDimension.0", "s6", "Identity463_dim_0"])
def test_a_dimension_that_stands_first_and_is_free_is_one(name: str | None) -> None:
    shapes, told = completed((name, 3, "h", "w"))
    assert shapes == [(1, 3, "h", "w")]
    assert len(told) == 1
    if name is None:
        assert told == [
            "dimension 0 of input 'x0' is 1, one sample; --shape x0=SIZE,… makes it another, "
            "and ? in place of SIZE keeps it open"
        ]


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


@pytest.mark.parametrize(("dtype", "shape"), [("str", (1,)), ("float32", (None,))])
def test_texts_alone_are_a_sample_each_and_numbers_are_not(dtype: str, shape: Shape) -> None:
    inputs = [ValueSpec("text", dtype, (None,))]
    whole, found = with_default_sizes(ShapeRequest(), inputs, {})
    assert whole.shape(inputs[0], whole.sizes(inputs)) == shape
    assert [each.why for each in found] == (["one sample"] if dtype == "str" else [])


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


@pytest.mark.parametrize("device", [AcceptedSizes.ONE, AcceptedSizes.RANGE])
def test_free_dimensions_get_the_sizes_of_samples(device: AcceptedSizes) -> None:
    shapes, told = completed(("batch", "samples"), (2, None), sampled={"x0": (1, 16000), "x1": (2, 5)}, device=device)
    assert shapes == [(1, 16000), (2, 5)]
    assert told == [
        "dimension 0 (batch) of input 'x0' is 1, one sample; --dim batch=SIZE makes it another",
        "dimension 1 (samples) of input 'x0' is 16000, as in the samples; --dim samples=SIZE makes it another",
        "dimension 1 of input 'x1' is 5, as in the samples; --shape x1=SIZE,… makes it another, "
        "and ? in place of SIZE keeps it open",
    ]


def test_a_dimension_stays_open_for_the_sizes_of_samples_where_the_device_takes_a_range() -> None:
    inputs = [ValueSpec("x0", "int64", ("N", "tokens")), ValueSpec("x1", "int64", ("N", "tokens", None))]
    ranges = {
        "x0": (SizeRange(1, 1), SizeRange(5, 9)),
        "x1": (SizeRange(1, 1), SizeRange(3, 8), SizeRange(2, 4)),
    }
    for device, expected in ((AcceptedSizes.RANGE, range(3, 10)), (AcceptedSizes.ONE, None), (AcceptedSizes.ANY, None)):
        request, told = with_default_sizes(ShapeRequest(), inputs, {}, SampledSizes(ranges, 4, device))
        assert request.open_dims == ({} if expected is None else {"tokens": expected})
        assert request.shapes == {}
        if expected is not None:
            assert str(told[1]) == (
                "dimension 1 (tokens) of input 'x0' is 3..9, as in the samples; an app can feed no other: "
                "--dim tokens=LEAST..GREATEST opens it for more"
            )


def test_a_device_that_takes_any_size_gets_none_of_the_samples() -> None:
    assert completed(("batch", "T"), sampled={"x0": (1, 16)}, device=AcceptedSizes.ANY)[0] == [(1, "T")]


@pytest.mark.parametrize("name", [None, "D", "num_nodes", "unk__214"])
def test_what_stands_first_and_is_more_in_a_sample_counts_no_samples(name: str | None) -> None:
    assert completed((name, 85), sampled={"x0": (6, 85)})[0] == [(6, 85)]
    assert completed((name, 85), sampled={"x0": ((8, 29), 85)})[0] == [(name, 85)]
    assert completed((name, 85), sampled={"x0": (6, 85)}, device=AcceptedSizes.ANY)[0] == [(name, 85)]
    assert completed((name, 85), sampled={"x0": ((1, 29), 85)})[0] == [(name, 85)]
    assert completed((name, 85), sampled={"x0": (6, 85)}, count=1)[0] == [(1, 85)], "several samples in one array"


def test_samples_stacked_in_one_array_make_no_batch() -> None:
    """A folder with one array of all samples is refused later, with the shape that was expected."""
    sampled = {"x0": (100, 3, 96, 128)}
    assert completed(("batch", 3, "height", "width"), sampled=sampled, count=1)[0] == [(1, 3, 96, 128)]


def test_a_batch_has_the_size_that_several_samples_agree_on() -> None:
    shapes, told = completed(("batch_size", 3, 32, 32), sampled={"x0": (2, 3, 32, 32)})
    assert shapes == [(2, 3, 32, 32)]
    assert told == [
        "dimension 0 (batch_size) of input 'x0' is 2, as in every sample; --dim batch_size=SIZE makes it another"
    ]


@pytest.mark.parametrize(
    ("device", "held"), [(AcceptedSizes.ONE, None), (AcceptedSizes.RANGE, range(1, 3)), (AcceptedSizes.ANY, None)]
)
def test_a_batch_of_several_sizes_in_samples_stays_free_or_gets_their_range(
    device: AcceptedSizes, held: range | None
) -> None:
    """The last batch of a data set may be cut short."""
    inputs, ranges = [ValueSpec("x0", "float32", ("batch_size", 3))], {"x0": (SizeRange(1, 2), SizeRange(3, 3))}
    request, _ = with_default_sizes(ShapeRequest(), inputs, {}, SampledSizes(ranges, 4, device))
    assert request.dims == ({} if held is None else {"batch_size": held})


def test_pictures_have_the_sizes_of_the_samples_whatever_the_file_states() -> None:
    stated, free = {"imgsz": "[480, 640]"}, ("batch", 3, "height", "width")
    shapes, told = completed(free, sampled={"x0": (1, 3, 96, 640)}, metadata=stated)
    assert shapes == [(1, 3, 96, 640)]
    assert told[1] == (
        "dimension 2 (height) of input 'x0' is 96, as in the samples; the file states 480 (imgsz); --dim height=SIZE "
        "makes it another"
    )


def test_pictures_of_several_sizes_are_not_fixed_at_the_one_that_the_file_states() -> None:
    stated, free = {"imgsz": "[480, 640]"}, ("batch", 3, "height", "width")
    sampled = {"x0": (1, 3, (96, 128), (640, 640))}
    assert completed(free, sampled=sampled, metadata=stated, device=AcceptedSizes.ANY)[0] == [(1, 3, "height", 640)]
    inputs = [ValueSpec("x0", "float32", free)]
    ranges = {"x0": (SizeRange(1, 1), SizeRange(3, 3), SizeRange(96, 128), SizeRange(640, 640))}
    request, _ = with_default_sizes(ShapeRequest(), inputs, stated, SampledSizes(ranges, 4, AcceptedSizes.RANGE))
    assert request.dims == {"batch": 1, "height": range(96, 129), "width": 640}


def test_sizes_that_say_nothing_of_a_dimension_are_ignored() -> None:
    sampled = {"x0": ((4, 5), 7), "x1": (3,), "other": (1, 1), "x2": (9,)}
    shapes, _ = completed(("time", "width"), (1, "steps"), ("width + 1",), sampled=sampled)
    assert shapes == [("time", 7), (1, "steps"), (8,)]


def test_what_was_asked_for_wins_over_samples() -> None:
    sampled = {"x0": (4, 7), "x1": (4,)}
    request = ShapeRequest.parse(["T=1..8"], ["x1=2"])
    assert completed((1, "T"), (None,), request=request, sampled=sampled)[0] == [(1, "T"), (2,)]


def test_inputs_whose_dimensions_got_the_same_are_one_line() -> None:
    columns = [ValueSpec(f"x{number}", "float32", (None, 1)) for number in range(5)]
    _, found = with_default_sizes(ShapeRequest(), columns, {})
    assert default_sizes.texts_on(found) == [
        "dimension 0 of the inputs 'x0', 'x1', 'x2' and 2 more is 1, one sample; --shape INPUT=SIZE,… makes it "
        "another, for each of them, and ? in place of SIZE keeps it open"
    ]


def test_dimensions_of_several_names_that_got_the_same_are_one_line() -> None:
    """tf2onnx gives each free dimension a name of its own."""
    inputs = [ValueSpec(f"x{number}", "float32", (f"unk__{number}", 1)) for number in range(5)]
    _, found = with_default_sizes(ShapeRequest(), inputs, {})
    assert default_sizes.texts_on(found) == [
        "dimension 0 of the inputs 'x0', 'x1', 'x2' and 2 more is 1, one sample; --dim NAME=SIZE makes it another, by "
        "the names unk__0, unk__1, unk__2 and 2 more"
    ]

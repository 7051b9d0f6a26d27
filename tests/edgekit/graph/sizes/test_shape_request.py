from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgekit.errors import InputError
from edgekit.graph.sizes.shape_request import ShapeRequest, at_sizes
from edgekit.model import Dim, ValueSpec

IMAGE = ValueSpec("x", "float32", ("N", 3, "H", "W"))
CACHE = (
    ValueSpec("ids", "int64", ("batch", "sequence")),
    ValueSpec("mask", "int64", ("batch", "past + sequence")),
    ValueSpec("cache", "float32", ("batch", "past", 64)),
)


def shapes(request: ShapeRequest, *inputs: ValueSpec) -> list[tuple[Dim, ...] | None]:
    sizes = request.sizes(inputs)
    return [request.shape(spec, sizes) for spec in inputs]


def refusal(inputs: Sequence[ValueSpec] = (IMAGE,), dims: Sequence[str] = (), shapes: Sequence[str] = ()) -> str:
    with pytest.raises(InputError) as caught:
        ShapeRequest.parse(dims, shapes).sizes(inputs)
    return str(caught.value)


def test_a_size_counts_for_every_dimension_of_that_name() -> None:
    request = ShapeRequest.parse(["batch=1", "sequence=8"])
    assert shapes(request, *CACHE[:1], ValueSpec("y", "float32", ("batch",))) == [(1, 8), (1,)]


def test_expressions_of_known_names_are_worked_out() -> None:
    request = ShapeRequest.parse(["batch=1", "sequence=8", "past=24"])
    assert shapes(request, *CACHE) == [(1, 8), (1, 32), (1, 24, 64)]


def test_an_expression_that_lacks_a_size_stays() -> None:
    (shape,) = shapes(ShapeRequest.parse(["batch=1"]), ValueSpec("mask", "int64", ("batch", "past + sequence")))
    assert shape == (1, "past + sequence")


def test_a_name_that_looks_like_an_expression_is_a_name() -> None:
    inputs = (ValueSpec("x", "float32", ("batch-size", "a b", 3)), ValueSpec("y", "float32", ("batch",)))
    request = ShapeRequest.parse(["batch-size=2", "batch=5"])
    assert shapes(request, *inputs) == [(2, "a b", 3), (5,)]


def test_a_whole_shape_fixes_the_same_names_elsewhere() -> None:
    request = ShapeRequest.parse(shapes=["ids=1,8"])
    assert shapes(request, *CACHE) == [(1, 8), (1, "past + 8"), (1, "past", 64)]


@pytest.mark.parametrize("text", ["x=1,3,224,224", "x=1x3x224x224", "x=1, 3, 224, 224"])
def test_ways_to_write_a_shape(text: str) -> None:
    assert shapes(ShapeRequest.parse(shapes=[text]), IMAGE) == [(1, 3, 224, 224)]


def test_a_question_mark_leaves_a_dimension_as_it_is() -> None:
    assert shapes(ShapeRequest.parse(shapes=["x=1,?,?,64"]), IMAGE) == [(1, 3, "H", 64)]


def test_an_input_of_unknown_rank_takes_any_shape() -> None:
    assert shapes(ShapeRequest.parse(shapes=["x=1,2"]), ValueSpec("x", "float32", None)) == [(1, 2)]


def test_a_scalar_has_an_empty_shape() -> None:
    assert shapes(ShapeRequest.parse(shapes=["rate="]), ValueSpec("rate", "int64", ())) == [()]


def test_names_may_have_colons_and_equal_signs() -> None:
    spec = ValueSpec("onnx::Relu_0=in:0", "float32", ("N", 3))
    assert shapes(ShapeRequest.parse(shapes=["onnx::Relu_0=in:0=1,3"]), spec) == [(1, 3)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("N", "--dim N: has no size\nexpected: NAME=SIZES\nhint: write it as --dim N=1 or --dim N=1..8"),
        ("=1", "--dim =1: has no size\nexpected: NAME=SIZES\nhint: write it as --dim N=1 or --dim N=1..8"),
        ("N=", "--dim N=: '' is not a size\nexpected: a whole number from 1"),
        ("N=-1", "--dim N=-1: '-1' is not a size\nexpected: a whole number from 1"),
        ("N=1.5", "--dim N=1.5: '1.5' is not a size\nexpected: a whole number from 1"),
    ],
)
def test_a_dim_option_of_another_form(text: str, expected: str) -> None:
    assert refusal(dims=[text]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "--shape x: has no shape\nexpected: INPUT=SIZE,SIZE,…\nhint: write it as --shape x=1,3,224,224"),
        ("x=1,,3", "--shape x=1,,3: '' is not a size\nexpected: a whole number from 1"),
        ("x=1,3,H,W", "--shape x=1,3,H,W: 'H' is not a size\nexpected: a whole number from 1"),
    ],
)
def test_a_shape_option_of_another_form(text: str, expected: str) -> None:
    assert refusal(shapes=[text]) == expected


def test_a_name_given_twice() -> None:
    assert refusal(dims=["N=1", "N=2"]) == "--dim N=2: 'N' is given twice"


def test_an_unknown_dimension_names_the_near_ones() -> None:
    assert refusal(CACHE, dims=["bach=8"]) == (
        "--dim bach=8: no input has a dynamic dimension 'bach'\n"
        "expected: 'batch'\n"
        "found: ids: int64 batch×sequence; mask: int64 batch×(past + sequence); cache: float32 batch×past×64"
    )


def test_an_unknown_dimension_where_none_has_a_name() -> None:
    assert refusal([ValueSpec("x", "float32", (None, 3))], dims=["N=1"]) == (
        "--dim N=1: no input has a dynamic dimension 'N'\n"
        "found: x: float32 ?×3\n"
        "hint: no dimension has a name; give whole shapes with --shape, in which ? keeps a dimension open"
    )


def test_a_range_in_a_shape() -> None:
    with pytest.raises(InputError) as refused:
        ShapeRequest.parse(shapes=["x=1..64,3"])
    assert str(refused.value) == (
        "--shape x=1..64,3: takes no range of sizes\nexpected: INPUT=SIZE,SIZE,…\n"
        "hint: ? in place of a size keeps the dimension open; --dim NAME=1..64 is for one that has a name"
    )


def test_an_unknown_input_names_all() -> None:
    assert refusal(CACHE, shapes=["image=1,2"]) == (
        "--shape image=1,2: there is no input 'image'\nexpected: one of ids, mask, cache"
    )


def test_a_wrong_rank() -> None:
    assert refusal(shapes=["x=1,3,224"]) == (
        "--shape x=1,3,224: the rank is wrong\nexpected: 4 dimensions (x: float32 N×3×H×W)\nfound: 3 dimensions"
    )


def test_two_sizes_for_one_name() -> None:
    assert refusal(dims=["N=2"], shapes=["x=1,3,8,8"]) == (
        "--shape x=1,3,8,8: makes the dimension 'N' 1, while --dim N=2 makes it 2\nhint: give every dimension one size"
    )


def test_a_dimension_with_several_sizes_stays_open() -> None:
    request = ShapeRequest.parse(["N=1..8", "W=224,320", "H=64"])
    assert shapes(request, ValueSpec("x", "float32", ("N", 3, "H", "W"))) == [("N", 3, 64, "W")]
    assert request.open_dims == {"N": range(1, 9), "W": (224, 320)}
    assert ShapeRequest.declared(**request.as_record()) == request


def test_a_shape_cannot_fix_what_a_dim_leaves_open() -> None:
    assert refusal(dims=["H=32..64"], shapes=["x=1,3,48,48"]) == (
        "--shape x=1,3,48,48: makes the dimension 'H' 48, while --dim H=32..64 leaves it open\n"
        "hint: give ? in its place, or --dim one size"
    )


def test_an_unknown_dimension_with_several_sizes() -> None:
    assert refusal(dims=["Q=1..8"]).startswith("--dim Q=1..8: no input has a dynamic dimension 'Q'")


def test_sizes_put_into_expressions_too() -> None:
    specs = (ValueSpec("ids", "int64", (1, "L")), ValueSpec("mask", "int64", (1, "past + L")), IMAGE)
    at = at_sizes(specs, {"L": 4, "past": 2})
    assert [spec.shape for spec in at] == [(1, 4), (1, "past + L"), IMAGE.shape]

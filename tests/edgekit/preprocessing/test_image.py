import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from edgekit.errors import InputError
from edgekit.model import ValueSpec
from edgekit.preprocessing import ImagePreprocessing, parse_preprocessing

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def spec(*shape: int, dtype: str = "float32") -> ValueSpec:
    return ValueSpec("image", dtype, shape)


def picture(tmp_path: Path, rows: list[list[Any]], mode: str = "RGB", **options: Any) -> Path:
    image = Image.new(mode, (len(rows[0]), len(rows)))
    for y, row in enumerate(rows):
        for x, pixel in enumerate(row):
            image.putpixel((x, y), pixel)
    image.save(tmp_path / "picture.png", **options)
    return tmp_path / "picture.png"


PIXEL = spec(1, 3, 1, 1)
"""A picture of one pixel, whose layout has to be declared: both fit."""


def decode(file: Path, value: ValueSpec, **declared: Any) -> np.ndarray:
    if value is PIXEL:
        declared["layout"] = "NCHW"
    return parse_preprocessing({"kind": "image", "scale": 1, **declared}).decoder(value)(file)


def test_channels_come_first_or_last_as_the_input_s_shape_tells(tmp_path: Path) -> None:
    file = picture(tmp_path, [[RED, GREEN], [BLUE, WHITE]])
    first, last = decode(file, spec(1, 3, 2, 2)), decode(file, spec(1, 2, 2, 3, dtype="uint8"))
    assert first.tolist() == [[[[255, 0], [0, 255]], [[0, 255], [0, 255]], [[0, 0], [255, 255]]]]
    assert first.dtype == np.float32
    assert last.tolist() == [[[list(RED), list(GREEN)], [list(BLUE), list(WHITE)]]]
    assert last.dtype == np.uint8


@pytest.mark.parametrize(
    ("layout", "shape", "expected"),
    [("CHW", (3, 1, 2), [[[255, 0]], [[0, 255]], [[0, 0]]]), ("HWC", (1, 2, 3), [[[255, 0, 0], [0, 255, 0]]])],
)
def test_inputs_without_a_batch(tmp_path: Path, layout: str, shape: tuple[int, ...], expected: Any) -> None:
    assert decode(picture(tmp_path, [[RED, GREEN]]), spec(*shape), layout=layout).tolist() == expected


def test_grey_inputs_without_channels(tmp_path: Path) -> None:
    file = picture(tmp_path, [[10, 20]], mode="L")
    assert decode(file, spec(1, 2)).tolist() == [[10, 20]]
    assert decode(file, spec(1, 1, 2), layout="NHW").tolist() == [[[10, 20]]]


def test_mean_and_deviation_are_in_the_order_of_the_model_s_channels(tmp_path: Path) -> None:
    file = picture(tmp_path, [[(51, 102, 204)]])
    values = decode(file, PIXEL, scale="1/255", color="BGR", mean=[0.1, 0.2, 0.3], std=[0.5, 0.25, 0.1])
    assert values.ravel() == pytest.approx([(0.8 - 0.1) / 0.5, (0.4 - 0.2) / 0.25, (0.2 - 0.3) / 0.1], abs=1e-6)


def test_a_grey_picture_fills_all_channels(tmp_path: Path) -> None:
    file = picture(tmp_path, [[7]], mode="L")
    assert decode(file, PIXEL).ravel().tolist() == [7, 7, 7]


def test_a_colour_picture_becomes_its_luma(tmp_path: Path) -> None:
    file = picture(tmp_path, [[RED, GREEN, BLUE, WHITE]])
    weights = (0.299, 0.587, 0.114)  # ITU-R BT.601
    assert decode(file, spec(1, 1, 1, 4)).ravel() == pytest.approx([255 * w for w in weights] + [255], abs=0.5)


def test_integers_are_rounded_and_kept_in_range(tmp_path: Path) -> None:
    file = picture(tmp_path, [[0, 3, 255]], mode="L")
    assert decode(file, spec(1, 3, dtype="int8"), scale=0.5, layout="HW").tolist() == [[0, 2, 127]]


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ({"scale": "1/255"}, "image: uint8 1×3×2×2, and of 256 levels 2 whole numbers: from 0 to 1"),
        (
            {"scale": "1/255", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
            "image: uint8 1×3×2×2, and of 256 levels 3 whole numbers: from -2.118 to 2.64",
        ),
        ({"scale": 1, "mean": 128}, "image: uint8 1×3×2×2, and of 256 levels 127 outside of the type's range"),
    ],
)
def test_an_integer_input_holds_no_shares(tmp_path: Path, declared: dict[str, Any], found: str) -> None:
    text = failure(tmp_path / "unread.png", spec(1, 3, 2, 2, dtype="uint8"), **declared)
    assert text.startswith("input 'image': [preprocessing] makes numbers that an integer input does not hold")
    assert f"expected: whole numbers from 0 to 255\nfound: {found}" in text
    assert text.endswith("hint: if the model scales its input itself, leave mean and std out, and set scale = 1")


def test_an_integer_input_may_be_shifted(tmp_path: Path) -> None:
    file = picture(tmp_path, [[0, 100, 255]], mode="L")
    assert decode(file, spec(1, 3, dtype="int8"), scale=1, mean=128, layout="HW").tolist() == [[-128, -28, 127]]


def test_palette_pictures(tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), GREEN).convert("P", palette=Image.Palette.ADAPTIVE).save(tmp_path / "a.png")
    assert decode(tmp_path / "a.png", PIXEL).ravel().tolist() == list(GREEN)


def test_pictures_are_turned_as_the_camera_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turn a quarter clockwise to show
    file = picture(tmp_path, [[10], [20]], mode="L", exif=exif)
    assert decode(file, spec(1, 2)).tolist() == [[20, 10]]


def test_opaque_pictures_lose_nothing_with_their_alpha(tmp_path: Path) -> None:
    assert decode(picture(tmp_path, [[(*RED, 255)]], mode="RGBA"), PIXEL).ravel().tolist() == list(RED)


def test_resize_stretch(tmp_path: Path) -> None:
    file = picture(tmp_path, [[0, 100], [0, 100]], mode="L")
    values = decode(file, spec(1, 1, 4, 4), resize="stretch", interpolation="nearest")
    assert values[0, 0].tolist() == [[0, 0, 100, 100]] * 4


def test_resize_crop_keeps_the_middle(tmp_path: Path) -> None:
    file = picture(tmp_path, [[1, 2, 3, 4]] * 2, mode="L")
    assert decode(file, spec(1, 1, 2, 2), resize="crop")[0, 0].tolist() == [[2, 3]] * 2


def test_resize_crop_with_a_margin(tmp_path: Path) -> None:
    file = picture(tmp_path, [[10 * y + x for x in range(8)] for y in range(8)], mode="L")
    values = decode(file, spec(1, 1, 4, 4), resize="crop", crop_fraction=0.5)
    assert values[0, 0].tolist() == [[10 * y + x for x in range(2, 6)] for y in range(2, 6)]


@pytest.mark.parametrize(("align", "expected"), [("center", [[9, 9], [1, 2], [1, 2], [9, 9]]), ("start", None)])
def test_resize_pad(tmp_path: Path, align: str, expected: list[list[int]] | None) -> None:
    file = picture(tmp_path, [[1, 2], [1, 2]], mode="L")
    values = decode(file, spec(1, 1, 4, 2), resize="pad", pad_value=9, pad_align=align)
    assert values[0, 0].tolist() == (expected or [[1, 2], [1, 2], [9, 9], [9, 9]])


@pytest.mark.parametrize(("border", "above"), [(5, 2), (7, 4), (4, 2), (1, 0), (3, 2)])
def test_half_a_row_of_border_is_rounded_to_the_even_number(tmp_path: Path, border: int, above: int) -> None:
    """As docs/project-file.md tells apps: 2.5 to 2, 3.5 to 4."""
    file = picture(tmp_path, [[200, 200]], "L")
    values = decode(file, spec(1, 1, border + 1, 2), resize="pad", pad_value=9)
    assert [int(row) for row in np.nonzero(values[0, 0, :, 0] == 200)[0]] == [above]


def failure(file: Path, value: ValueSpec, **declared: Any) -> str:
    with pytest.raises(InputError) as raised:
        decode(file, value, **declared)
    return str(raised.value)


def test_another_size_without_resize(tmp_path: Path) -> None:
    file = picture(tmp_path, [[1, 2]], mode="L")
    assert failure(file, spec(1, 1, 4, 4)) == (
        f"{file}: the picture has another size than the model's input\n"
        "expected: 4×4 (width × height)\n"
        "found: 2×1\n"
        'hint: set resize in [preprocessing] to "stretch", "crop" or "pad", whichever the training used'
    )


def test_a_transparent_picture(tmp_path: Path) -> None:
    file = picture(tmp_path, [[(*RED, 254)]], mode="RGBA")
    assert failure(file, PIXEL) == (
        f"{file}: the picture is transparent in places, and what lies behind it is not known\n"
        "hint: flatten it onto the background that the training used"
    )


@pytest.mark.parametrize(
    ("name", "found"), [("a.png", "RGB;16B"), ("a.tif", "RGB;16"), ("a.ppm", "values up to 65535")]
)
def test_a_picture_in_colour_with_16_bits(tmp_path: Path, name: str, found: str) -> None:
    """Pillow opens it with 8 bits."""
    pixel = (40000).to_bytes(2, "big") * 3
    (tmp_path / name).write_bytes(
        {
            "a.png": b"\x89PNG\r\n\x1a\n"
            + b"".join(
                len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
                for kind, body in (
                    (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0)),
                    (b"IDAT", zlib.compress(b"\0" + pixel)),
                    (b"IEND", b""),
                )
            ),
            "a.tif": b"MM\0*\0\0\0\x08"
            + struct.pack(">H", 9)
            + b"".join(
                struct.pack(">HHI", tag, kind, count) + value
                for tag, kind, count, value in (
                    (256, 3, 1, b"\0\1\0\0"),
                    (257, 3, 1, b"\0\1\0\0"),
                    (258, 3, 3, (122).to_bytes(4, "big")),
                    (259, 3, 1, b"\0\1\0\0"),
                    (262, 3, 1, b"\0\2\0\0"),
                    (273, 4, 1, (128).to_bytes(4, "big")),
                    (277, 3, 1, b"\0\3\0\0"),
                    (278, 3, 1, b"\0\1\0\0"),
                    (279, 4, 1, (6).to_bytes(4, "big")),
                )
            )
            + bytes(4)
            + b"\0\x10" * 3
            + pixel,
            "a.ppm": b"P6 1 1 65535\n" + pixel,
        }[name]
    )
    assert Image.open(tmp_path / name).mode == "RGB"
    text = failure(tmp_path / name, PIXEL)
    assert f"the picture has more than 8 bits a channel\nexpected: 8 bits a channel\nfound: {found}" in text


def test_pictures_of_pillow_10_whose_tiles_are_plain_tuples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow 11 gave their fields names."""
    file = tmp_path / "a.bmp"
    Image.new("RGB", (1, 1), (1, 2, 3)).save(file)
    (tmp_path / "a.ppm").write_bytes(b"P6 1 1 65535\n" + b"\0\1" * 3)
    monkeypatch.setattr("PIL.ImageFile._Tile", lambda *fields: fields)
    assert decode(file, PIXEL).ravel().tolist() == [1, 2, 3]
    assert "found: values up to 65535" in failure(tmp_path / "a.ppm", PIXEL)


def test_a_file_of_several_pages(tmp_path: Path) -> None:
    file = tmp_path / "a.tif"
    Image.new("RGB", (1, 1)).save(file, save_all=True, append_images=[Image.new("RGB", (1, 1))])
    assert failure(file, PIXEL) == (
        f"{file}: the file holds several pictures\nexpected: one picture a file\nfound: 2 pages\n"
        "hint: save each in a file of its own"
    )


def test_a_picture_with_16_bits(tmp_path: Path) -> None:
    Image.new("I;16", (1, 1), 40000).save(tmp_path / "a.png")
    assert "the picture has more than 8 bits a channel\nexpected: 8 bits a channel\nfound: mode I;16" in failure(
        tmp_path / "a.png", PIXEL
    )


@pytest.mark.parametrize("shape", [(1, 3, 8, 3), (1, 5, 8, 8), (1, 2, 3, 4, 5)])
def test_an_unclear_layout(tmp_path: Path, shape: tuple[int, ...]) -> None:
    text = failure(tmp_path / "unread.png", spec(*shape))
    assert text.startswith("input 'image': whether the model's input is a picture, and in which layout, is not clear")


def test_a_declared_layout_settles_it(tmp_path: Path) -> None:
    file = picture(tmp_path, [[RED] * 3] * 8)
    assert decode(file, spec(1, 3, 8, 3), layout="NCHW")[0, 0].tolist() == [[255] * 3] * 8


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (
            {"color": "GRAY"},
            "expected: as many channels as GRAY has: 1\nfound: image: float32 1×3×2×2\n"
            'hint: write color = "RGB" or "BGR": in the layout NCHW the model takes 3 channels; if it is meant for ',
        ),
        (
            {"size": [3, 4]},
            "expected: height and width as in size: 3×4\nfound: image: float32 1×3×2×2\n"
            "hint: leave size out, or write size = [2, 2]: the model takes pictures of 2×2; if it is meant for ",
        ),
        (
            {"mean": [1, 2]},
            "expected: as many channels as mean has numbers: 2\nfound: image: float32 1×3×2×2\n"
            "hint: write mean with one number, or with 3; if it is meant for another bundle of the project file, ",
        ),
        ({"layout": "CHW"}, "expected: one picture as CHW, with 1 or 3 channels"),
        ({"dtype": "uint8"}, "expected: image: float32 1×3×2×2"),
        ({"std": 0}, "a standard deviation is zero"),
    ],
)
def test_a_declaration_that_does_not_fit(tmp_path: Path, declared: dict[str, Any], expected: str) -> None:
    assert expected in failure(tmp_path / "unread.png", spec(1, 3, 2, 2), **declared)


def test_a_batch_of_pictures_is_refused(tmp_path: Path) -> None:
    text = failure(tmp_path / "unread.png", spec(2, 3, 2, 2))
    assert "expected: one picture as NCHW, a batch of 1, with 1 or 3 channels\nfound: image: float32 2×3×2×2" in text
    assert text.endswith(
        "hint: the model takes 2 pictures at once, a batch that the file fixes: export it with a batch of 1, or with a "
        "dynamic one"
    )


def test_a_dynamic_input_is_refused(tmp_path: Path) -> None:
    text = failure(tmp_path / "unread.png", ValueSpec("image", "float32", ("N", 3, 2, 2)))
    assert 'hint: fix it with --dim N=SIZE (in a project file dims = { "N" = SIZE })' in text


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({"kind": "image"}, "'scale' is missing"),
        ({"scale": 1}, "'kind' is missing"),
        ({"kind": "image", "scale": 1, "resise": "crop"}, "unknown key 'resise' (expected 'resize' or"),
        ({"kind": "image", "scale": "1/0"}, "scale: '1/0'"),
        ({"kind": "image", "scale": 1, "color": "rgb"}, "color: 'rgb' is not one of"),
    ],
)
def test_a_declaration_that_is_none(table: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_preprocessing(table, "edgekit.toml [preprocessing]")
    assert str(raised.value).startswith("edgekit.toml [preprocessing]: cannot be used\nfound: ")
    assert found in str(raised.value)


def test_what_is_left_out_is_resolved_by_the_model() -> None:
    resolved = ImagePreprocessing(scale=1).resolve(spec(1, 4, 5, 3, dtype="uint8"))
    assert (resolved.layout, resolved.size, resolved.color, resolved.dtype) == ("NHWC", (4, 5), "RGB", "uint8")


def test_a_file_that_is_no_picture(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\nxxxx")
    text = failure(file, spec(1, 3, 4, 4))
    assert text == f"{file}: the picture cannot be read: it is damaged, or not of the kind that its suffix says"


@pytest.mark.parametrize(("width", "height"), [(4000, 1), (1, 4000)])
def test_a_picture_of_which_padding_leaves_nothing(tmp_path: Path, width: int, height: int) -> None:
    """One pixel in 4000 of a side of 32 is 0.008 pixels: the input would hold the border alone."""
    Image.new("L", (width, height), 200).save(tmp_path / "line.png")
    assert failure(tmp_path / "line.png", spec(1, 1, 32, 32), resize="pad") == (
        f"{tmp_path / 'line.png'}: the picture is too narrow: less than half a pixel is left of it in the input\n"
        f"found: {width}×{height}, for 32×32 (width × height)"
    )


def test_a_lab_picture_becomes_its_luma(tmp_path: Path) -> None:
    """A lightness of 100 is white, whose luma is 255 (CIE 1976; Pillow stores 100 as 255, and no hue as 128)."""
    Image.new("LAB", (4, 4), (255, 128, 128)).save(tmp_path / "white.tif")
    for channels in (1, 3):
        np.testing.assert_allclose(decode(tmp_path / "white.tif", spec(1, channels, 4, 4)), 255, atol=1)

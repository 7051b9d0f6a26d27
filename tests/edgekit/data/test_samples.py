import shutil
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.data.labels import read_class_names
from edgekit.data.samples import SeededSamples, open_samples, samples_at
from edgekit.errors import InputError, RequestError
from edgekit.features.tokens import TokenRule
from edgekit.model import Model, ValueSpec
from edgekit.preprocessing import AudioPreprocessing, ImagePreprocessing, parse_preprocessing

VECTOR = (ValueSpec("x", "float32", (1, 3)),)
PICTURE = (ValueSpec("image", "float32", (1, 3, 2, 2)),)
BYTES = (ValueSpec("image", "uint8", (1, 2, 2, 3)),)


def save(folder: Path, *values: float, **arrays: object) -> None:
    """Samples 0.npz, 1.npz, … whose vector x holds one of the values each."""
    for number, value in enumerate(values):
        np.savez(folder / f"{number}.npz", x=np.full((1, 3), value, np.float32), **arrays)


def save_picture(file: Path, mode: str = "RGB", size: tuple[int, int] = (2, 2)) -> None:
    from PIL import Image

    file.parent.mkdir(exist_ok=True)
    Image.new(mode, size).save(file)


def message(folder: Path, inputs: tuple[ValueSpec, ...] = VECTOR, **options: object) -> str:
    """The error of opening and reading a folder, without the place where the test keeps it."""
    with pytest.raises(InputError) as failure:
        list(open_samples(folder, inputs, **options))  # type: ignore[arg-type]
    return str(failure.value).replace(f"{folder}/", "").replace(str(folder), "DATA")


def test_samples_can_be_walked_twice_in_the_order_of_their_names(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3)
    samples = open_samples(tmp_path, VECTOR)
    assert len(samples) == 3
    assert not samples.has_labels
    for _ in range(2):
        assert [(sample.name, sample.feeds["x"].tolist(), sample.label) for sample in samples] == [
            ("0.npz", [[1, 1, 1]], None),
            ("1.npz", [[2, 2, 2]], None),
            ("2.npz", [[3, 3, 3]], None),
        ]


def test_several_samples_in_one_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", x=np.zeros((40, 3), np.float32))
    assert message(tmp_path) == (
        "all.npz: the sample's shape is not the model's\n"
        "expected: x: float32 1×3\n"
        "found: x: float32 40×3\n"
        "hint: if these are 40 samples, give the file itself in place of its folder; if they are one, "
        "fix the model to this shape with --shape x=40,3"
    )


def test_samples_are_read_when_they_are_reached_and_not_before(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    walk = iter(open_samples(tmp_path, VECTOR))
    save(tmp_path, 5, 6)
    assert [sample.feeds["x"][0, 0] for sample in walk] == [5, 6]


def test_of_samples_at_some_places_no_others_are_read(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4)
    samples = open_samples(tmp_path, VECTOR)
    (tmp_path / "0.npz").unlink()
    (tmp_path / "2.npz").unlink()
    assert [sample.feeds["x"][0, 0] for sample in samples_at(samples, {3, 1})] == [2, 4]


def test_samples_at_some_places_of_what_is_no_folder() -> None:
    model = Model(ir.Model(ir.Graph([ir.val("x", ir.DataType.FLOAT, [1, 3])], [], nodes=[]), ir_version=10))
    assert [sample.name for sample in samples_at(SeededSamples(model, 4), {3, 1})] == ["seed 1", "seed 3"]


def test_a_dynamic_dimension_fits_any_size(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert len(open_samples(tmp_path, (ValueSpec("x", "float32", ("N", 3)),))) == 1


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    assert message(tmp_path) == (
        "DATA: the data folder holds no samples\n"
        "expected: .npz files with an array for each input, or pictures or .wav files\n"
        "found: no such file\n"
        "hint: numpy.savez(FILE, INPUT=array) writes a sample"
    )


@pytest.mark.parametrize("name", ["Thumbs.db", "desktop.ini", "__MACOSX/a.png", "Icon\r"])
def test_what_systems_leave_in_folders_is_ignored(tmp_path: Path, name: str) -> None:
    save(tmp_path, 1, 2)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"x")
    assert len(open_samples(tmp_path, VECTOR)) == 2


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert "the data folder is not there" in message(tmp_path / "nowhere")


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "the data is not a folder" in message(tmp_path / "file")


def test_wrong_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=np.zeros(3, np.float32), z=np.zeros(3, np.float32))
    assert message(tmp_path) == (
        "a.npz: the sample's arrays are not named as the model's inputs\n"
        "expected: x\n"
        "found: y, z\n"
        "hint: numpy.savez(FILE, **{INPUT: array, …}) names them"
    )


def test_an_array_that_is_no_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 3), np.float32), temperature=np.float32(1))
    assert message(tmp_path) == (
        "a.npz: the sample's arrays are not named as the model's inputs\n"
        "expected: x\n"
        "found: x, temperature\n"
        "hint: leave out temperature: the model has no such input; a value that the model's file holds (an "
        "initializer) counts as an input only if every sample has an array for it"
    )


def test_a_wrong_shape_is_found_in_the_last_file_before_any_is_read(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    np.savez(tmp_path / "z.npz", x=np.zeros((1, 4), np.float32))
    with pytest.raises(InputError) as failure:
        open_samples(tmp_path, VECTOR)
    assert str(failure.value) == (
        f"{tmp_path / 'z.npz'}: the sample's shape is not the model's\n"
        "expected: x: float32 1×3\n"
        "found: x: float32 1×4\n"
        "hint: fix the model to this shape with --shape x=1,4, or prepare the data anew"
    )


def test_an_empty_array_is_no_shape_to_fix_the_model_to(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((0, 3), np.float32))
    assert message(tmp_path) == (
        "a.npz: the sample's shape is not the model's\n"
        "expected: x: float32 1×3\n"
        "found: x: float32 0×3\n"
        "hint: the array is empty: leave the sample out, or mend what wrote it"
    )


WORDS = (ValueSpec("text", "int64", (2, 16), vocabulary=("a", "b"), tokens=(TokenRule("[a-z]", count=16),)),)


def test_texts_become_the_numbers_of_their_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", text=np.array(["b a c", ""]))
    np.savez(tmp_path / "1.npz", text=np.full((2, 16), 1))
    found = [sample.feeds["text"].tolist() for sample in open_samples(tmp_path, WORDS)]
    assert found == [[[1, 0] + [2] * 14, [2] * 16], [[1] * 16] * 2]


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (
            np.array([["a"]]),
            "the sample's shape is not the model's\nexpected: text: str 2\nfound: text: str32 1×1",
        ),
        (
            np.array(["a"]),
            "the sample's shape is not the model's\nexpected: text: str 2\nfound: text: str32 1\n"
            "hint: fix the model to this shape with --shape text=1, or prepare the data anew",
        ),
        (
            np.zeros((2, 8), np.int64),
            "the sample's shape is not the model's\nexpected: text: int64 2×16\nfound: text: int64 2×8\nhint: fix the "
            "model to this shape with --shape text=2,8, or prepare the data anew",
        ),
        (np.array(["a " * 17, ""]), ", array 'text': a text has more words than the input has places for\nexpected: "),
    ],
    ids=["rank", "count of texts", "count of words", "too long"],
)
def test_texts_that_do_not_fit(tmp_path: Path, array: np.ndarray, told: str) -> None:
    np.savez(tmp_path / "0.npz", text=array)
    assert message(tmp_path, WORDS).startswith(f"0.npz{told}" if told.startswith(",") else f"0.npz: {told}")


def test_a_missing_batch_dimension(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(3, np.float32))
    assert "hint: the batch dimension is missing: save array[numpy.newaxis]" in message(tmp_path)


def test_a_wrong_element_type(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 3)))
    assert message(tmp_path) == (
        "a.npz: the sample's element type is not the model's\n"
        "expected: x: float32 1×3\n"
        "found: x: float64\n"
        "hint: save array.astype('float32')"
    )


def test_nan(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([[1, np.nan, np.nan]], np.float32))
    assert message(tmp_path) == (
        "a.npz: the sample holds NaN\nexpected: numbers in array 'x'\nfound: 2 of 3 values are NaN\n"
        "hint: leave the sample out, or mend what wrote it; an input may hold NaN where a tree ensemble, an Imputer or "
        "IsNaN takes it for a missing value"
    )


@pytest.mark.parametrize("kept", [0, 10, 100, -30])
def test_a_damaged_file(tmp_path: Path, kept: int) -> None:
    save(tmp_path, 1)
    (tmp_path / "0.npz").write_bytes((tmp_path / "0.npz").read_bytes()[:kept])
    assert message(tmp_path).startswith("0.npz: the sample cannot be read: ")


def test_changed_bytes_inside_a_compressed_file(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.random.default_rng(0).random((1, 1000), np.float32))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[1500] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    assert message(tmp_path, (ValueSpec("x", "float32", (1, 1000)),)).startswith("a.npz: the sample cannot be read: ")


def test_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], dtype=object))
    assert "expected: x: float32 1×3\nfound: x: object" in message(tmp_path)


def test_mixed_kinds(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save_picture(tmp_path / "a.png")
    assert message(tmp_path) == (
        "DATA: the data folder holds samples of several kinds\n"
        "expected: one kind: .npz, pictures or .wav\n"
        "found: a.png, 0.npz"
    )


def test_a_file_that_is_no_sample(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "notes.docx").touch()
    text = message(tmp_path)
    assert text.startswith("notes.docx: the file is not a sample\nexpected: .npz, .wav or a picture")
    assert text.endswith("found: .docx\nhint: keep other files outside the data folder")

    (tmp_path / "notes.docx").rename(tmp_path / "notes.csv")
    assert message(tmp_path).endswith(
        "found: .csv\nhint: a table is given itself, a row a sample: notes.csv in place of its folder"
    )
    (tmp_path / "notes.csv").rename(tmp_path / "a.npy")
    hint = "a table is given itself, a row a sample: a.npy in place of its folder"
    assert message(tmp_path).endswith(f"found: .npy\nhint: {hint}")


def test_labels_in_a_sub_folder_tell_that_it_is_the_data(tmp_path: Path) -> None:
    """Such as a folder with both ``train`` and ``test``, each with its samples and their labels."""
    (tmp_path / "train").mkdir()
    save(tmp_path / "train", 1)
    (tmp_path / "train" / "labels.csv").touch()
    text = message(tmp_path)
    assert text.startswith("train/labels.csv: the file is not a sample\n")
    assert text.endswith("hint: it holds labels of the samples beside it: give its folder, train, as the data")


def test_a_sound_of_another_kind_is_told_how_to_become_a_wav_file(tmp_path: Path) -> None:
    (tmp_path / "take 1.flac").touch()
    hint = "hint: `ffmpeg -i 'take 1.flac' -c:a pcm_s16le 'take 1.wav'` writes a WAV file; give a folder of these"
    assert message(tmp_path).endswith(f"found: .flac\n{hint}")


class TestLabels:
    def test_in_the_files(self, tmp_path: Path) -> None:
        save(tmp_path, 1, 2, label=7)
        samples = open_samples(tmp_path, VECTOR)
        assert samples.has_labels
        assert [(sample.label, list(sample.feeds)) for sample in samples] == [(7, ["x"]), (7, ["x"])]

    def test_an_input_that_is_called_label_is_no_label(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", label=np.zeros((1, 3), np.float32))
        samples = open_samples(tmp_path, (ValueSpec("label", "float32", (1, 3)),))
        assert not samples.has_labels
        assert [list(sample.feeds) for sample in samples] == [["label"]]

    def test_in_some_files_only(self, tmp_path: Path) -> None:
        save(tmp_path, 1, label=7)
        np.savez(tmp_path / "z.npz", x=np.zeros((1, 3), np.float32))
        assert message(tmp_path) == (
            "z.npz: only some of the samples have a label\nexpected: an array 'label', as in 0.npz\nfound: none"
        )

    @pytest.mark.parametrize(
        ("label", "found"),
        [(1.5, "1.5"), (-1, "-1"), ([[1, 2]], "int64 of shape (1, 2)"), ("c" * 300, "<U300 of shape ()")],
    )
    def test_that_are_no_class_numbers(self, tmp_path: Path, label: object, found: str) -> None:
        save(tmp_path, 1, label=label)
        assert message(tmp_path) == (
            f"0.npz: the label is not a class number\nexpected: one whole number from 0\nfound: {found}"
        )

    def test_of_all_samples_in_one_file(self, tmp_path: Path) -> None:
        save(tmp_path, 1, label=[1, 0])
        assert message(tmp_path) == (
            "0.npz: the label is not a class number\n"
            "expected: one whole number from 0\n"
            "found: int64 of shape (2,)\n"
            "hint: each file in a folder is one sample; give a file of many samples itself, in place of its folder; "
            "classes of tokens or pixels need a function of your own (--metric), which reads them from elsewhere"
        )

    def test_by_name_in_the_files(self, tmp_path: Path) -> None:
        for name in ("yak", "ant"):
            np.savez(tmp_path / f"{name}.npz", x=np.zeros((1, 3), np.float32), label=name)
        samples = open_samples(tmp_path, VECTOR, class_names=("ant", "bee", "yak"))
        assert [(sample.name, sample.label) for sample in samples] == [("ant.npz", 0), ("yak.npz", 2)]
        assert message(tmp_path) == (
            "ant.npz: the label is not a class\nexpected: a number from 0\nfound: 'ant'\n"
            "hint: write the number of the class; `edgekit package` and `quantize` take the names of the classes, "
            "with --labels FILE"
        )

    def test_called_otherwise(self, tmp_path: Path) -> None:
        save(tmp_path, 1, y=3)
        assert message(tmp_path) == (
            "0.npz: the sample's arrays are not named as the model's inputs\n"
            "expected: x\n"
            "found: x, y\n"
            "hint: if y is the sample's label, call the array 'label'; if not, leave it out"
        )

    def test_in_a_table(self, tmp_path: Path) -> None:
        save(tmp_path, 1, 2)
        (tmp_path / "labels.csv").write_text("file,label\n1.npz,4\n0.npz,cat\n")
        samples = open_samples(tmp_path, VECTOR, class_names=("dog", "cat"))
        assert [sample.label for sample in samples] == [1, 4]

    def test_in_lines(self, tmp_path: Path) -> None:
        save(tmp_path, 1, 2)
        (tmp_path / "labels.txt").write_text("4\n0\n")
        assert [sample.label for sample in open_samples(tmp_path, VECTOR)] == [4, 0]

    def test_by_folders_named_as_class_numbers(self, tmp_path: Path) -> None:
        for name in ("10", "2"):
            (tmp_path / name).mkdir()
            save(tmp_path / name, 1)
        assert [(s.name, s.label) for s in open_samples(tmp_path, VECTOR)] == [("10/0.npz", 10), ("2/0.npz", 2)]

    def test_by_folders_named_as_classes_in_the_model_s_order(self, tmp_path: Path) -> None:
        for name in ("ant", "zebra"):
            (tmp_path / name).mkdir()
            save(tmp_path / name, 1)
        assert [s.label for s in open_samples(tmp_path, VECTOR, class_names=("zebra", "yak", "ant"))] == [2, 0]
        assert [s.label for s in open_samples(tmp_path, VECTOR)] == [0, 1]

    def test_by_folders_that_are_no_classes(self, tmp_path: Path) -> None:
        for name in ("ant", "zebra"):
            (tmp_path / name).mkdir()
            save(tmp_path / name, 1)
        text = message(tmp_path, class_names=("ant", "bee"))
        assert text == "DATA: folders are named as no class\nexpected: ant, bee\nfound: zebra"

    def test_a_single_folder_is_hardly_a_class(self, tmp_path: Path) -> None:
        (tmp_path / "images").mkdir()
        save(tmp_path / "images", 1, 2)
        assert "the samples lie in a single sub-folder" in message(tmp_path)

    def test_samples_beside_folders_of_samples(self, tmp_path: Path) -> None:
        (tmp_path / "1").mkdir()
        save(tmp_path / "1", 1)
        save(tmp_path, 1)
        assert "found: 0.npz, and 1/0.npz" in message(tmp_path)

    def test_samples_that_lie_deeper(self, tmp_path: Path) -> None:
        (tmp_path / "1" / "2").mkdir(parents=True)
        save(tmp_path / "1" / "2", 1)
        assert "samples lie too deep in the data folder" in message(tmp_path)

    @pytest.mark.parametrize(
        ("table", "expected"),
        [
            ("0.npz,1\n", "labels.csv: samples have no label\nexpected: a line for each of 2 samples\nfound: 1.npz"),
            ("0.npz,1\n0.npz,1\n", "labels.csv:2: the sample has two labels\nfound: 0.npz"),
            (
                "9.npz,1\n",
                "labels.csv:1: the line does not label a sample\nexpected: FILE,LABEL, with a FILE of this folder\n"
                "found: 9.npz,1",
            ),
            (
                "file;label\n0.npz;1\n",
                "labels.csv:1: the line does not label a sample\nexpected: FILE,LABEL\nfound: file;label\n"
                "hint: separate FILE and LABEL with a comma",
            ),
            (
                "0,1\n1,1\n",
                "labels.csv:1: the line does not label a sample\nexpected: FILE,LABEL, with a FILE of this folder\n"
                "found: 0,1\n"
                "hint: write FILE with its suffix, from the data folder on: 0.npz,1",
            ),
            ("0.npz,cat\n", "labels.csv:1: the label is not a class\nexpected: a number from 0\nfound: 'cat'"),
        ],
    )
    def test_a_table_that_does_not_fit(self, tmp_path: Path, table: str, expected: str) -> None:
        save(tmp_path, 1, 2)
        (tmp_path / "labels.csv").write_text(table)
        assert message(tmp_path).startswith(expected)

    def test_names_of_classes_in_place_of_labels(self, tmp_path: Path) -> None:
        save(tmp_path, 1, 2)
        (tmp_path / "labels.txt").write_text("ant\nbee\ncat\n")
        assert message(tmp_path) == (
            "labels.txt: the number of labels is not the number of samples\n"
            "expected: 2 lines\n"
            "found: 3 lines\n"
            "hint: if the lines are names of classes, not labels of samples: `edgekit package` and `quantize` take "
            "the names of the classes, with --labels FILE"
        )

    def test_two_ways_at_once(self, tmp_path: Path) -> None:
        save(tmp_path, 1, label=1)
        (tmp_path / "labels.txt").write_text("4\n")
        assert "the samples are labelled twice" in message(tmp_path)


@pytest.mark.parametrize("suffix", [".HEIC", ".dng"])
def test_pictures_of_phones_that_are_not_read(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"IMG_0001{suffix}").touch()
    assert message(tmp_path).endswith(
        f"found: {suffix}\nhint: save pictures as .png or .jpg: {suffix.lower()} is not read"
    )


def test_class_names(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("ant\nhorse fly\n\n")
    assert read_class_names(file) == ("ant", "horse fly")


@pytest.mark.parametrize(("text", "where"), [("", ""), ("a\n\nb\n", ":2"), ("a\nb\na\n", ":3"), ("a\nb\0\n", ":2")])
def test_class_names_that_are_none(tmp_path: Path, text: str, where: str) -> None:
    file = tmp_path / "names.txt"
    file.write_text(text)
    with pytest.raises(InputError) as failure:
        read_class_names(file)
    assert str(failure.value).startswith(f"{file}{where}: is not a list of class names")


class TestMedia:
    def test_pictures_with_a_declaration(self, tmp_path: Path) -> None:
        save_picture(tmp_path / "a.png")
        samples = open_samples(tmp_path, PICTURE, ImagePreprocessing(scale=1, mean=(5.0,)))
        assert [(s.name, s.feeds["image"].tolist()) for s in samples] == [("a.png", np.full((1, 3, 2, 2), -5).tolist())]

    def test_bytes_need_no_declaration(self, tmp_path: Path) -> None:
        save_picture(tmp_path / "a.png")
        (sample,) = open_samples(tmp_path, BYTES)
        assert sample.feeds["image"].dtype == np.uint8

    def test_pictures_without_a_declaration(self, tmp_path: Path) -> None:
        save_picture(tmp_path / "a.png")
        assert message(tmp_path, PICTURE) == (
            "DATA: how a picture becomes the model's input is not declared\n"
            'expected: [preprocessing] with kind = "image" in edgekit.toml\n'
            "found: no [preprocessing]\n"
            'hint: for instance: kind = "image", scale = "1/255"; '
            "--config FILE names an edgekit.toml that lies neither in the data folder nor above it"
        )

    def test_a_declaration_in_the_working_directory_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`init` writes it there, and samples often lie elsewhere."""
        data = tmp_path / "data"
        for folder in (data, tmp_path / "project"):
            folder.mkdir()
        save_picture(data / "a.png")
        monkeypatch.chdir(tmp_path / "project")
        Path("edgekit.toml").write_text('[preprocessing]\nkind = "image"\nscale = 1\n')
        assert message(data, PICTURE).endswith(
            "; --config edgekit.toml takes the one here, which lies neither in the data folder nor above it"
        )

    def test_sounds_with_a_declaration_for_pictures(self, tmp_path: Path) -> None:
        with wave.open(str(tmp_path / "a.wav"), "wb") as sound:
            sound.setparams((1, 2, 16000, 0, "NONE", ""))
        text = message(tmp_path, (ValueSpec("x", "float32", (1, 4)),), preprocessing=ImagePreprocessing(scale=1))
        assert text.startswith("DATA: how a sound becomes the model's input is not declared")
        assert "found: another kind" in text

    def test_a_model_with_two_inputs(self, tmp_path: Path) -> None:
        save_picture(tmp_path / "a.png")
        text = message(tmp_path, (*PICTURE, *VECTOR), preprocessing=ImagePreprocessing(scale=1))
        assert text == (
            "a folder of pictures needs a model with a single input\n"
            "found: image: float32 1×3×2×2; x: float32 1×3\n"
            "hint: save the samples as .npz files, with an array for each input"
        )

    def test_labels_by_folder(self, tmp_path: Path) -> None:
        for name in ("b", "a"):
            save_picture(tmp_path / name / "1.png")
        assert [(s.name, s.label) for s in open_samples(tmp_path, BYTES)] == [("a/1.png", 0), ("b/1.png", 1)]

    def test_a_picture_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_text("no picture")
        assert message(tmp_path, BYTES).startswith("a.png: the picture cannot be read: ")

    def test_a_truncated_picture(self, tmp_path: Path) -> None:
        save_picture(tmp_path / "a.png", size=(200, 200))
        content = (tmp_path / "a.png").read_bytes()
        (tmp_path / "a.png").write_bytes(content[: len(content) // 2])
        assert message(tmp_path, BYTES).startswith("a.png: the picture cannot be read: ")


def test_a_sample_that_has_gone_since(tmp_path: Path) -> None:
    save(tmp_path, *range(30))
    samples = open_samples(tmp_path, VECTOR)
    shutil.rmtree(tmp_path)
    with pytest.raises(RequestError, match="cannot be read"):  # so that no other form of the model is tried
        next(iter(samples))


def test_declarations_survive_their_record() -> None:
    for declared in (
        ImagePreprocessing(scale=1 / 255, mean=(1.0, 2.0, 3.0), size=(4, 5), layout="NHWC", color="BGR"),
        AudioPreprocessing(sample_rate=16000, length=5, channel="mix"),
    ):
        assert parse_preprocessing(declared.as_record()) == declared


def test_seeded_pictures_are_pixels(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("f (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) { y = Relu (x) }")
    model = Model(ir.load(path), path)
    declared = ImagePreprocessing(scale=1 / 255, mean=(0.25,), std=(0.5,)).resolve(model.inputs[0])
    first, second = (sample.feeds["x"] for sample in SeededSamples(model, 2, declared))
    pixels = (first.astype(np.float64) * 0.5 + 0.25) * 255
    np.testing.assert_allclose(pixels, np.rint(pixels), atol=1e-4)
    assert pixels.min() > -0.5
    assert pixels.max() < 255.5
    assert not np.array_equal(first, second)

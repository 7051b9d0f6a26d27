"""Labels of samples, and names of classes.

The samples of a data folder are labelled in one of these ways, or not at all:

- the ``.npz`` files hold a whole number or a name each, in an array ``label``;
- ``labels.csv`` in the folder has a line ``file,label`` for each sample; a first line ``file,label`` is ignored;
- ``labels.txt`` in the folder has a label a line, in the order of the samples' paths;
- the samples lie in sub-folders, one a class: named by the class's number, or by its name.

A label is the class's number from 0, in the order of the model's output, or its name where the names are known
(``edgekit package --labels``, and the bundle that it wrote). Sub-folders whose names are neither are numbered in the
order of their names.
"""

from __future__ import annotations

import csv
import math
import string
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from edgekit.errors import InputError
from edgekit.files.lines import lines_of, trimmed
from edgekit.files.missing import is_named
from edgekit.files.regular_file import read_text
from edgekit.model import Dim, ValueSpec

CSV_FILE = "labels.csv"
_OTHER_SEPARATORS = (";", "\t")
"""Characters that spreadsheets put between columns in place of a comma."""
LINES_FILE = "labels.txt"
LABEL_FILES = (CSV_FILE, LINES_FILE)
CONFIG_FILE = "edgekit.toml"
_NO_CLASS_NUMBER = "the label is not a class number"
_CLASS_NUMBER = "one whole number from 0"
_LABEL_BYTES = 64
_NAME_BYTES = 1024
"""Most bytes of a name: 256 characters of 4 bytes each, as NumPy stores them."""
_TABLE_RANK = 2
ROWS_HINT = (
    "each file in a folder is one sample; give a file of many samples itself, in place of its folder; classes of "
    "tokens or pixels need a function of your own (--metric), which reads them from elsewhere"
)
"""A hint for a file that holds an array of all labels, or of all samples."""
_DIGITS = 18
"""Most digits of the number of a class."""
NAMES_HINT = "`edgekit package` and `quantize` take the names of the classes, with --labels FILE"
"""A hint for unknown names: only commands with ``--labels`` and bundles packaged with it know names, others numbers."""


def read_class_names(file: Path) -> tuple[str, ...]:
    """The classes' names by index, one a line; an empty last line is ignored.

    Raises:
        InputError: The file cannot be read, or names are missing, hold a NUL, or are twice there.
    """
    names = _lines(file)
    first = {name: number for number, name in reversed(list(enumerate(names, 1)))}
    flawed = [number for number, name in enumerate(names, 1) if not name or "\0" in name or first[name] != number]
    if not names or flawed:
        raise InputError(
            "is not a list of class names",
            subject=f"{file}:{flawed[0]}" if flawed else file,
            expected="a class name a line, each once",
            found=repr(names[flawed[0] - 1]) if flawed else "an empty file",
        )
    return tuple(names)


def check_class_names(
    names: Sequence[str], file: Path, outputs: Sequence[ValueSpec], inputs: Sequence[ValueSpec] = ()
) -> None:
    """Checks that the number of names fits the model's outputs.

    Only classifiers are checked: models whose floating-point outputs all hold numbers along a single axis, after a free
    first axis, if any, that counts samples as that of the inputs does. The number of a detector's names, say, need not
    be the length of an output.

    Raises:
        InputError: No output has as many entries as there are names.
    """
    scores = [output for output in outputs if output.dtype.startswith("float")]
    rows = _free_rows(inputs)
    sizes = {output.name: length_of_vector(output, rows) for output in scores}
    if not sizes or None in sizes.values() or len(names) in sizes.values():
        return
    raise InputError(
        "the number of names is not the number of classes",
        subject=file,
        expected="; ".join(f"{size} names, the entries of output {name!r}" for name, size in sizes.items()),
        found=f"{len(names)} names",
        hint="write one name on each line, for every class, in the order of the model's output",
    )


def check_order(names: Sequence[str], file: Path, stated: Sequence[str], *, in_graph: bool) -> str | None:
    """Compares the names of classes in a user's list with those that the model's file states.

    Args:
        names: The names in the user's list.
        file: The list.
        stated: The names in the model's file; empty if it states none.
        in_graph: Whether the graph itself gives the classes, rather than the metadata, which may be wrong.

    Returns:
        A warning that the list has other names than the model's file, or another order than the metadata; None if the
        list agrees with the model's file.

    Raises:
        InputError: The list gives a name to another class than the graph does.
    """
    if not stated or len(stated) != len(names):
        return None
    places = {name.casefold(): place for place, name in enumerate(stated)}
    if any(places.get(name.casefold(), place) != place for place, name in enumerate(names)):
        if in_graph:
            raise InputError(
                "the names of the classes are in another order than the model's",
                subject=file,
                expected=f"{_some(stated)}, as the model's file states them",
                found=_some(names),
                hint="write the names in that order, or leave --labels out: the file's own names are taken then",
            )
        return (
            f"{file} has the names of the classes in another order than the model's file states: {_some(names)}, "
            f"and not {_some(stated)}; the order of {file} is taken"
        )
    renamed = [name for name in stated if not name.lstrip("-").isdecimal() and name.casefold() not in _folded(names)]
    if not renamed:
        return None
    return (
        f"{file} has other names of the classes than the model's file states: {_some(names)}, and not {_some(stated)}; "
        "check that their order is that of the file"
    )


def _folded(names: Iterable[str]) -> set[str]:
    return {name.casefold() for name in names}


def _free_rows(inputs: Sequence[ValueSpec]) -> set[Dim]:
    """The first dimension of the inputs if it is a free number of samples; else an empty set.

    All inputs have to share the dimension. It has a name, or it has none and all inputs have two dimensions.
    """
    first: set[Dim] = {spec.shape[0] if spec.shape else 1 for spec in inputs}
    tables = all(len(spec.shape or ()) == _TABLE_RANK for spec in inputs)
    return (
        first if len(first) == 1 and all(isinstance(dim, str) or (dim is None and tables) for dim in first) else set()
    )


def length_of_vector(output: ValueSpec, rows: Collection[Dim] = ()) -> int | None:
    """The size of the only axis that is longer than 1, or None if there are several such axes or sizes are not known.

    A first axis that is one of ``rows``, a free number of samples, does not count; if all axes have size 1, it is 1.
    """
    shape = output.shape or ()
    shape = shape[1:] if len(shape) > 1 and shape[0] in rows else shape
    sizes = [size for size in shape if isinstance(size, int)]
    if output.shape is None or len(sizes) < len(shape) or math.prod(sizes) != max(sizes, default=1):
        return None
    return math.prod(sizes)


def check_label(label: np.ndarray, subject: object, class_names: Sequence[str] = ()) -> int:
    """The label that an array holds, as a number.

    Args:
        label: The array.
        subject: What errors call the array.
        class_names: The names of the classes by index; empty if they are not known.

    Raises:
        InputError: The array holds neither a single whole number from 0 nor the name of a class.
    """
    require_class_number(label.shape, label.dtype, subject)
    if label.dtype.kind == "U":
        return _class_number(str(label.item()), class_names, subject)
    if label.dtype.kind not in "iu" or label.item() < 0:
        raise InputError(_NO_CLASS_NUMBER, subject=subject, expected=_CLASS_NUMBER, found=repr(label.item()))
    return int(label.item())


def require_class_number(shape: tuple[int, ...], dtype: np.dtype, subject: object) -> None:
    """Checks by its header that an array holds a single value, no longer in bytes than a number or a name may be.

    Raises:
        InputError: The array holds several values, or one that is longer.
    """
    if math.prod(shape) != 1 or dtype.itemsize > (_NAME_BYTES if dtype.kind == "U" else _LABEL_BYTES):
        raise InputError(
            _NO_CLASS_NUMBER,
            subject=subject,
            expected=_CLASS_NUMBER,
            found=f"{dtype} of shape {shape}",
            hint=ROWS_HINT if shape and shape[0] > 1 else None,
        )


def find_labels(folder: Path, files: Sequence[Path], class_names: Sequence[str]) -> dict[Path, int] | None:
    """The label of every file, as sub-folders or a list in the folder tell it, or None if nothing there tells labels.

    Raises:
        InputError: There are several ways of labelling, or a label is missing, unknown or not a label.
    """
    in_folders = [file for file in files if file.parent != folder]
    ways = [name for name in LABEL_FILES if is_named(folder / name)] + ["sub-folders"] * bool(in_folders)
    if len(ways) > 1:
        raise InputError(
            "the samples are labelled twice", subject=folder, expected="one way of labelling", found=" and ".join(ways)
        )
    if is_named(folder / CSV_FILE):
        return _from_csv(folder, files, class_names)
    if is_named(folder / LINES_FILE):
        return _from_lines(folder / LINES_FILE, files, class_names)
    if not in_folders:
        return None
    if len(in_folders) < len(files):
        outside = next(file for file in files if file.parent == folder)
        raise InputError(
            "the data folder mixes samples and folders of samples",
            subject=folder,
            expected="either of them",
            found=f"{outside.name}, and {in_folders[0].relative_to(folder)}",
        )
    return _from_folders(folder, files, class_names)


def _from_csv(folder: Path, files: Sequence[Path], class_names: Sequence[str]) -> dict[Path, int]:
    source = folder / CSV_FILE
    known = {file.relative_to(folder).as_posix(): file for file in files}
    labels: dict[Path, int] = {}
    for number, row in _rows(source):
        where = f"{source}:{number}"
        if row == ["file", "label"] and number == 1:
            continue
        if len(row) != 2 or row[0] not in known:
            raise InputError(
                "the line does not label a sample",
                subject=where,
                expected="FILE,LABEL" if len(row) != 2 else "FILE,LABEL, with a FILE of this folder",
                found=",".join(row) or "nothing",
                hint=_file_hint(row, known),
            )
        if known[row[0]] in labels:
            raise InputError("the sample has two labels", subject=where, found=row[0])
        labels[known[row[0]]] = _class_number(row[1], class_names, where)
    missing = [name for name, file in known.items() if file not in labels]
    if missing:
        raise InputError(
            "samples have no label",
            subject=source,
            expected=f"a line for each of {len(known)} samples",
            found=_some(missing),
        )
    return labels


def _file_hint(row: Sequence[str], known: Collection[str]) -> str | None:
    """A hint with the file that a line means if it leaves out the file's suffix or folder; None if that is unclear."""
    file, *label = row or [""]
    if not label and any(separator in file for separator in _OTHER_SEPARATORS):
        return "separate FILE and LABEL with a comma"
    meant = [name for name in known if name.rpartition(".")[0] == file or name.rpartition("/")[2] == file]
    if len(label) != 1 or len(meant) != 1:
        return None
    return f"write FILE with its suffix, from the data folder on: {meant[0]},{label[0]}"


def _rows(source: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV file with their numbers from 1."""
    try:
        yield from enumerate(csv.reader(_lines(source)), 1)
    except csv.Error as error:
        raise InputError(f"cannot be read: {error}", subject=source, expected="lines FILE,LABEL") from error


def _from_lines(source: Path, files: Sequence[Path], class_names: Sequence[str]) -> dict[Path, int]:
    lines = _lines(source)
    if len(lines) != len(files):
        raise InputError(
            "the number of labels is not the number of samples",
            subject=source,
            expected=f"{len(files)} lines",
            found=f"{len(lines)} lines",
            hint=f"if the lines are names of classes, not labels of samples: {NAMES_HINT}",
        )
    return {
        file: _class_number(line, class_names, f"{source}:{number}")
        for number, (file, line) in enumerate(zip(files, lines, strict=True), 1)
    }


def numbered_folders(folder: Path, files: Sequence[Path], class_names: Sequence[str]) -> str | None:
    """In words, how sub-folders were numbered by the order of their names.

    None if the names of the classes are known, or the sub-folders are named by numbers or are fewer than two.

    Args:
        folder: The data folder.
        files: The samples.
        class_names: Names of the classes by index.
    """
    names = sorted({file.parent.name for file in files if file.parent != folder})
    if class_names or len(names) < 2 or all(name.isdecimal() for name in names):
        return None
    return f"sub-folders were numbered by name, {_some(f'{name} {number}' for number, name in enumerate(names))}"


def _from_folders(folder: Path, files: Sequence[Path], class_names: Sequence[str]) -> dict[Path, int]:
    names = sorted({file.parent.name for file in files})
    if all(name.isdecimal() or name in class_names for name in names):
        numbers = {name: _class_number(name, class_names, folder / name) for name in names}
    elif class_names:
        unknown = [name for name in names if name not in class_names]
        raise InputError(
            "folders are named as no class", subject=folder, expected=_some(class_names), found=_some(unknown)
        )
    elif len(names) == 1:
        raise InputError(
            "the samples lie in a single sub-folder",
            subject=folder,
            expected="samples in the folder itself, or a sub-folder for each class",
            found=names[0],
            hint=f"give {folder / names[0]} as the data folder where it is not a class",
        )
    else:
        numbers = {name: number for number, name in enumerate(names)}
    return {file: numbers[file.parent.name] for file in files}


def _class_number(text: str, class_names: Sequence[str], subject: object) -> int:
    text = text.strip()
    if text in class_names:
        return class_names.index(text)
    if text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    raise InputError(
        "the label is not a class",
        subject=subject,
        expected=f"a number from 0, or one of {_some(class_names)}" if class_names else "a number from 0",
        found=f"{text[:80]!r}",
        hint=None if class_names else f"write the number of the class; {NAMES_HINT}",
    )


def _lines(file: Path) -> list[str]:
    return [trimmed(line) for line in lines_of(read_text(file).rstrip(string.whitespace))]


def _some(names: Iterable[str], most: int = 5) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

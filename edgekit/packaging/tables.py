"""Tables in place of folders of samples: each becomes a temporary folder with a file for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from edgekit.data.labels import read_class_names
from edgekit.data.sample_lists import SampleList, is_line_file, list_as_folder, read_lines
from edgekit.data.table_samples import TableInputs, rows_as_folder
from edgekit.data.tables import Table, is_table_file, read_table
from edgekit.errors import InputError
from edgekit.stages.load import Load


@contextmanager
def sample_folders(
    model: Path,
    given: Sequence[Path | None],
    in_memory: Mapping[Path, Table | SampleList],
    label: str | None,
    labels: Path | None,
    warn: Callable[[str], None],
) -> Iterator[tuple[Path | None, ...]]:
    """The samples as folders: tables and lists are written as folders, and folders stay as they are.

    Args:
        model: The ONNX file, whose inputs take the columns.
        given: Folders, files of tables or lists, and the paths that stand for tables and lists in memory.
        in_memory: Tables and lists of samples by the path that stands for each.
        label: The column of the tables that holds the class.
        labels: File with a class name a line; labels may be written as these names.
        warn: Called with a warning about columns that are not used, or about digits that are lost.

    Raises:
        InputError: A table does not fit the model, or a column is named and there is no table.
    """
    tables = [None if one is None else _opened(one, in_memory) for one in given]
    in_rows = [one for one in tables if isinstance(one, Table | SampleList)]
    if label is not None and not in_rows:
        raise InputError(
            "names a column, and there is no table",
            subject=f"--label {label}",
            expected="--data FILE, a table",
            hint="samples in a folder have labels of their own: an array 'label', labels.csv, or sub-folders",
        )
    with ExitStack() as folders:
        if not in_rows:
            yield tuple(one if isinstance(one, Path) else None for one in tables)
            return
        loaded = Load({name for one in in_rows for name in one.columns})(model).model
        classes = loaded.class_names if labels is None else read_class_names(labels)
        takes = TableInputs(loaded.inputs, loaded.nan_inputs, classes, loaded.metadata)
        yield tuple(
            folders.enter_context(rows_as_folder(one, takes, label, warn))
            if isinstance(one, Table)
            else folders.enter_context(list_as_folder(one, takes.inputs, label))
            if isinstance(one, SampleList)
            else one
            for one in tables
        )


def _opened(given: Path, in_memory: Mapping[Path, Table | SampleList]) -> Path | Table | SampleList:
    if given in in_memory:
        return in_memory[given]
    if is_line_file(given):
        return read_lines(given)
    return read_table(given) if is_table_file(given) else given

"""Turns tables of samples for a bundle into a temporary folder with one file per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgekit.bundle import Bundle
from edgekit.data.sample_lists import SampleList, is_line_file, list_as_folder, read_lines
from edgekit.data.table_samples import rows_as_folder
from edgekit.data.tables import Table, is_table_file, read_table
from edgekit.errors import InputError


@contextmanager
def sample_folder(
    bundle: Bundle, data: Path | None, table: Table | SampleList | None, label: str | None, warn: Callable[[str], None]
) -> Iterator[Path | None]:
    """The samples for a bundle as a folder: a table is written as one, a folder is returned unchanged.

    Args:
        bundle: The bundle whose inputs take the columns.
        data: A folder, or a file that holds a table.
        table: A table or a list of samples in memory, which is used in place of ``data``.
        label: The column of the table that holds the class.
        warn: Called for columns that are not used, and for digits that are lost.

    Raises:
        InputError: The table does not fit the bundle, or ``label`` is given and there is no table.
    """
    if table is None and data is not None and is_table_file(data):
        table = read_lines(data) if is_line_file(data) else read_table(data)
    if isinstance(table, SampleList):
        with list_as_folder(table, bundle.takes.inputs, label) as folder:
            yield folder
        return
    if table is not None:
        with rows_as_folder(table, bundle.takes, label, warn) as folder:
            yield folder
        return
    if label is not None:
        raise InputError(
            "names a column, and there is no table", subject=f"--label {label}", expected="--data FILE, a table"
        )
    yield data

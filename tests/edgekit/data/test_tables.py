"""Tables of samples: what each reader makes of a file or an object, and what is refused."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.data import tables
from edgekit.data.samples import open_samples
from edgekit.data.table_samples import TableInputs, feeds_of, rows_as_folder
from edgekit.data.tables import Table, read_table, table_of
from edgekit.errors import InputError
from edgekit.model import ValueSpec

COLUMNS = (
    ValueSpec("age", "float32", (None, 1)),
    ValueSpec("visits", "int64", (None, 1)),
    ValueSpec("active", "bool", (None, 1)),
    ValueSpec("city", "str", (None, 1)),
)
MATRIX = (ValueSpec("X", "float32", ("N", 3)),)
CSV = 'age,visits,active,city,target\n41.5,3,True,Köln,stay\n,12,False,"Bonn, West",churn\n'


class Frame:
    """What a DataFrame is to its readers: columns, their types, and each column by its name."""

    def __init__(self, columns: Mapping[Any, Any]) -> None:
        self.columns = list(columns)
        self.dtypes = [np.asarray(cells).dtype for cells in columns.values()]
        self._columns = columns

    def __getitem__(self, name: Any) -> Any:
        return self._columns[name]


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    file = tmp_path / "churn.csv"
    file.write_text(CSV, encoding="utf-8")
    return file


def samples(
    table: Table, takes: TableInputs, label: str | None = None
) -> Iterator[tuple[dict[str, np.ndarray], int | None]]:
    """What open_samples reads of the rows."""
    with rows_as_folder(table, takes, label, lambda _: None) as folder:
        for sample in open_samples(folder, takes.inputs, nan_inputs=takes.nan_inputs):
            yield sample.feeds, sample.label


def refusal(table: Table, takes: TableInputs, label: str | None = None) -> str:
    with pytest.raises(InputError) as error:
        list(samples(table, takes, label))
    return str(error.value)


def text_of(tmp_path: Path, text: str) -> Table:
    file = tmp_path / "t.csv"
    file.write_text(text, encoding="utf-8")
    return read_table(file)


def test_each_column_of_a_csv_file_becomes_the_input_of_its_name(csv_file: Path) -> None:
    takes = TableInputs(COLUMNS, frozenset({"age"}), ("churn", "stay"))
    (first, first_label), (second, second_label) = samples(read_table(csv_file), takes, "target")
    assert (first_label, second_label) == (1, 0)
    assert {name: (array.dtype.kind, array.tolist()) for name, array in first.items()} == {
        "age": ("f", [[41.5]]),
        "visits": ("i", [[3]]),
        "active": ("b", [[True]]),
        "city": ("U", [["Köln"]]),
    }
    assert np.isnan(second["age"]).tolist() == [[True]]
    assert second["city"].tolist() == [["Bonn, West"]]
    assert {name: array.dtype for name, array in second.items() if name != "city"} == {
        "age": np.float32,
        "visits": np.int64,
        "active": np.bool_,
    }


def test_columns_that_no_input_takes_are_told(csv_file: Path) -> None:
    told: list[str] = []
    takes = TableInputs(COLUMNS, frozenset({"age"}))
    with rows_as_folder(read_table(csv_file), takes, None, told.append):
        pass
    assert told == [
        f"{csv_file}: the model has no input for 'target'; not used; --label COLUMN names one that holds the class"
    ]


def test_a_matrix_takes_the_columns_in_their_order_and_without_the_label(tmp_path: Path) -> None:
    table = text_of(tmp_path, "b,label,a,c\n1,0,2,3\n4,1,5,6\n")
    assert [(feeds["X"].tolist(), label) for feeds, label in samples(table, TableInputs(MATRIX))] == [
        ([[1, 2, 3]], 0),
        ([[4, 5, 6]], 1),
    ]


def test_a_matrix_takes_the_columns_that_the_models_metadata_name(tmp_path: Path) -> None:
    table = text_of(tmp_path, "id,c,b,a\n900,3,2,1\n")
    takes = TableInputs(MATRIX, metadata={"feature_names": '["a", "b", "c"]'})
    assert [feeds["X"].tolist() for feeds, _ in samples(table, takes)] == [[[1, 2, 3]]]
    lacking = TableInputs(MATRIX, metadata={"feature_names": "a, b, d"})
    assert refusal(table, lacking) == (
        f"{tmp_path}/t.csv: the table lacks columns that the model's metadata name\n"
        "expected: 'd', of feature_names\nfound: 'id', 'c', 'b', 'a'"
    )


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators(tmp_path: Path, separator: str) -> None:
    table = text_of(tmp_path, "a,b,c\n1,2,3\n".replace(",", separator))
    assert [feeds["X"].tolist() for feeds, _ in samples(table, TableInputs(MATRIX))] == [[[1, 2, 3]]]


def test_names_between_tabs_may_hold_commas(tmp_path: Path) -> None:
    file = tmp_path / "t.tsv"
    file.write_text("size, mm\tweight\n1\t2\n")
    assert read_table(file).columns == {"size, mm": ["1"], "weight": ["2"]}


@pytest.mark.parametrize(
    ("cells", "found", "hint"),
    [
        ("1,abc,3", "'abc'", None),
        ("1,,3", "a missing value", "fill it in as the training did"),
        ("1,NaN,3", "a missing value", "fill it in as the training did"),
        ('1,"2,5",3', "'2,5'", "decimal commas are not read: write 3.5 for 3,5"),
        ("1,1e39,3", "1e+39", "float32 ends at 3.40282e+38"),
    ],
)
def test_a_cell_that_is_no_number(tmp_path: Path, cells: str, found: str, hint: str | None) -> None:
    text = refusal(text_of(tmp_path, f"a,b,c\n1,2,3\n\n{cells}\n"), TableInputs(MATRIX))
    assert text.startswith(
        f"{tmp_path}/t.csv:4: the cell in column 'b' does not fit the input\nexpected: X: float32 N×3\nfound: {found}"
    )
    assert (f"hint: {hint}" in text) if hint else ("hint" not in text)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("number", ["1" + 309 * "0", "-1e400", 5000 * "1"], ids=["310 digits", "1e400", "5000 digits"])
def test_a_number_beyond_what_doubles_hold(tmp_path: Path, number: str, dtype: str) -> None:
    """IEEE 754: the greatest double is 1.797e308."""
    takes = TableInputs((ValueSpec("n", dtype, (None, 1)),))
    text = refusal(text_of(tmp_path, f"n,m\n1,0\n{number},0\n"), takes)
    assert text.startswith(f"{tmp_path}/t.csv:3: the cell in column 'n' does not fit the input\n")
    assert text.endswith("hint: numbers end at 1.79769e+308")


def test_a_frame_with_a_number_beyond_what_doubles_hold() -> None:
    table = table_of(Frame({"n": np.array([1, 10**309], object)}), "frame")
    assert table is not None
    assert refusal(table, TableInputs((ValueSpec("n", "float32", (None, 1)),))) == (
        "frame, row 1: the cell in column 'n' does not fit the input\nexpected: n: float32 ?×1\n"
        "found: a whole number of more than 308 digits\nhint: numbers end at 1.79769e+308"
    )


@pytest.mark.parametrize("text", ["2.5", "9223372036854775808", "inf"])
def test_an_integer_is_never_changed(tmp_path: Path, text: str) -> None:
    takes = TableInputs((ValueSpec("n", "int64", (None, 1)),))
    assert "hint: int64 holds whole numbers from -9223372036854775808 to 9223372036854775807" in refusal(
        text_of(tmp_path, f"n,m\n{text},0\n"), takes
    )
    exact = text_of(tmp_path, "n,m\n9007199254740993,0\n3.0,0\n")  # 2**53 + 1, which no double holds
    assert feeds_of(exact, takes)["n"].tolist() == [[9007199254740993], [3]]


def test_whole_numbers_that_float32_rounds_are_told(tmp_path: Path) -> None:
    told: list[str] = []
    table = text_of(tmp_path, "a,b,c\n1700000001,0.1,16777217\n16777216,3,16777218\n")
    with rows_as_folder(table, TableInputs(MATRIX), None, told.append):
        pass
    assert told == [
        f"{tmp_path}/t.csv: 1 whole number in column {name!r} becomes the next that input 'X' holds, {given} is "
        f"{taken}: float32 holds whole numbers up to 16777216"
        for name, given, taken in (("a", 1700000001, 1700000000), ("c", 16777217, 16777216))
    ]


def test_a_missing_text_is_refused(csv_file: Path) -> None:
    csv_file.write_text(CSV.replace('"Bonn, West"', ""), encoding="utf-8")
    assert refusal(read_table(csv_file), TableInputs(COLUMNS, frozenset({"age"}))) == (
        f"{csv_file}:3: the cell in column 'city' does not fit the input\n"
        "expected: city: str ?×1\n"
        "found: a missing value\n"
        "hint: fill in the text that the training used for missing values"
    )


def test_a_column_that_is_not_there(csv_file: Path) -> None:
    takes = TableInputs((*COLUMNS, ValueSpec("plan", "str", (None, 1))))
    assert refusal(read_table(csv_file), takes, "churned") == (
        f"--label churned: the table has no such column\nexpected: one of age, visits, active, city, target\n"
        f"found: {csv_file}: 'age', 'visits', 'active', 'city', 'target'"
    )
    assert refusal(read_table(csv_file), TableInputs((ValueSpec("plan", "str", (None, 1)), *COLUMNS))).startswith(
        f"{csv_file}: there is no column 'plan'\nexpected: a column for each of the inputs 'plan', 'age', 'visits'"
    )


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        (",a,b,c", "hint: the first column has no name: pandas wrote the rows' numbers there; write with to_csv(index"),
        ("a,b,c,kWh", "hint: --label COLUMN names the one that holds the class; leave out what is not a feature"),
    ],
)
def test_a_column_too_many(tmp_path: Path, header: str, hint: str) -> None:
    text = refusal(text_of(tmp_path, f"{header}\n1,2,3,4\n"), TableInputs(MATRIX))
    assert "expected: 3 columns for X: float32 N×3\nfound: 4: " in text
    assert hint in text


def test_a_number_to_predict_is_no_label(tmp_path: Path) -> None:
    table = table_of(Frame({"a": [1.0], "b": [2.0], "c": [3.0], "kWh": [17.25]}), "frame")
    assert table is not None
    assert refusal(table, TableInputs(MATRIX), "kWh") == (
        "frame, row 0, column 'kWh': the label is not a class\nexpected: a number from 0, or a class's name\n"
        "found: np.float64(17.25)\nhint: a column of numbers to predict is not a label: leave it out of the table"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the table is empty"),
        ("a,b,c\n", "the table holds no samples"),
        ("a,b,a\n1,2,3\n", "columns have the same name\nexpected: each name once\nfound: 'a'"),
        ("a,b,c\n1,2\n", "the line does not have as many cells as the first\nexpected: 3 cells, separated by ','"),
        ('a,b,c\n1,"2,3\n', "the table cannot be read: unexpected end of data"),
    ],
)
def test_a_damaged_table(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        text_of(tmp_path, text)
    assert message in str(error.value)


def test_a_table_in_latin_1(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("city\nKöln\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"cannot be read: it is not in UTF-8\n.*\nfound: byte 0xf6 in line 2"):
        read_table(tmp_path / "t.csv")


def test_more_rows_than_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    with pytest.raises(InputError, match=r"the table is too long\nexpected: 2 rows at most\nfound: 3"):
        table_of(np.zeros((3, 3)), "array")


def test_arrays_of_all_samples(tmp_path: Path) -> None:
    rows = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "X.npy", rows)
    np.savez(tmp_path / "set.npz", X=rows, y=[1, 0])
    for table, label in ((read_table(tmp_path / "X.npy"), None), (read_table(tmp_path / "set.npz"), "y")):
        found = list(samples(table, TableInputs(MATRIX), label))
        assert [feeds["X"].tolist() for feeds, _ in found] == [[[0, 1, 2]], [[3, 4, 5]]]
        assert [number for _, number in found] == ([None, None] if label is None else [1, 0])


def test_several_inputs_of_several_ranks_from_one_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", window=np.ones((2, 4, 1), np.float32), store=np.array([7, 8]))
    takes = TableInputs((ValueSpec("window", "float32", ("N", 4, 1)), ValueSpec("store", "int64", ("N", 1))))
    (first, _), (second, _) = samples(read_table(tmp_path / "set.npz"), takes)
    assert first["window"].shape == (1, 4, 1)
    assert (first["store"].tolist(), second["store"].tolist()) == ([[7]], [[8]])


def test_a_pair_of_samples_and_labels() -> None:
    table = table_of((np.zeros((2, 3)), ["stay", "churn"]), "pair")
    assert table is not None
    assert [label for _, label in samples(table, TableInputs(MATRIX, class_names=("churn", "stay")))] == [1, 0]
    with pytest.raises(
        InputError, match=r"is not a pair of samples and labels\nexpected: \(X, y\), with a label for each"
    ):
        table_of((np.zeros((2, 3)), [1, 0, 1]), "pair")


def test_labels_may_be_one_column() -> None:
    """As a DataFrame of one column becomes an array."""
    table = table_of((np.zeros((3, 2)), np.array([[2], [0], [1]])), "data")
    assert table is not None
    assert table.labels is not None
    assert table.labels.tolist() == [2, 0, 1]


def test_columns_of_a_frame_keep_what_is_missing() -> None:
    frame = Frame({"age": np.array([None, 30], object), "visits": [1.0, 2.0], "active": [1, 0], "city": ["a", "b"]})
    table = table_of(frame, "frame")
    assert table is not None
    assert np.isnan(feeds_of(table, TableInputs(COLUMNS, frozenset({"age"})))["age"]).tolist() == [[True], [False]]
    numbers_as_texts = table_of(Frame({"a": ["1"], "b": ["2"], "c": ["3"]}), "frame")
    assert numbers_as_texts is not None
    assert refusal(numbers_as_texts, TableInputs(MATRIX)).endswith(", for example with pandas.to_numeric(column)")
    times = table_of(Frame({"n": np.array(["2026-01-01"], "datetime64[s]")}), "frame")
    assert times is not None
    assert "found: datetime64[s]\nhint: give numbers" in refusal(
        times, TableInputs((ValueSpec("n", "float32", ("N", 1)),))
    )


def test_pandas_and_parquet(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [41.5, None], "visits": pandas.array([3, 12], "Int64"), "active": [True, False]})
    frame["city"] = pandas.Categorical(["Köln", "Bonn"])
    table = table_of(frame, "frame")
    assert table is not None
    feeds = feeds_of(table, TableInputs(COLUMNS, frozenset({"age"})))
    assert feeds["city"].tolist() == [["Köln"], ["Bonn"]]
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "t.parquet")
    read = feeds_of(read_table(tmp_path / "t.parquet"), TableInputs(COLUMNS, frozenset({"age"})))
    for name, array in feeds.items():
        np.testing.assert_array_equal(read[name], array)


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    (tmp_path / "t.parquet").touch()
    with pytest.raises(InputError, match=r"reading Parquet needs the package pyarrow\nhint: pip install pyarrow, or"):
        read_table(tmp_path / "t.parquet")


def test_inputs_that_are_called_as_arguments_of_numpy() -> None:
    takes = TableInputs([ValueSpec("file", "float32", (None, 1)), ValueSpec("allow_pickle", "float32", (None, 1))])
    table = table_of({"file": np.array([1.5, 2.5]), "allow_pickle": np.array([3.0, 4.0])}, "data")
    assert table is not None
    (first, _), (second, _) = samples(table, takes)
    assert (first["file"].item(), second["allow_pickle"].item()) == (1.5, 4.0)


def test_errors_about_what_is_written_for_a_row_name_the_row(csv_file: Path) -> None:
    """A file of its own is written for each row; no one who gave a table knows it."""
    table = read_table(csv_file)
    takes = TableInputs(COLUMNS, nan_inputs=frozenset({"age"}))
    for file, subject in ((None, str(csv_file)), ("0.npz", f"{csv_file}:2"), ("1.npz", f"{csv_file}:3")):
        with pytest.raises(InputError) as caught, rows_as_folder(table, takes, None, lambda _: None) as folder:
            raise InputError("does not do", subject=folder if file is None else folder / file)
        assert caught.value.subject == subject

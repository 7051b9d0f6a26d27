"""Sets fields of a bundle's documents to wrong values: each is an error about the document, or does no harm."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import honest
import pytest

from edgekit import api
from edgekit.errors import EdgeKitError, InternalError

DELETED = object()
STRANGE: tuple[Any, ...] = (
    DELETED,
    None,
    True,
    0,
    -1,
    2**62,
    10**30,
    1e308,
    -1e308,
    1e-320,
    0.5,
    2.0,
    "",
    "x",
    "inf",
    "nan",
    [],
    {},
    [1],
    ["a", "a"],
    {"a": 1},
    [[]],
    [None],
    [{}],
)
BUDGET = """\
[budget]
size = "9 MB"
sqnr_db = 1
accuracy_drop = "1%"
accuracy = "1%"
accelerator_share = "10%"
partitions = 9
size_growth = 0.1
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quantized bundle, whose manifest has most of the fields that a manifest can have."""
    folder = tmp_path_factory.mktemp("honest")
    model = honest.MODELS["net"]()
    honest.write_model("net", folder / "m.onnx", model)
    honest.write_samples(model, folder / "data", 12)
    api.package(
        folder / "m.onnx", "onnxruntime", data=folder / "data", quantize="int8", accept=True, output=folder / "bundle"
    )
    return folder / "bundle"


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*above, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*above, key))


def changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(document)
    container = document
    for key in place[:-1]:
        container = container[key]
    if value is DELETED:
        del container[place[-1]]
    else:
        container[place[-1]] = value
    return document


def survives(written: Path, folder: Path, file: str, share: float) -> None:
    bundle = folder / "bundle"
    shutil.copytree(written, bundle)
    (folder / "edgekit.toml").write_text(BUDGET)
    document = json.loads((written / file).read_text())
    rng = random.Random(file)
    cases = [(place, value) for place in places(document) for value in STRANGE if rng.random() < share]
    refused = 0
    for place, value in cases:
        (bundle / file).write_text(json.dumps(changed(document, place, value)))
        try:
            api.report(bundle, folder / "report.html")
            api.report(written, folder / "report.html", against=bundle)
            json.dumps(api.gate(bundle, config=folder / "edgekit.toml").as_record(), allow_nan=False)
        except InternalError as error:
            pytest.fail(f"{place} = {value!r}: {error}")
        except EdgeKitError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{place} = {value!r}: {type(error).__name__}: {error}")
    assert 0 < refused < len(cases)


@pytest.mark.parametrize("file", ["manifest.json", "measurements.json"])
def test_a_field_that_is_missing_or_of_another_type_is_an_error_or_does_no_harm(
    written: Path, tmp_path: Path, file: str
) -> None:
    survives(written, tmp_path, file, 0.03)


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (lambda graph: graph["nodes"][1].update(inputs=[10_000]), "there is no value 10000"),
        (lambda graph: graph.update(outputs=[10_000]), "there is no value 10000"),
        (lambda graph: graph["nodes"][0].update(within=0), "nodes[0].within: 0 is not a node before it"),
    ],
)
def test_a_graph_that_points_nowhere_is_refused(written: Path, tmp_path: Path, change: Any, flaw: str) -> None:
    from edgekit.bundle import file_records

    bundle = tmp_path / "bundle"
    shutil.copytree(written, bundle)
    graph = json.loads((bundle / "graph.json").read_text())
    change(graph)
    (bundle / "graph.json").write_text(json.dumps(graph))
    manifest = json.loads((bundle / "manifest.json").read_text())
    records = {record["path"]: record for record in file_records(bundle)}
    manifest["files"] = [records[record["path"]] for record in manifest["files"]]
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(EdgeKitError, match=r"graph\.json: cannot be read") as raised:
        api.report(bundle, tmp_path / "report.html")
    assert flaw in str(raised.value)

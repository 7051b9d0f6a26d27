"""Nothing is written into a bundle: a file that its manifest does not list makes it another bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit import api
from edgekit.bundle import check_integrity, read_bundle
from edgekit.errors import InputError
from edgekit.files.atomic import atomic_directory, atomic_file


def test_no_output_goes_into_a_bundle(bundle: Path, digits: Path) -> None:
    writers: list[Callable[[Path], object]] = [
        lambda place: api.report(bundle, place),
        lambda place: api.fix(digits, place, dims={"batch": 1}),
        lambda place: api.extract(digits, place, outputs="logits"),
        lambda place: api.quantize(digits, place, dims={"batch": 1}, scheme="int8-weights"),
        lambda place: api.package(digits, "onnxruntime", place, dims={"batch": 1}),
    ]
    for name in ("report.html", "manifest.json", "golden/0/out", "new/folder/out"):
        for write in writers:
            with pytest.raises(InputError) as refused:
                write(bundle / name)
            assert str(refused.value) == (
                f"{bundle / name}: lies in a bundle, which holds the files of its manifest and no others\n"
                "expected: a place outside of bundles\n"
                f"found: the bundle {bundle}\n"
                "hint: choose another place; `edgekit package -o` makes a bundle anew"
            )
    check_integrity(read_bundle(bundle))


def test_a_link_into_a_bundle_leads_there(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(bundle)
    with pytest.raises(InputError, match="lies in a bundle"), atomic_directory(tmp_path / "elsewhere" / "folder"):
        pass


@pytest.mark.parametrize("manifest", [{"name": "a web page"}, [], {"files": [], "schema_version": 1, "edgekit": "0.1"}])
def test_other_manifests_make_no_bundle(tmp_path: Path, manifest: object) -> None:
    """Pages of the web have a manifest.json, too."""
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with atomic_file(tmp_path / "folder" / "file") as draft:
        draft.touch()
    assert (tmp_path / "folder" / "file").is_file()

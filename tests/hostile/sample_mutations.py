"""Folders of samples that somebody broke: files of other kinds, archives that contradict themselves, strange arrays."""

from __future__ import annotations

import os
import random
import warnings
import zipfile
from pathlib import Path

import mutations


def mutate_samples(rng: random.Random, data: Path) -> str:
    """Changes a file of a folder of samples, or its labels; returns a description."""
    files = sorted(file for file in data.iterdir() if file.suffix != ".toml")
    file = rng.choice(files)
    change = rng.randrange(11)
    if change >= 9 and file.suffix == ".npz":
        return f"{file.name} {_write_strange_archive(rng, file)}"
    if change <= 3 or change >= 9:
        content = file.read_bytes()
        zipped = file.suffix == ".npz" and rng.random() < 0.5
        file.write_bytes(mutations.mutate_zip(content, rng) if zipped else mutations.mutate_bytes(content, rng))
        return f"{file.name} changed"
    if change == 4:
        other = rng.choice(
            (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", b"", b"GIF89a" + b"\xff" * 20)
        )
        file.write_bytes(other)
        return f"{file.name} is something else"
    if change == 5:
        file.unlink()
        special = rng.choice(("fifo", "zero", "loop", "folder"))
        if special == "fifo":
            os.mkfifo(file)
        elif special == "zero":
            file.symlink_to("/dev/zero")
        elif special == "loop":
            file.symlink_to(file.name)
        else:
            file.mkdir()
        return f"{file.name} is a {special}"
    if change == 6:
        labels = rng.choice(("0\n1\n2\n", "0\n1\n", "-1\nx\n\x00\n", "9" * 5000 + "\n1\n1\n", "0\n" * 100_000, "\xff"))
        (data / "labels.txt").write_text(labels, encoding="latin-1")
        return "labels.txt"
    if change == 7:
        name = rng.choice(mutations.TEXTS)
        rows = [f"{file.name},{rng.choice((0, 1, 2**70, -1, 'x'))}" for file in files] + [f"{name},1"]
        (data / "labels.csv").write_text("\n".join(rows[rng.randrange(2) :]), encoding="utf-8", errors="replace")
        return "labels.csv"
    if file.suffix == ".npz":
        _write_strange_arrays(rng, file)
    return f"{file.name} has strange arrays"


def _write_strange_archive(rng: random.Random, file: Path) -> str:
    """Replaces an archive of arrays by one whose members contradict their names or headers; returns a description."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    content = members[name]
    strange: dict[str, bytes] = {
        "pickle": b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(128)
        + b"\x80\x04.",
        "shape": content.replace(b"'shape': (", b"'shape': (9999999, ", 1),
        "negative": content.replace(b"'shape': (1", b"'shape': (-1", 1),
        "descr": content.replace(b"'<f4'", rng.choice((b"'<f8'", b"'<U9'", b"'|V4'", b"'<M8'", b"'<c8'")), 1),
        "version": content[:6] + bytes([rng.randrange(256), 0]) + content[8:],
        "header": content[:8] + b"\xff\xff" + content[10:],
        "code": content.replace(b"False", b"exit(", 1),
        "empty": b"",
        "zeros": content[:128] + bytes(20_000_000),
    }
    what = rng.choice((*strange, "many", "twice", "above", "no suffix"))
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # about duplicate names
        for other, bytes_of in members.items():
            archive.writestr(other, strange.get(what, bytes_of) if other == name else bytes_of)
        if what == "many":
            for number in range(20_000):
                archive.writestr(f"{number}.npy", b"")
        elif what == "twice":
            archive.writestr(name, content)
        elif what == "above":
            archive.writestr("../../x.npy", content)
        elif what == "no suffix":
            archive.writestr(rng.choice(mutations.TEXTS) or "x", content)
    return f"archive: {what}"


def _write_strange_arrays(rng: random.Random, file: Path) -> None:
    import numpy as np

    with np.load(file) as arrays:
        kept = {name: arrays[name] for name in arrays.files}
    name = rng.choice(sorted(kept))
    array = kept[name]
    kept[name] = rng.choice(
        (
            array * np.float32(np.nan),
            array * np.float32(np.inf),
            array.astype(np.float64),
            array.astype("U8"),
            array[..., :0],
            array.astype([("f", "f4")]),
            np.asfortranarray(array),
            array.astype(">f4"),
            array * np.float32(1e38),
        )
    )
    label = rng.choice((None, np.int64(3), np.int64(-1), np.zeros(50_000_000, np.int8), np.float32(1), np.array("x")))
    if label is not None:
        kept["label"] = label
    np.savez_compressed(file, **kept)

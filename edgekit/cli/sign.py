"""``edgekit sign``: signs a bundle with an OpenSSH key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgekit.cli._bundle_options import BundleArgument
from edgekit.cli._bundle_view import show_rows
from edgekit.cli._command import command
from edgekit.cli._console import Console

KeyOption = Annotated[
    Path,
    typer.Option(
        "--key",
        metavar="KEY",
        help="A private key of OpenSSH, or the public half of one that the SSH agent holds.",
        show_default=False,
    ),
]


@command("edgekit sign model-ios18 --key ~/.ssh/id_ed25519")
def sign(console: Console, bundle: BundleArgument, *, key: KeyOption) -> None:
    """Sign a bundle with an OpenSSH key.

    What is signed is the manifest, which holds the SHA-256 sum of every other file. `edgekit verify --signers FILE` and
    `edgekit gate --signers FILE` check it; so does `ssh-keygen -Y verify` with the namespace edgekit-bundle.
    """
    from edgekit import api
    from edgekit.signature import NAMESPACE

    place = api.sign(bundle, key)
    record = {"bundle": str(bundle), "signature": str(place), "namespace": NAMESPACE}
    console.show(record, lambda out: show_rows([("signature", str(place)), ("namespace", NAMESPACE)], out))

"""Signed bundles: OpenSSH signatures over the manifest, which holds the hash of every other file.

``ssh-keygen -Y sign`` makes them and ``ssh-keygen -Y verify`` checks them (PROTOCOL.sshsig of OpenSSH 8.0 and later);
EdgeKit has no cryptography of its own. The signature lies beside the manifest as ``manifest.json.sig``.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from shlex import quote

from edgekit.bundle import MANIFEST, SIGNATURE, Bundle, check_integrity
from edgekit.errors import InputError, RequirementError
from edgekit.files.atomic import atomic_file
from edgekit.files.regular_file import TEXT_BYTES, read_regular

NAMESPACE = "edgekit-bundle"
"""OpenSSH's namespace for the signature: a signature of something else by the same key is not valid for a bundle."""
SECONDS = 120.0
"""Time limit for ``ssh-keygen``: somebody may have to touch a hardware key."""


def sign(bundle: Bundle, key: Path) -> Path:
    """Signs the manifest after checking the bundle's files against it; returns the signature's file.

    Args:
        bundle: The bundle.
        key: A private key, or the public half of one that an SSH agent holds.

    Raises:
        RequirementError: The bundle's files are not as the manifest says.
        InputError: The key cannot be used, or OpenSSH is missing.
    """
    check_integrity(bundle)
    read_regular(key, TEXT_BYTES)
    manifest = read_regular(bundle.path / MANIFEST, TEXT_BYTES)
    answer = _ssh_keygen("sign", "-n", NAMESPACE, "-f", str(key), data=manifest)
    if answer.returncode != 0 or not answer.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        found, hint = _why_not_signed(answer.stderr.decode(errors="replace"), key)
        raise InputError(
            "cannot sign",
            subject=f"--key {key}",
            expected="a private key of OpenSSH, or the public half of one that the SSH agent holds",
            found=found,
            hint=hint,
        )
    place = bundle.path / SIGNATURE
    with atomic_file(place, chosen_with=None, part_of_bundle=True) as draft:
        draft.write_bytes(answer.stdout)
    return place


def check_signature(bundle: Bundle, signers: Path) -> str:
    """Checks who signed the manifest, and that the bundle's files are as it says.

    Args:
        bundle: The bundle.
        signers: Who may sign: OpenSSH's ``allowed_signers`` file, a line each with a name and a public key.

    Returns:
        The name of the signer.

    Raises:
        RequirementError: The bundle is not signed, not by one of these signers, or was changed since.
        InputError: The file of signers cannot be read, or OpenSSH is missing.
    """
    read_regular(signers, TEXT_BYTES)
    signature = bundle.path / SIGNATURE
    if not signature.is_file():
        raise RequirementError(
            "is not signed",
            subject=bundle.path,
            expected=SIGNATURE,
            hint=f"`edgekit sign {quote(str(bundle.path))} --key KEY` signs it",
        )
    read_regular(signature, TEXT_BYTES)
    manifest = read_regular(bundle.path / MANIFEST, TEXT_BYTES)
    found = _ssh_keygen("find-principals", "-s", str(signature), "-f", str(signers))
    names = found.stdout.decode(errors="replace").splitlines() if found.returncode == 0 else []
    answer = found
    for name in names:
        options = ("-n", NAMESPACE, "-I", name, "-s", str(signature), "-f", str(signers))
        answer = _ssh_keygen("verify", *options, data=manifest)
        if answer.returncode == 0:
            check_integrity(bundle)
            return name
    raise RequirementError(
        "the signature of its manifest does not hold",
        subject=bundle.path / MANIFEST,
        expected=f"a signature by one of {signers}",
        found=_last_line(answer.stderr) or _last_line(answer.stdout),
        hint="the manifest was changed after it was signed, or somebody else signed it",
    )


def _why_not_signed(output: str, key: Path) -> tuple[str | None, str]:
    """Returns why ``ssh-keygen`` does not sign with a key, as far as it says so, and what to do about it.

    The last line of its output does not tell: it is "No private key found", or that a file with ``.pub`` is missing,
    whatever the reason is.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    open_to_others = [line for line in lines if line.startswith("Permissions ")]
    if open_to_others:
        return open_to_others[0], f"`chmod 600 {quote(str(key))}` keeps others from reading it"
    if "passphrase" in output:
        return (
            "its passphrase is missing or wrong",
            "enter it at a terminal, or give the public half of a key that an SSH agent holds (`ssh-add`)",
        )
    if key.read_bytes().startswith(b"-----BEGIN "):
        return (
            "a file that OpenSSH cannot read as a private key",
            "a key that was pasted into a file ends with a line break, and has no others than \\n",
        )
    if output.startswith("No private key found for public key"):
        return "its private half is neither beside it nor held by an SSH agent", "`ssh-add` gives it to the agent"
    return lines[-1] if lines else None, "`ssh-keygen -t ed25519 -f KEY` makes one"


def _ssh_keygen(action: str, *options: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise InputError("is not installed here", subject="ssh-keygen", hint="install OpenSSH 8.2 or later")
    try:
        return subprocess.run(
            [program, "-Y", action, *options], input=data, capture_output=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"did not answer within {SECONDS:g} s", subject="ssh-keygen") from error


def _last_line(text: bytes) -> str | None:
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else None

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from edgekit.bundle import check_integrity, read_bundle
from edgekit.cli import main
from edgekit.errors import InputError, RequirementError
from edgekit.signature import NAMESPACE, check_signature, sign

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")


def key(folder: Path, name: str) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / name


@pytest.fixture
def signers(tmp_path: Path) -> Path:
    public = key(tmp_path, "release").with_suffix(".pub").read_text()
    (tmp_path / "signers").write_text(f"release@example.com {public}")
    return tmp_path / "signers"


def test_the_signer_of_a_bundle_is_told(bundle: Path, signers: Path) -> None:
    opened = read_bundle(bundle)
    sign(opened, signers.parent / "release")
    assert check_signature(opened, signers) == "release@example.com"
    check_integrity(opened)


def test_openssh_checks_it_without_us(bundle: Path, signers: Path) -> None:
    signature = sign(read_bundle(bundle), signers.parent / "release")
    command = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", "release@example.com"]
    command += ["-f", str(signers), "-s", str(signature)]
    subprocess.run(command, input=(bundle / "manifest.json").read_bytes(), check=True, capture_output=True)


def test_a_changed_manifest_is_named(bundle: Path, signers: Path) -> None:
    sign(read_bundle(bundle), signers.parent / "release")
    manifest = bundle / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    with pytest.raises(RequirementError, match=r"manifest\.json: the signature of its manifest does not hold"):
        check_signature(read_bundle(bundle), signers)


@pytest.mark.parametrize("change", ["byte", "missing", "new"])
def test_a_changed_file_is_named(bundle: Path, signers: Path, change: str) -> None:
    sign(read_bundle(bundle), signers.parent / "release")
    file = bundle / "report.md" if change != "new" else bundle / "new.txt"
    if change == "missing":
        file.unlink()
    else:
        file.write_bytes(b"x")
    found = {"byte": "report.md is changed", "missing": "report.md is missing", "new": "new.txt is not in the manifest"}
    with pytest.raises(RequirementError, match=found[change]):
        check_signature(read_bundle(bundle), signers)


def test_a_key_that_nobody_allowed(bundle: Path, signers: Path) -> None:
    sign(read_bundle(bundle), key(signers.parent, "other"))
    with pytest.raises(RequirementError, match="the signature of its manifest does not hold"):
        check_signature(read_bundle(bundle), signers)


def test_a_signature_of_something_else_by_the_same_key(bundle: Path, signers: Path) -> None:
    command = ["ssh-keygen", "-Y", "sign", "-n", "git", "-f", str(signers.parent / "release")]
    made = subprocess.run(command, input=(bundle / "manifest.json").read_bytes(), check=True, capture_output=True)
    (bundle / "manifest.json.sig").write_bytes(made.stdout)
    with pytest.raises(RequirementError, match="the signature of its manifest does not hold"):
        check_signature(read_bundle(bundle), signers)


def test_a_bundle_without_a_signature(bundle: Path, signers: Path) -> None:
    with pytest.raises(RequirementError, match=r"is not signed\nexpected: manifest\.json\.sig\nhint: `edgekit sign"):
        check_signature(read_bundle(bundle), signers)


def test_hints_are_commands_as_a_shell_reads_them(bundle: Path, signers: Path, tmp_path: Path) -> None:
    place = shutil.copytree(bundle, tmp_path / "team a" / "it's")
    with pytest.raises(RequirementError) as raised:
        check_signature(read_bundle(place), signers)
    command = str(raised.value.hint).split("`")[1]
    assert shlex.split(command) == ["edgekit", "sign", str(place), "--key", "KEY"]


def test_a_key_that_is_none(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    with pytest.raises(InputError, match="cannot sign\nexpected: a private key of OpenSSH"):
        sign(read_bundle(bundle), tmp_path / "key")


def test_a_key_that_openssh_does_not_take_is_told_why(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own last line is the same for all of them: "No private key found", or that the public half is missing."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")  # nobody is asked
    monkeypatch.setenv("SSH_ASKPASS", "false")
    secret = key(tmp_path, "secret")
    public = secret.with_suffix(".pub")
    text = secret.read_text()

    def refusal(file: Path) -> str:
        with pytest.raises(InputError) as raised:
            sign(read_bundle(bundle), file)
        return str(raised.value)

    def written(name: str, content: str) -> Path:
        file = tmp_path / name
        file.touch(mode=0o600)
        file.write_text(content, newline="")
        return file

    for pasted in (written("cut", text.removesuffix("\n")), written("windows", text.replace("\n", "\r\n"))):
        assert "found: a file that OpenSSH cannot read as a private key\nhint: a key that was pasted" in refusal(pasted)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "a pass phrase", "-f", str(secret)], check=True)
    assert "found: its passphrase is missing or wrong\nhint: enter it at a terminal" in refusal(secret)
    secret.chmod(0o644)
    told = refusal(secret)
    assert f"found: Permissions 0644 for '{secret}' are too open.\nhint: `chmod 600 {secret}` keeps others" in told
    secret.unlink()
    assert "its private half is neither beside it nor held by an SSH agent\nhint: `ssh-add`" in refusal(public)


def test_the_commands(bundle: Path, signers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", str(bundle), "--signers", str(signers)]) == 1
    assert "is not signed" in capsys.readouterr().err
    assert main(["sign", str(bundle), "--key", str(signers.parent / "release")]) == 0
    assert main(["verify", str(bundle), "--signers", str(signers)]) == 0
    assert "release@example.com" in capsys.readouterr().out

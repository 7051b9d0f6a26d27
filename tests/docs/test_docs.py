"""The documentation against the code that it describes."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import edgekit
from edgekit.cli import COMMANDS, app
from edgekit.config import Budget, read_config
from edgekit.data.tables import SUFFIXES
from edgekit.registry import KINDS, installed_targets
from edgekit.stages import Stage
from edgekit.target import Target
from edgekit.witness import Witness

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NAMES = [command.name for command in COMMANDS]
CLI: Any = typer.main.get_command(app)

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
COMMAND_LINE = re.compile(r"^(?:    |\$ )?(edgekit (?:.*\\\n)*.*)$", re.MULTILINE)


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def code_blocks(page: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    yield from FENCE.findall(text)
    yield from re.findall(r"(?:^    .*\n)+", FENCE.sub("", text), re.MULTILINE)


def command_lines(page: Path) -> list[str]:
    lines = [line for block in code_blocks(page) for line in COMMAND_LINE.findall(block)]
    return [line.replace("\\\n", " ") for line in lines]


def command_page(name: str) -> str:
    return (DOCS / "commands" / f"{name}.md").read_text(encoding="utf-8")


def parse(name: str, arguments: list[str], *, complete: bool = True) -> Any:
    """The context of a command whose arguments were read, without running it.

    Raises:
        typer.TyperException: There is no such option or, of a complete command line, something is missing.
    """
    program = CLI.make_context("edgekit", [], resilient_parsing=True)  # it says which options ask for help
    return CLI.commands[name].make_context(name, arguments, parent=program, resilient_parsing=not complete)


def options_of(name: str) -> set[str]:
    parameters = CLI.commands[name].get_params(parse(name, [], complete=False))
    return {option for parameter in parameters for option in parameter.opts if option.startswith("-")}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), link
        assert not anchor or anchor in anchors(place), link


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_line_parses(page: Path) -> None:
    for line in command_lines(page):
        _, *words = shlex.split(line, comments=True)
        if words in (["--help"], ["--version"]):
            continue
        name, *arguments = words
        assert name in NAMES, line
        if "--help" not in arguments:
            parse(name, arguments)


def test_command_lines_are_found_in_every_form(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("edgekit text\n\n    edgekit a \\\n      -b\n\n```console\n$ edgekit c\nedgekit d\nout\n```\n")
    assert [line.split() for line in command_lines(page)] == [
        ["edgekit", "c"],
        ["edgekit", "d"],
        ["edgekit", "a", "-b"],
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_a_page_that_tells_every_option_and_no_other(name: str) -> None:
    page = command_page(name)
    assert page.startswith(f"# edgekit {name}\n")
    told = set(re.findall(r"`(-{1,2}[a-z][a-z-]*)", "\n".join(re.findall(r"^\| `-[^|]*\|", page, re.MULTILINE))))
    assert told == options_of(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "targets"])  # which tells of others' options
def test_help_of_a_command_names_its_own_options_alone(name: str) -> None:
    """Options are declared once for several commands, of which one may call another option otherwise."""
    command = CLI.commands[name]
    texts = [command.help, *(getattr(each, "help", None) for each in command.params)]
    of_others = re.compile(r"`edgekit [^`]*`")
    named = {option for text in texts for option in re.findall(r"--[a-z][a-z-]+", of_others.sub("", text or ""))}
    assert named <= options_of(name)


@pytest.mark.parametrize("name", ["package", "quantize", "verify"])
def test_help_of_data_names_every_kind_of_file_with_samples(name: str) -> None:
    told = next(each.help for each in CLI.commands[name].params if "--data" in each.opts)
    assert set(re.findall(r"\.[a-z]+", told)) == SUFFIXES


@pytest.mark.parametrize("name", NAMES)
def test_every_command_page_shows_the_command(name: str) -> None:
    lines = command_lines(DOCS / "commands" / f"{name}.md")
    assert any(line.split()[1] == name for line in lines)


def test_every_target_has_a_page_that_tells_its_profiles() -> None:
    for target in installed_targets().targets:
        page = (DOCS / "targets" / f"{target.name}.md").read_text(encoding="utf-8")
        for profile in target.profiles:
            for name in (profile.name, *profile.aliases):
                assert f"`{name}`" in page, f"{target.name}: {name}"


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}
    assert {page for page in PAGES if page.is_relative_to(DOCS)} - linked == {index}


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "edgekit" / name).read_text(encoding="utf-8"))
    return loaded


def test_the_project_files_page_tells_every_key() -> None:
    page = (DOCS / "project-file.md").read_text(encoding="utf-8")
    definitions = schema("config.schema.json")["$defs"]
    for table in ("bundle", "budget", "gate", "image", "audio"):
        for key in definitions[table]["properties"]:
            assert f"`{key}`" in page, f"{table}.{key}"
    assert set(definitions["budget"]["properties"]) == set(vars(Budget()))


def test_the_bundles_page_tells_every_key_of_the_manifest() -> None:
    page = (DOCS / "bundle.md").read_text(encoding="utf-8")
    for key in schema("manifest.schema.json")["properties"]:
        assert f"`{key}`" in page, key


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_toml_block_is_a_project_file(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        if "[project.entry-points" in block:
            assert set(tomllib.loads(block)["project"]["entry-points"]) <= {kind.group for kind in KINDS}
            continue
        file = tmp_path / "edgekit.toml"
        file.write_text(block, encoding="utf-8")
        read_config(file)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_what_python_blocks_import_from_edgekit_is_there(page: Path) -> None:
    for block in blocks(page, "python"):
        for statement in ast.walk(ast.parse(block)):
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("edgekit"):
                if (statement.module or "").startswith("edgekit_toy"):  # the example itself, which is not installed
                    continue
                module = importlib.import_module(statement.module or "")
                assert not [alias.name for alias in statement.names if not hasattr(module, alias.name)]


def test_the_page_for_authors_of_plugins_shows_the_example_as_it_is() -> None:
    shown = blocks(DOCS / "extending.md", "python")
    for name in ("target", "assets/check", "device", "quantizer", "rewrites"):
        assert (ROOT / "examples" / "edgekit_toy" / "edgekit_toy" / f"{name}.py").read_text(encoding="utf-8") in shown


@pytest.mark.parametrize(("contract", "section"), [(Target, "A new target"), (Witness, "A new witness")])
def test_the_page_for_authors_of_plugins_tells_every_member(contract: type, section: str) -> None:
    page = (DOCS / "extending.md").read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    members = {name for name in {**vars(contract), **contract.__annotations__} if not name.startswith("_")}
    told = set(re.findall(r"`([a-z_]+)(?:\([^`]*\))?`", page))
    assert members - told == set()
    rows = set(re.findall(r"^\| `([a-z_]+)", page, re.MULTILINE))
    assert rows in (members, set())


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_calls_of_edgekit_s_functions_bind(page: Path) -> None:
    for block in blocks(page, "python"):
        for call in (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)):
            match call.func:
                case ast.Attribute(value=ast.Name(id="edgekit"), attr=name):
                    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
                    inspect.signature(getattr(edgekit, name)).bind(*call.args, **keywords)


@pytest.mark.slow
def test_the_tutorial_s_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "sample_apps" / "digits", tmp_path / "digits", ignore=shutil.ignore_patterns("bundles"))
    shown = [block for block in blocks(DOCS / "tutorial.md", "python") if "edgekit" in block]
    assert len(shown) >= 4
    steps = textwrap.indent("\n".join(shown), "    ")
    (tmp_path / "digits" / "steps.py").write_text(f'def main():\n{steps}\nif __name__ == "__main__":\n    main()\n')
    monkeypatch.chdir(tmp_path / "digits")
    done = subprocess.run([sys.executable, "steps.py"], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "8"  # the first digit of the test samples
    assert (tmp_path / "digits" / "digits-ios18.html").is_file()


def test_the_page_of_package_tells_every_stage() -> None:
    page = command_page("package")
    stages = [module.stem for module in (ROOT / "edgekit" / "stages").glob("*.py") if module.stem != "__init__"]
    names = {
        member.name
        for stage in stages
        for member in vars(importlib.import_module(f"edgekit.stages.{stage}")).values()
        if isinstance(member, type) and issubclass(member, Stage) and member is not Stage
    }
    assert "verify" in names
    assert names == set(re.findall(r"^\| ([a-z -]+) \| ", page.partition("## Options")[0], re.MULTILINE)) - {"stage"}

"""What is written twice in this repository agrees, and what the documents promise exists."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from edgekv import __version__
from edgekv.cli.main import CHILDREN, COMMANDS
from edgekv.models.catalogue import STARTER, catalogue
from tests.conftest import MODELS, REPOSITORY

README, CONTRIBUTING = REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"
DOCUMENTS = [README, CONTRIBUTING, MODELS / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]

for_each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(REPOSITORY).as_posix()
)


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads(read(name))


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))


def pins() -> dict[str, str]:
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def requirements() -> list[Requirement]:
    project = toml("pyproject.toml")["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for group in groups for line in group]


def layers_bottom_up() -> list[str]:
    contract = toml("pyproject.toml")["tool"]["importlinter"]["contracts"][0]
    return [layer for line in reversed(contract["layers"]) for layer in line.split(" | ")]


def module_rows() -> list[str]:
    package = REPOSITORY / "edgekv"
    rows = [row_of(path) for path in sorted(package.glob("*.py")) if path.name != "__init__.py"]
    for layer in layers_bottom_up():
        paths = [p for p in sorted(package.glob(f"{layer}/*.py")) if p.name != "__init__.py"]
        rows += [f"| **{layer}** | |"] * bool(paths) + [row_of(path) for path in paths]
    return rows


def row_of(module: Path) -> str:
    """A module and the first paragraph of its docstring."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert docstring, f"{module} needs a docstring that says what its one job is"
    job = " ".join(docstring.split("\n\n")[0].split())
    return f"| `{module.relative_to(REPOSITORY / 'edgekv').as_posix()}` | {job} |"


def needed_by(requirement: Requirement) -> list[Requirement]:
    """What an installed distribution asks for on this system, with the extras it was asked with."""
    extras = requirement.extras or {""}
    return [
        needed
        for needed in map(Requirement, metadata.requires(requirement.name) or [])
        if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def test_every_constraint_is_one_exact_version_and_names_no_host() -> None:
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*", line)] == []
    assert list(pins()) == sorted(pins())
    assert len(pins()) == len(lines)


def test_no_dependency_is_asked_for_twice() -> None:
    names = [requirement.name for requirement in requirements()]
    assert sorted(names) == sorted(set(names))


def test_what_the_dependencies_need_themselves_is_pinned_too() -> None:
    seen: set[tuple[str, frozenset[str]]] = set()
    ahead = requirements()
    while ahead:
        requirement = ahead.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key not in seen:
            seen.add(key)
            ahead += needed_by(requirement)
    assert {name for name, _ in seen} == set(pins())


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_the_pinned_version_of_a_dependency_is_in_its_range(requirement: Requirement) -> None:
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)])


@for_each_document
def test_every_make_target_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = re.findall(r"(?:^ +|`)make (?:[A-Z_]+=\S+ )*([a-z]+)", text, re.MULTILINE)
    assert set(named) <= make_targets()


@for_each_document
def test_every_command_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    named = re.findall(r"(?:^ +|`)edgekv ([a-z]+)", text, re.MULTILINE)
    assert set(named) <= set(COMMANDS) | CHILDREN


@for_each_document
def test_every_link_into_the_repository_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_readme_leads_to_every_page() -> None:
    pages = {path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("docs/*.md")}
    assert pages <= set(re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8")))


@for_each_document
def test_every_module_a_document_names_exists(document: Path) -> None:
    named = set(re.findall(r"`([\w/]+/\w+\.py)`", document.read_text(encoding="utf-8")))
    roots = [REPOSITORY, REPOSITORY / "edgekv"]
    assert {name for name in named if not any((root / name).exists() for root in roots)} == set()


def test_the_readme_says_how_to_start_and_ci_runs_its_check_command() -> None:
    assert {"make chat", "make serve", "make check"} <= set(
        re.findall(r"make [a-z]+", README.read_text(encoding="utf-8"))
    )
    assert re.search(r"^make check$", read(".ci/run"), re.MULTILINE)


def test_the_changelog_has_the_version_of_the_package() -> None:
    assert f"## [{__version__}]" in read("CHANGELOG.md")


def test_the_python_version_is_the_same_everywhere() -> None:
    wanted = toml("pyproject.toml")["project"]["requires-python"].removeprefix(">=")
    assert f"Python {wanted}+" in README.read_text(encoding="utf-8")
    assert f"sys.version_info < ({wanted.replace('.', ', ')})" in read("Makefile")


def test_the_starter_model_has_one_file_name() -> None:
    file = toml("models/catalog.toml")["starter"]["file"]
    assert file == catalogue()[STARTER].files[0].name
    assert f"STARTER := models/{file}\n" in read("Makefile")


@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_a_catalogued_model_is_documented_with_its_file_and_licence(name: str) -> None:
    entry = toml("models/catalog.toml")[name]
    row = next(line for line in read("models/README.md").splitlines() if f"| `{name}` |" in line)
    assert f"`{entry['file']}`" in row
    assert entry["licence"].split(",")[0] in row


def test_the_architecture_page_has_every_module_in_the_words_of_its_docstring() -> None:
    page = read("docs/architecture.md")
    table = page[page.index("| module |") :]
    wanted = "\n".join(["| module | its one job |", "|---|---|", *module_rows(), ""])
    assert table == wanted, f"docs/architecture.md should end with this table:\n{wanted}"


def test_the_architecture_page_shows_the_layers_of_the_import_contract() -> None:
    contract = toml("pyproject.toml")["tool"]["importlinter"]["contracts"][0]
    page = read("docs/architecture.md")
    picture = page[page.index("## Who may import whom") :]
    places = [picture.index(f"\n    {layer} ") for layer in contract["layers"]]
    assert places == sorted(places)

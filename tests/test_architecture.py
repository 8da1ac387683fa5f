"""The shape of the code, checked: what imports what at run time, how long things may get."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "edgekv"
TESTS = REPOSITORY / "tests"

LONGEST_MODULE = 300
"""Lines. A module is read in one go; the study behind this number puts liked code at 60 to 150."""
LONGEST_FUNCTION = 60
"""Lines, docstring included: what fits one screen. ruff allows 35 statements inside it."""


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def calls(path: Path) -> Iterator[str]:
    """The plain name of everything that is called: `sleep` for both sleep() and time.sleep()."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name


def relative(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def imported_by(module: str) -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after `import module`."""
    show = f"import sys, {module}; sys.stdout.write(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


HEAVY = {"llama_cpp", "numpy", "textual", "rich", "starlette", "uvicorn", "jinja2"}


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("edgekv.cli.main", set()),
        ("edgekv.engine.engine", set()),
        ("edgekv.budget.planner", set()),
        ("edgekv.service.worker", set()),
        ("edgekv.service.engine_child", set()),
        ("edgekv.service.template_child", {"jinja2"}),
        ("edgekv.llama.backend", {"llama_cpp", "numpy", "jinja2"}),
        ("edgekv.server.app", {"starlette", "uvicorn"}),
        ("edgekv.tui.app", {"textual", "rich"}),
    ],
)
def test_a_module_loads_only_the_heavy_libraries_of_its_own_layer(
    module: str, allowed: set[str]
) -> None:
    # llama_cpp itself imports numpy and jinja2.
    assert imported_by(module) & HEAVY <= allowed


@pytest.mark.parametrize("path", modules(PACKAGE) + modules(TESTS), ids=relative)
def test_nothing_outgrows_its_reader(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE
    lengths = {f.name: (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions(path)}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize("path", modules(PACKAGE), ids=relative)
def test_only_the_command_line_talks_to_the_terminal(path: Path) -> None:
    assert "print" not in set(calls(path))
    assert path.parent.name == "cli" or "echo" not in set(calls(path))


@pytest.mark.parametrize("path", modules(TESTS), ids=relative)
def test_tests_wait_for_events_and_never_sleep(path: Path) -> None:
    assert "sleep" not in set(calls(path))


@pytest.mark.parametrize("path", modules(PACKAGE) + modules(TESTS), ids=relative)
def test_a_module_is_named_for_what_it_holds(path: Path) -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "manager", "base", "types", "misc"}
    assert path.stem not in vague


def test_subpackages_are_folders_without_code() -> None:
    """Importing one module of a layer must not import the layer."""
    full = [p for p in PACKAGE.glob("*/__init__.py") if parse(p).body]
    assert full == []

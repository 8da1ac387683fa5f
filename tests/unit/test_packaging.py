"""Recipes that cannot all run here agree with the code, and with each other."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import json
import plistlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from edgekv.cli import serve
from edgekv.config.settings_file import parse_settings
from edgekv.service.engine_child import SECONDS_TO_LEAVE
from edgekv.service.engine_client import SECONDS_TO_END
from tests.conftest import REPOSITORY

PACKAGING = REPOSITORY / "packaging"
UNIT = PACKAGING / "systemd/edgekv.service"
PLIST = PACKAGING / "launchd/org.edgekv.server.plist"
CONTAINER = PACKAGING / "container/Containerfile"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PACKAGING / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PACKAGING)  # as if it were run: it may import those beside it
        spec.loader.exec_module(module)
    return module


def service() -> dict[str, str]:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(UNIT)
    return dict(unit["Service"])


def parse_serve(arguments: list[str], model: Path) -> dict[str, Any]:
    """What `edgekv serve` makes of a command line; raises `click.UsageError`."""
    context = serve.command.make_context("serve", [str(model), *arguments])
    assert isinstance(context, click.Context)
    return context.params


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "tiny.gguf").touch()
    return tmp_path / "tiny.gguf"


def test_the_unit_waits_longer_than_the_server_drains(model: Path) -> None:
    program, command, *arguments = service()["ExecStart"].split()
    assert (program, command) == ("/opt/edgekv/edgekv", "serve")
    drain = parse_serve(arguments, model)["drain"]
    assert drain + SECONDS_TO_END < int(service()["TimeoutStopSec"])


def test_the_unit_lets_the_server_outlive_its_engine() -> None:
    assert service()["OOMPolicy"] == "continue"
    assert service()["Type"] == "notify"


def test_the_units_settings_can_be_followed() -> None:
    path = PACKAGING / "systemd/config.toml"
    settings = parse_settings(path.read_text(encoding="utf-8"), path)
    assert settings.serve.port == 8642
    assert "EDGEKV_CONFIG=/etc/edgekv/config.toml" in service()["Environment"].split()


def test_launchd_waits_longer_than_the_server_drains(model: Path) -> None:
    agent = plistlib.loads(PLIST.read_bytes())
    _, command, *arguments = agent["ProgramArguments"]
    assert command == "serve"
    assert parse_serve(arguments, model)["drain"] + SECONDS_TO_END < agent["ExitTimeOut"]


def test_the_container_starts_a_server_whatever_else_it_is_told(model: Path) -> None:
    lines = dict(
        line.split(" ", 1) for line in CONTAINER.read_text().splitlines() if line[:1].isupper()
    )
    command, *arguments = json.loads(lines["CMD"])
    assert command == "serve"
    parse_serve(arguments, model)
    assert lines["USER"] != "root"


def test_an_engine_puts_away_what_it_has_before_it_is_killed() -> None:
    assert SECONDS_TO_LEAVE < SECONDS_TO_END


@pytest.mark.parametrize(
    "path", [*REPOSITORY.glob(".github/workflows/*.yml")], ids=lambda p: p.name
)
def test_a_workflow_names_files_and_targets_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    files = set(re.findall(r"\bpackaging/[\w./-]+", text))
    targets = set(re.findall(r"\bmake (\w+)", text))
    assert files | targets
    assert [name for name in files if not (REPOSITORY / name).exists()] == []
    known = re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert targets <= set(known)


def test_the_shell_script_can_be_read() -> None:
    subprocess.run(["bash", "-n", PACKAGING / "linux.sh"], check=True)


def test_what_is_not_wanted_of_ggmls_variants_is_left_out(tmp_path: Path) -> None:
    listed = "if (x)\n    ggml_add_cpu_backend_variant(x64)\n"
    listed += "    # ggml_add_cpu_backend_variant(haswell SSE42 AVX)\nendif()\n"
    (tmp_path / "CMakeLists.txt").write_text(listed)
    script("build_library")._keep(tmp_path / "CMakeLists.txt", ["haswell"])
    assert (tmp_path / "CMakeLists.txt").read_text() == (
        "if (x)\n    # ggml_add_cpu_backend_variant(x64)\n"
        "    ggml_add_cpu_backend_variant(haswell SSE42 AVX)\nendif()\n"
    )


@pytest.mark.parametrize("kind", [2, 3], ids=["fixed", "movable"])
@pytest.mark.parametrize("system", [0, 3], ids=["any", "GNU"])
def test_the_emulator_gets_every_program_but_itself(kind: int, system: int) -> None:
    """As Linux decides it: the first bytes of a file, less what the mask leaves out."""
    old = script("old_processor")
    magic, mask = (ast.literal_eval(f"b'{text}'") for text in (old.MAGIC, old.MASK))

    def goes_to_the_emulator(header: bytearray) -> bool:
        return all(h & m == b & m for h, b, m in zip(header, magic, mask, strict=True))

    header = bytearray(
        b"\x7fELF\x02\x01\x01" + bytes([system]) + bytes(8) + bytes([kind, 0, 62, 0])
    )
    assert goes_to_the_emulator(header)
    header[old.PADDING] = old.ITS_OWN
    assert not goes_to_the_emulator(header)


FULL = ("libggml.so.0.25.3", "libllama.so.0.5.0", "libmtmd.so.0.5.0")


@pytest.mark.skipif(sys.platform != "linux", reason="the names are those of Linux")
@pytest.mark.parametrize("are_links", [True, False], ids=["a build", "an installed package"])
def test_each_library_is_gathered_once_under_the_name_that_others_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, are_links: bool
) -> None:
    built, out = tmp_path / "bin", tmp_path / "out"
    built.mkdir()
    for name in (*FULL, "libggml-cpu-armv8.2_1.so", "libggml-rpc-0.3.36.so", "llama.a"):
        (built / name).write_text(name)
    for full in FULL:
        plain, _, number = full.partition(".so")
        for other in (f"{plain}.so", f"{plain}.so.{number[1]}"):
            (built / other).symlink_to(full) if are_links else (built / other).write_text(full)
    libraries = script("libraries")
    monkeypatch.setattr(libraries.subprocess, "run", lambda *_, **__: None)
    libraries.gather(built, out)
    found = {p.name: p.readlink().name if p.is_symlink() else p.read_text() for p in out.iterdir()}
    assert found == {
        "libggml.so": "libggml.so.0",
        "libggml.so.0": "libggml.so.0.25.3",
        "libllama.so": "libllama.so.0",
        "libllama.so.0": "libllama.so.0.5.0",
        "libggml-cpu-armv8.2_1.so": "libggml-cpu-armv8.2_1.so",
        "libggml-rpc-0.3.36.so": "libggml-rpc-0.3.36.so",
    }


def test_a_systems_names_of_a_library_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, out = tmp_path / "bin", tmp_path / "out"
    built.mkdir()
    mac = ("libggml.0.25.3.dylib", "libggml.0.dylib", "libggml.dylib", "libggml-cpu-apple_m1.so")
    for name in (*mac, "ggml-cpu-haswell.dll", "llama.dll", "llama.lib"):
        (built / name).write_text(name)
    libraries = script("libraries")
    monkeypatch.setattr(libraries.subprocess, "run", lambda *_, **__: None)
    libraries.gather(built, out)
    assert {path.name for path in out.iterdir()} == {
        "libggml.0.dylib",
        "libggml.dylib",
        "libggml-cpu-apple_m1.so",
        "ggml-cpu-haswell.dll",
        "llama.dll",
    }
    assert (out / "libggml.dylib").readlink().name == "libggml.0.dylib"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither links nor run bits")
def test_the_archive_keeps_links_and_run_bits_and_is_nobodys_own(tmp_path: Path) -> None:
    folder = tmp_path / "edgekv"
    (folder / "_internal").mkdir(parents=True)
    (folder / "edgekv").write_text("program")
    (folder / "edgekv").chmod(0o711)
    (folder / "_internal/libé.so.0").write_text("library")
    (folder / "_internal/libé.so").symlink_to("libé.so.0")
    packed = script("bundle")._pack_tar(folder, tmp_path, "edgekv-1-linux", 1)
    with tarfile.open(packed) as archive:
        entries = {entry.name: entry for entry in archive.getmembers()}
    assert {name.split("/")[0] for name in entries} == {"edgekv-1-linux"}
    assert {(entry.uid, entry.gid, entry.uname) for entry in entries.values()} == {(0, 0, "")}
    assert entries["edgekv-1-linux/edgekv"].mode == 0o755
    assert entries["edgekv-1-linux/_internal/libé.so"].linkname == "libé.so.0"

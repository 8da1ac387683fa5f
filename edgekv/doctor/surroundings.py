"""What EdgeKV finds around it: settings, folders, its port, the terminal."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgekv.budget.sizes import format_size
from edgekv.config import places
from edgekv.config.settings import PlanSettings, ServeSettings
from edgekv.config.settings_file import read_settings, settings_path
from edgekv.config.spelling import nearest
from edgekv.doctor.finding import Finding, fault, fine, warning
from edgekv.doctor.host import Host
from edgekv.errors import SettingsError

HOST, PORT = "127.0.0.1", 8642
"""Where `edgekv serve` listens unless told otherwise."""
VARIABLES = {
    "EDGEKV_API_KEY",
    "EDGEKV_CONFIG",
    "EDGEKV_HOME",
    "EDGEKV_MODEL",
    "EDGEKV_MODELS",
    *(
        f"EDGEKV_{name.upper()}"
        for name in (*PlanSettings.__struct_fields__, *ServeSettings.__struct_fields__)
    ),
}
_SETS_HOME = f"set {places.HOME_VARIABLE} to a folder that you may write to"


def examine_settings(host: Host) -> Iterator[Finding]:
    try:
        read_settings()
    except SettingsError as error:
        yield fault("settings", str(error).rstrip("."), "correct the file: edgekv config path")
    else:
        path = settings_path()
        is_there = path is not None and path.exists()
        yield fine("settings", str(path) if is_there else "no settings file; all as usual")
    for name in sorted(set(host.environment) - VARIABLES):
        if name.startswith("EDGEKV_"):
            yield warning(
                "settings", f"{name} is no setting; {nearest(name, VARIABLES)}", f"unset {name}"
            )


def examine_folders(model_folders: Iterable[Path]) -> Iterator[Finding]:
    named = {
        "conversations and models": places.data_folder(),
        "copies of idle conversations": places.cache_folder(),
        "the engine's log": places.log_folder(),
    }
    for purpose, folder in named.items():
        if folder is None:
            yield warning("folders", f"there is no home folder, so none for {purpose}", _SETS_HOME)
        elif not _may_write(folder):
            yield warning("folders", f"{folder}, for {purpose}, may not be written", _SETS_HOME)
        else:
            yield fine("folders", f"{folder}, for {purpose}")
    for folder in model_folders:
        if folder.is_dir():
            yield _models(folder)


def _models(folder: Path) -> Finding:
    files = sorted(folder.glob("**/*.gguf"))
    if closed := [file for file in files if not os.access(file, os.R_OK)]:
        return fault("models", f"{closed[0]} may not be read", f"chmod u+r '{closed[0]}'")
    free = format_size(shutil.disk_usage(folder).free)
    return fine("models", f"{folder}: {len(files)} .gguf files, {free} free on its disk")


def _may_write(folder: Path) -> bool:
    """Whether it could be made or written to; nothing is made to find out."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def examine_port() -> Finding:
    try:
        serve = read_settings().serve
    except SettingsError:
        serve = ServeSettings()
    host, port = serve.host or HOST, PORT if serve.port is None else serve.port
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return warning(
            "port",
            f"'edgekv serve' cannot listen on {host} port {port} ({reason})",
            "edgekv serve --port 0, which takes any free port",
        )
    return fine("port", f"{host} port {port} is free for 'edgekv serve'")


def examine_terminal(host: Host) -> Iterator[Finding]:
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        yield fine("terminal", "no terminal here; 'edgekv chat' talks in plain lines")
        return
    term = host.environment.get("TERM", "")
    size = shutil.get_terminal_size()
    yield fine("terminal", f"{term or 'unnamed'}, {size.columns} x {size.lines}")
    if host.system != "win32" and term in {"", "dumb", "unknown"}:
        yield warning(
            "terminal", "it understands no control sequences", "export TERM=xterm-256color"
        )
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        yield warning(
            "terminal",
            f"its encoding is {sys.stdout.encoding}, which lacks most letters",
            "export LC_ALL=C.UTF-8",
        )
    if size.columns < 40 or size.lines < 10:
        yield warning("terminal", "the app needs 40 x 10", "make the window larger")


def examine_quarantine(host: Host, program: Path) -> Iterator[Finding]:
    """macOS marks what a browser fetched, and lets no library of it be loaded."""
    if host.system == "darwin":
        mark = host.ask(("xattr", "-p", "com.apple.quarantine", str(program)))
        if mark is not None:
            yield fault(
                "quarantine",
                f"macOS keeps {program} from loading its libraries",
                f"xattr -dr com.apple.quarantine '{program}'",
            )

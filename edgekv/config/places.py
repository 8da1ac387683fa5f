"""Where EdgeKV's own files go.

`EDGEKV_HOME` names one folder for all of them. Without it each kind goes where this system keeps
such files for its user. A user without a home (a service, a container, a home that is not there)
has no such place: then a folder is None, and what does not need it works.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from platformdirs import PlatformDirs

from edgekv.errors import Unavailable

NAME = "edgekv"
HOME_VARIABLE = "EDGEKV_HOME"


def config_folder() -> Path | None:
    """For what the user writes: the settings."""
    return _folder("config", "XDG_CONFIG_HOME", lambda dirs: dirs.user_config_path)


def data_folder() -> Path | None:
    """For what nobody could make again: conversations, models, verdicts."""
    return _folder("data", "XDG_DATA_HOME", lambda dirs: dirs.user_data_path)


def cache_folder() -> Path | None:
    """For what can be made again: copies of cells, measurements."""
    return _folder("cache", "XDG_CACHE_HOME", lambda dirs: dirs.user_cache_path)


def log_folder() -> Path | None:
    return _folder("log", "XDG_STATE_HOME", lambda dirs: dirs.user_log_path)


def runtime_folder() -> Path | None:
    """For what is true only while something runs, like a server's address."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.environ.get(HOME_VARIABLE) and os.path.isabs(own) and os.access(own, os.W_OK):
        return Path(own) / NAME
    return _folder("run", "XDG_STATE_HOME", lambda dirs: dirs.user_state_path / "run")


def made(folder: Path | None, purpose: str) -> Path:
    """The folder, made for this user alone if it was not there.

    Raises `Unavailable` where it cannot be; `purpose` says what it is for, like "models".
    """
    if folder is None:
        raise Unavailable(
            f"There is no home folder to keep {purpose} in; "
            f"set {HOME_VARIABLE} to a folder that you may write to."
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unavailable(
            f"The folder {folder} for {purpose} cannot be made ({reason}); "
            f"set {HOME_VARIABLE} to a folder that you may write to."
        ) from None
    return folder


def _folder(name: str, variable: str, usual: Callable[[PlatformDirs], Path]) -> Path | None:
    if chosen := os.environ.get(HOME_VARIABLE):
        return Path(os.path.expanduser(chosen)).absolute() / name
    if os.path.isabs(os.environ.get(variable, "")) or _has_home():
        return usual(PlatformDirs(NAME, appauthor=False))
    return None


def _has_home() -> bool:
    """The root of the file system is what programs without a home are given; it is nobody's."""
    home = Path(os.path.expanduser("~"))
    return home.is_absolute() and home != Path(home.anchor) and home.is_dir()

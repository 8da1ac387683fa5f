"""The settings file: where it is, and what it says, or one sentence about what is wrong with it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edgekv.config import places
from edgekv.config.settings import ModelSettings, Settings
from edgekv.config.spelling import nearest
from edgekv.errors import SettingsError

PATH_VARIABLE = "EDGEKV_CONFIG"
FILE_NAME = "config.toml"

_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_Table = TypeVar("_Table", Settings, ModelSettings)


def settings_path() -> Path | None:
    """The file there is or may be; None where this user has no folder for it."""
    if chosen := os.environ.get(PATH_VARIABLE):
        return Path(os.path.expanduser(chosen))
    folder = places.config_folder()
    return None if folder is None else folder / FILE_NAME


def read_settings() -> Settings:
    """What the file says; nothing where there is none.

    Raises `SettingsError` for a file that cannot be read, a key that is not known, a value that
    cannot be, and a file named by `EDGEKV_CONFIG` that is not there.
    """
    path = settings_path()
    if path is None:
        return Settings()
    try:
        text = path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        if not os.environ.get(PATH_VARIABLE):
            return Settings()
        raise SettingsError(f"{PATH_VARIABLE} names {path}, and there is no such file.") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"The settings in {path} cannot be read ({reason}).") from None
    except UnicodeDecodeError:
        raise SettingsError(
            f"The settings in {path} are not UTF-8 text; save them as that."
        ) from None
    return parse_settings(text, path)


def parse_settings(text: str, path: Path) -> Settings:
    """Raises `SettingsError`, which names `path`."""
    try:
        table = tomllib.loads(text)
        _refuse_unknown(table, Settings, "")
        models = _sections(table.pop("models", {}))
        if isinstance(keys := table.get("keys"), dict):
            table["keys"] = dict(_flat(keys, ""))
        settings = _convert(table, Settings, "")
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise SettingsError(f"The settings in {path} cannot be followed: {error}") from None
    return msgspec.structs.replace(settings, models=models)


def _sections(models: object) -> dict[str, ModelSettings]:
    if not isinstance(models, dict) or not all(isinstance(one, dict) for one in models.values()):
        raise ValueError('models: write a section for each model, like [models."my-model"].')
    return {name: _convert(one, ModelSettings, f'models."{name}".') for name, one in models.items()}


def _refuse_unknown(table: Mapping[str, Any], kind: type[msgspec.Struct], where: str) -> None:
    """Raises `ValueError` with the nearest spelling."""
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"'{where}{key}' is no setting; {nearest(key, known)}")
        if not isinstance(value, dict):
            continue
        if isinstance(known[key], type) and issubclass(known[key], msgspec.Struct):
            _refuse_unknown(value, known[key], f"{where}{key}.")
        elif key == "models":
            for name, section in value.items():
                if isinstance(section, dict):
                    _refuse_unknown(section, ModelSettings, f'models."{name}".')


def _flat(table: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """TOML reads the dot of `chat.stop = [...]` as a table in a table; here it is one name."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{where}{key}.")
        else:
            yield where + key, value


def _convert(table: Mapping[str, Any], kind: type[_Table], where: str) -> _Table:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at `$.")
        place = f"{where}{key.rstrip('`')}".rstrip(".")
        raise ValueError(f"{place}: {_in_words(message)}") from None


def _in_words(message: str) -> str:
    """msgspec's sentence without its names of types."""
    message = re.sub(r"`([a-z| ]+)`", lambda types: _types_in_words(types[1]), message)
    message = message.replace("Invalid enum value", "a number or 'auto' is wanted, not")
    return f"{message[0].lower()}{message[1:].rstrip('.')}."


def _types_in_words(types: str) -> str:
    return " or ".join(_WORDS[name] for name in types.split(" | ") if name in _WORDS)

"""`edgekv config`: where the settings are, and what they say."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from edgekv.cli.settable import variable_of
from edgekv.config.settings import PlanSettings, ServeSettings, Table
from edgekv.config.settings_file import PATH_VARIABLE, read_settings, settings_path
from edgekv.errors import Unavailable

BARE_KEY = re.compile("[A-Za-z0-9_-]+")
"""What TOML takes as a key without quotes."""


@click.group()
def command() -> None:
    """Settings: where their file is, and what they say."""


@command.command()
def path() -> None:
    """Print the path of the settings file, whether it is there or not."""
    found = settings_path()
    if found is None:
        raise Unavailable(
            f"There is no home folder to keep settings in; name a file in {PATH_VARIABLE}."
        )
    click.echo(found)


@command.command()
def show() -> None:
    """Print every setting there is as TOML, and which of them the environment overrules."""
    settings = read_settings()
    found = settings_path()
    there = "" if found and found.exists() else " (not there)"
    click.echo(f"# {found}{there}" if found else "# No home folder, so no settings file.")
    for key, value in _flat(settings.said(), ()):
        click.echo(f"{'.'.join(map(_toml_key, key))} = {json.dumps(value, ensure_ascii=False)}")
    fields = ("model", *PlanSettings.__struct_fields__, *ServeSettings.__struct_fields__)
    for variable in map(variable_of, fields):
        if variable in os.environ:
            click.echo(f"# {variable}={os.environ[variable]} overrules it")


def _flat(
    table: Mapping[str, Any], where: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value with the names of the tables it is in."""
    for key, value in table.items():
        said = value.said() if isinstance(value, Table) else value
        if isinstance(said, dict):
            yield from _flat(said, (*where, key))
        else:
            yield (*where, key), said


def _toml_key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)

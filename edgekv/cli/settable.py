"""Options that the environment and the settings file may give as well: EDGEKV_CTX and `ctx`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

AT_HUB = "hub: "
"""In front of what `pull` would take, where a command's model is not a file here."""


QUESTION = "edgekv.question"
"""In a context's `meta`: the question that `chat` was given in the place of a model."""


class Settable(click.Option):
    """`--kv-type` on the command line, else EDGEKV_KV_TYPE, else `kv_type` in the settings."""

    def __init__(self, names: Sequence[str], **attributes: Any) -> None:
        super().__init__(names, **attributes)
        self.key = self.opts[0].removeprefix("--").replace("-", "_")
        self.envvar = variable_of(self.key)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Says where a wrong value stands, if it is not on the command line."""
        hint = super().get_error_hint(ctx)
        source = ctx.get_parameter_source(self.name) if ctx and self.name else None
        if source is ParameterSource.ENVIRONMENT:
            return f"{hint} (from {self.envvar})"
        if source is ParameterSource.DEFAULT_MAP:
            return f"{hint} (from the settings)"
        return hint


def variable_of(key: str) -> str:
    """The environment variable that overrules a key of the settings."""
    return f"EDGEKV_{key.upper()}"


def said_in_settings(name: str) -> bool:
    """Whether a parameter of the running command has its value from the settings file."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.DEFAULT_MAP


def model_argument(ctx: click.Context, _: click.Parameter, name: str | None) -> str:
    """The path of the model meant, and the settings for it as the defaults of other options.

    A callback of an eager MODEL argument, so that it comes before them. Raises `ModelError` and
    `SettingsError`.
    """
    from edgekv.config.settings_file import read_settings

    settings = read_settings()
    if name is not None and _is_question(ctx, name):
        ctx.meta[QUESTION], name = name, None
    name = name or settings.model
    path = _path_of(ctx, name)
    said = settings.of_model(*filter(None, (name, path))).said() | settings.serve.said()
    options = (param for param in ctx.command.params if isinstance(param, Settable))
    ctx.default_map = {option.name: said[option.key] for option in options if option.key in said}
    return path


def _is_question(ctx: click.Context, name: str) -> bool:
    return ctx.info_name == "chat" and len(name.split()) > 1 and not os.path.exists(name)


def _path_of(ctx: click.Context, name: str | None) -> str:
    """The file that `name` means. `plan` takes a model that is at a hub by its name there, and
    `chat` offers to get it.
    """
    from edgekv.errors import NotHere
    from edgekv.models.finding import find_model

    try:
        return str(find_model(name))
    except NotHere as missing:
        if ctx.info_name == "plan" and name is not None:
            return AT_HUB + missing.wanted
        if ctx.info_name == "chat":
            from edgekv.cli.offer import offered

            path = offered(missing, is_named=name is not None)
            if path is not None:
                return str(path)
        raise

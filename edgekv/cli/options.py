"""The MODEL argument and the budget options, the same for every command that opens a model."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from edgekv.budget.kv_types import AUTO, parse_kv_types
from edgekv.budget.sizes import Reserve, parse_reserve, parse_size
from edgekv.budget.wish import Wish
from edgekv.budget.worker_addresses import parse_workers
from edgekv.cli.settable import Settable, model_argument
from edgekv.core.plan import Adapter

if TYPE_CHECKING:
    from edgekv.service.warm import WarmPrompt

LARGEST_COUNT = 2**31 - 1  # llama.cpp counts in 32 bits with a sign

Callback: TypeAlias = Callable[[click.Context, click.Parameter, str], Any]
Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]


def count(at_least: int) -> Callback:
    """Read a whole number from `at_least` to what 31 bits hold; `auto` becomes None."""

    def read(_ctx: click.Context, _param: click.Parameter, text: str) -> int | None:
        if text == AUTO:
            return None
        if not re.fullmatch("[0-9]{1,10}", text) or not at_least <= int(text) <= LARGEST_COUNT:
            raise click.BadParameter(
                f"'{text}' is neither '{AUTO}' nor a number from {at_least} to {LARGEST_COUNT}."
            )
        return int(text)

    return read


def size(_ctx: click.Context, _param: click.Parameter, text: str) -> int | None:
    """Read bytes, written like 512MiB; `auto` becomes None."""
    try:
        return None if text == AUTO else parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def reserve(_ctx: click.Context, _param: click.Parameter, text: str) -> Reserve | None:
    """Read bytes, or a part of all memory like 10%; `auto` becomes None."""
    try:
        return None if text == AUTO else parse_reserve(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def switch(_ctx: click.Context, _param: click.Parameter, text: str) -> bool | None:
    """Read `on` or `off`; `auto` becomes None."""
    if text not in {AUTO, "on", "off"}:
        raise click.BadParameter(f"'{text}' is none of '{AUTO}', 'on' and 'off'.")
    return None if text == AUTO else text == "on"


def kv_types(
    _ctx: click.Context, _param: click.Parameter, text: str
) -> tuple[str | None, str | None]:
    """Read `TYPE` for keys and values alike, or `KTYPE/VTYPE`; `auto` becomes None."""
    try:
        return parse_kv_types(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def workers(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Read HOST:PORT, or several with commas between."""
    try:
        return () if text is None else parse_workers(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _option(name: str, field: str, read: Callback, metavar: str, text: str) -> Decorator:
    return click.option(
        name, field, cls=Settable, default=AUTO, callback=read, metavar=metavar, help=text
    )


def lora(
    _ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]
) -> tuple[Adapter, ...]:
    """Read FILE or FILE=SCALE, as often as given."""
    return tuple(map(_adapter, texts))


def _adapter(text: str) -> Adapter:
    path, equals, scale = text.rpartition("=")
    if not equals or Path(text).is_file():
        path, scale = text, "1"
    if not re.fullmatch(r"-?[0-9]{1,6}(\.[0-9]{1,9})?", scale) or not float(scale):
        raise click.BadParameter(f"'{scale}' is not how strongly an adapter may count, like 0.5.")
    if not Path(path).is_file():
        raise click.BadParameter(f"There is no file '{path}'; check the path.")
    return Adapter(str(Path(path).resolve()), float(scale))


_OPTIONS = (
    click.argument(
        "model", required=False, envvar="EDGEKV_MODEL", is_eager=True, callback=model_argument
    ),
    _option("--ctx", "context_length", count(1), "N", "Tokens one conversation may hold."),
    _option("--slots", "slots", count(1), "N", "Conversations decoded at once."),
    _option("--cells", "cells", count(1), "N", "Tokens the pool holds in all."),
    _option("--kv-type", "kv_types", kv_types, "TYPE|KTYPE/VTYPE", "Precision of keys and values."),
    _option(
        "--flash-attention",
        "flash_attention",
        switch,
        "on|off",
        "Off may be faster on a processor where answers share prompts.",
    ),
    _option(
        "--gpu-layers", "gpu_layers", count(0), "N", "Layers that go to the GPU, or to workers."
    ),
    _option("--memory", "memory_bytes", size, "SIZE", "The whole budget, like 4GiB."),
    _option("--host-cache", "host_cache_bytes", size, "SIZE", "Set aside for idle conversations."),
    _option("--reserve", "reserve", reserve, "SIZE|PART%", "Left to the rest of the system."),
    _option("--threads", "threads", count(1), "N", "CPU threads, at most those usable here."),
    click.option(
        "--workers",
        cls=Settable,
        callback=workers,
        metavar="HOST:PORT,…",
        help="Other machines that run 'edgekv worker', for layers that do not fit here.",
    ),
    click.option(
        "--lora",
        "adapters",
        multiple=True,
        callback=lora,
        metavar="FILE[=SCALE]",
        help="Change the model by a LoRA adapter; may be repeated.",
    ),
    click.option(
        "--mmap/--no-mmap",
        "use_mmap",
        cls=Settable,
        default=True,
        help="Map the weights from their file, or copy them into memory.",
    ),
)


def budget_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add MODEL and the budget options, each `auto` unless given, to a click command.

    The command takes `path: str`, the model file, and `wish: Wish` in their place, before
    its own options. Raises `ModelError` if there is no such file.
    """

    @functools.wraps(command)
    def call(model: str, kv_types: tuple[str | None, str | None], **rest: Any) -> None:
        key_type, value_type = kv_types
        # Who may embed texts serves them, and only a server holds answers to schemas.
        serves = "embeddings" in rest
        wished = {field.name: rest.pop(field.name) for field in fields(Wish) if field.name in rest}
        wish = Wish(kv_type_k=key_type, kv_type_v=value_type, grammars=serves, **wished)
        command(path=model, wish=wish, **rest)

    decorated: Callable[..., None] = call
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def embeddings_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--embeddings`, for a command below `budget_options`: it becomes part of the wish."""
    option = click.option(
        "--embeddings/--no-embeddings",
        "embeddings",
        default=None,
        help="Room to embed texts; made where it costs nothing else unless said.",
    )
    decorated: Callable[..., None] = option(command)
    return decorated


def _read_warm(_ctx: click.Context, _param: click.Parameter, paths: tuple[Path, ...]) -> Any:
    from edgekv.service.warm import read_warm

    return tuple(map(read_warm, paths))


def warm_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--warm`; the command takes `warm: tuple[WarmPrompt, ...]`."""
    option = click.option(
        "--warm",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        callback=_read_warm,
        metavar="FILE",
        help="A prompt to compute at the start and keep: a text, or a .json list of messages; "
        "may be repeated.",
    )
    decorated: Callable[..., None] = option(command)
    return decorated


_CONDUCT_OPTIONS = (
    click.option(
        "--queue",
        "max_waiting",
        cls=Settable,
        default=256,
        show_default=True,
        type=click.IntRange(0),
        help="Requests that may wait; more are turned away.",
    ),
    click.option(
        "--max-gap-ms",
        cls=Settable,
        default=250,
        show_default=True,
        type=click.IntRange(0),
        help="How long prompts may hold up answers under way; 0: as long as they like.",
    ),
    click.option(
        "--disk-cache",
        "disk_cache_bytes",
        cls=Settable,
        default="2GiB",
        show_default=True,
        callback=size,
        metavar="SIZE",
        help="For idle conversations on disk; 0 writes nothing.",
    ),
    click.option(
        "--record",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Append lengths and times of every request, never its text, for 'edgekv advise'.",
    ),
)


def conduct_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of how requests are treated; the command takes `conduct: Conduct`."""

    @functools.wraps(command)
    def call(
        max_waiting: int,
        max_gap_ms: int,
        disk_cache_bytes: int | None,
        warm: tuple[WarmPrompt, ...],
        record: Path | None,
        **rest: Any,
    ) -> None:
        from edgekv.service.conduct import Conduct
        from edgekv.traffic.recorder import Recorder

        recorder = None if record is None else Recorder(record)
        conduct = Conduct(max_waiting, max_gap_ms, warm=warm, recorder=recorder)
        if disk_cache_bytes is not None:
            conduct = replace(conduct, disk_cache_bytes=disk_cache_bytes)
        command(conduct=conduct, **rest)

    decorated: Callable[..., None] = warm_option(call)
    for option in reversed(_CONDUCT_OPTIONS):
        decorated = option(decorated)
    return decorated

"""`edgekv models`: which models fit this machine, which are here, and what of them is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgekv.budget.sizes import format_size
from edgekv.cli.pull import print_path, say
from edgekv.tui.visible import visible

if TYPE_CHECKING:
    from edgekv.models.bandwidth import Bandwidth
    from edgekv.models.forecast import Place
    from edgekv.models.shelf import LocalModel
    from edgekv.models.verdicts import Verdict

SCHEMA = 1


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, sizes in bytes.")
@click.option("--measure", is_flag=True, help="Measure the memory's speed anew.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, measure: bool) -> None:
    """Show the models that fit this machine, those that are here first.

    Context, slots and sizes are what a plan would probably say; 'edgekv plan NAME' says it for
    sure. The speed is the most that the memory allows one answer.
    """
    if ctx.invoked_subcommand is not None:
        return
    place, bandwidth, verdicts = asyncio.run(_judge(measure))
    if as_json:
        click.echo(msgspec.json.encode(_report(bandwidth, verdicts)))
        return
    for line in _page(place, bandwidth, verdicts):
        click.echo(visible(line))


@command.command("rm")
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--partial", is_flag=True, help="Downloads that did not come to their end.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove_command(names: tuple[str, ...], partial: bool, yes: bool) -> None:
    """Delete models from EdgeKV's own folders. Other programs' models are left alone."""
    from edgekv.models.keeping import remove, remove_parts

    if not names and not partial:
        raise click.UsageError("Name a model, or give --partial.")
    models = [_here(name) for name in names]
    for model in models:
        size = format_size(model.num_bytes)
        if yes or click.confirm(f"Delete {model.path} ({size})?", err=True):
            remove(model)
            say(f"{model.path} is deleted, {size} are free again")
    if partial:
        say(f"{format_size(remove_parts())} of partial downloads are deleted")


@command.command("du")
@click.option("--json", "as_json", is_flag=True, help="One JSON array, sizes in bytes.")
def disk_use_command(as_json: bool) -> None:
    """Show what the models take on disk, folder by folder."""
    from edgekv.models.keeping import disk_use

    uses = disk_use()
    if as_json:
        click.echo(msgspec.json.encode(uses, enc_hook=str))
        return
    for use in uses:
        partial = f", {format_size(use.part_bytes)} of partial downloads" if use.part_bytes else ""
        size = format_size(use.model_bytes)
        text = f"{size:>10}  {use.num_models:3} models  {use.folder} ({use.origin}){partial}"
        click.echo(visible(text))


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
def import_command(file: Path) -> None:
    """Put a .gguf FILE among EdgeKV's models and print where it is. FILE itself stays."""
    from edgekv.models.finding import find_model
    from edgekv.models.folders import pull_folder
    from edgekv.models.keeping import import_model

    print_path(import_model(find_model(str(file)), pull_folder()))


def _here(name: str) -> LocalModel:
    """The model on this disk that `name` means."""
    from edgekv.models.finding import find_model
    from edgekv.models.shelf import local_models

    path = find_model(name)
    found = next((one for one in local_models() if one.path == path), None)
    if found is None:
        raise click.ClickException(f"{path} is in none of EdgeKV's folders; delete it by hand.")
    return found


async def _judge(measure: bool) -> tuple[Place, Bandwidth, tuple[Verdict, ...]]:
    from edgekv.models.bandwidth import memory_bandwidth
    from edgekv.models.verdicts import judge_all
    from edgekv.service.devices import read_place

    place = await read_place()
    bandwidth = memory_bandwidth(place.machine, place.processor, anew=measure)
    return place, bandwidth, await judge_all(place, bandwidth)


def _report(bandwidth: Bandwidth, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "memory_bytes_per_second": round(bandwidth.bytes_per_second),
        "memory_measured": bandwidth.how,
        "models": [_row(verdict) for verdict in verdicts],
    }


def _row(verdict: Verdict) -> dict[str, Any]:
    plan, model, local = verdict.outcome.plan, verdict.model, verdict.local
    speed = verdict.most_tokens_per_second
    return {
        "name": verdict.name,
        "title": model.title if model else verdict.name,
        "use": model.use if model else None,
        "about": model.about if model else None,
        "licence": model.licence if model else None,
        "repository": model.repository if model else local.repository if local else None,
        "quantisation": verdict.quantisation,
        "bytes": verdict.num_bytes,
        "path": str(local.path) if local else None,
        "folder_of": local.origin if local else None,
        "fits": verdict.fits,
        "problem": verdict.outcome.problem,
        "needed_bytes": plan.total_bytes if plan else verdict.outcome.needed_bytes,
        "context_length": plan.choice.context_length if plan else None,
        "slots": plan.choice.slots if plan else None,
        "kv_type": plan.choice.kv_type_k if plan else None,
        "gpu_layers": plan.choice.gpu_layers if plan else None,
        "most_tokens_per_second": round(speed, 1) if speed else None,
    }


def _page(place: Place, bandwidth: Bandwidth, verdicts: Sequence[Verdict]) -> Iterator[str]:
    here = [verdict for verdict in verdicts if verdict.local]
    fitting = [verdict for verdict in verdicts if not verdict.local and verdict.fits]
    unknown = [v for v in verdicts if not (v.local or v.fits or v.outcome.needed_bytes)]
    too_large = [v for v in verdicts if not (v.local or v.fits) and v.outcome.needed_bytes]
    too_large.sort(key=lambda verdict: verdict.outcome.needed_bytes or 0)
    yield from _table("On this disk", here)
    yield from _table("Fit this machine; get one with 'edgekv pull NAME'", fitting)
    if unknown:
        yield f"Known after 'edgekv plan hf:…': {_names(unknown)}"
        yield ""
    if too_large:
        yield "Need more memory than there is:"
        yield ""
        longest = max(len(verdict.name) for verdict in too_large)
        for verdict in too_large:
            yield f"  {verdict.name:{longest}}  {format_size(verdict.outcome.needed_bytes or 0):>9}"
        yield ""
    speed = f"{bandwidth.bytes_per_second / 1e9:.1f} GB/s"
    memory = format_size(place.machine.available.value)
    yield f"{memory} of memory are available. It is read at {speed}: {bandwidth.how}."


def _table(title: str, verdicts: Sequence[Verdict]) -> Iterator[str]:
    if not verdicts:
        return
    longest = max(len(verdict.name) for verdict in verdicts)
    yield f"{title}:"
    yield ""
    yield (
        f"  {'NAME':{longest}}  {'QUANT':9}  {'SIZE':>9}  {'CONTEXT':>7}  {'SLOTS':>5}  "
        f"{'TOKENS/S':>8}  GOOD AT"
    )
    for verdict in verdicts:
        yield f"  {verdict.name:{longest}}  {_cells(verdict)}"
    yield ""


def _cells(verdict: Verdict) -> str:
    plan, speed = verdict.outcome.plan, verdict.most_tokens_per_second
    size = format_size(verdict.num_bytes) if verdict.num_bytes else "?"
    context = f"{plan.choice.context_length:,}" if plan else "-"
    slots = str(plan.choice.slots) if plan else "-"
    pace = f"<= {_figure(speed)}" if speed else "?" if plan else "-"
    quantisation = verdict.quantisation or "?"
    return f"{quantisation:9}  {size:>9}  {context:>7}  {slots:>5}  {pace:>8}  {_about(verdict)}"


def _figure(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.1f}"


def _about(verdict: Verdict) -> str:
    if verdict.local and not verdict.fits:
        return verdict.outcome.problem or ""
    if verdict.model:
        return verdict.model.about
    return str(verdict.local.path) if verdict.local else ""


def _names(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(verdict.name for verdict in verdicts)

"""`edgekv plan`: what would be allocated here, line by line. Nothing is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import msgspec
from msgspec import structs

from edgekv.budget.costs import step_costs
from edgekv.budget.outcomes import kv_words
from edgekv.budget.recorded import NOT_HERE, RecordedMachine, recorded_machine
from edgekv.budget.sizes import counted, format_size
from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options, embeddings_option
from edgekv.cli.settable import AT_HUB, said_in_settings
from edgekv.core.plan import Choice, MemoryPlan, ModelFacts, PlannedDevice
from edgekv.errors import DamagedModel, ModelError
from edgekv.tui.visible import visible

BAR_LENGTH = 32


def what_if(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> RecordedMachine | None:
    """Read a size or a file."""
    from edgekv.budget.machine import read_machine

    try:
        return None if text is None else recorded_machine(text, read_machine())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@budget_options
@embeddings_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object, sizes in bytes.")
@click.option(
    "--what-if",
    "there",
    callback=what_if,
    metavar="SIZE|FILE",
    help="Plan for a machine with so much memory, or one whose 'plan --json' is in a file.",
)
def command(path: str, wish: Wish, as_json: bool, there: RecordedMachine | None) -> None:
    """Show what would be allocated for MODEL on this machine, and why.

    MODEL is a .gguf file or a name of 'edgekv models'; without one it is the starter model. Of a
    model that is not here, or hf:owner/repo:QUANT, nothing but the header is transferred.

    Every option left at 'auto' is decided by the plan, one that is given is kept or refused.
    """
    if wish.workers and (there is not None or path.startswith(AT_HUB)):
        if not said_in_settings("workers"):
            raise click.UsageError(
                "--workers are asked what they lend, for a model and a machine that are here; "
                "leave it out."
            )
        wish = replace(wish, workers=())
    plan, facts = asyncio.run(_make_plan(path, wish, there))
    if as_json:
        click.echo(msgspec.json.encode(plan))
    else:
        click.echo("\n".join(visible(line) for line in ledger(plan, facts)))


async def _make_plan(
    path: str, wish: Wish, there: RecordedMachine | None
) -> tuple[MemoryPlan, ModelFacts]:
    if path.startswith(AT_HUB):
        return await _plan_at_hub(path.removeprefix(AT_HUB), wish, there)
    if there is not None:
        from edgekv.service.elsewhere import plan_elsewhere

        return await plan_elsewhere(path, wish, there)

    from edgekv.service.worker import Worker

    worker = Worker(path, wish)
    try:
        plan = await worker.make_plan()
    except ModelError as refusal:
        return await _plan_from_header(path, wish, refusal)
    finally:
        await worker.close()
    assert worker.facts is not None
    return plan, worker.facts


async def _plan_at_hub(
    name: str, wish: Wish, there: RecordedMachine | None
) -> tuple[MemoryPlan, ModelFacts]:
    """The plan of a model of which nothing is here. Its header is all that is transferred."""
    from edgekv.models.forecast import Place
    from edgekv.models.hub import connect
    from edgekv.models.remote import plan_at_hub
    from edgekv.models.wanted import choose_at_hub
    from edgekv.service.devices import read_place

    hub = connect()
    chosen = choose_at_hub(hub, name)
    place = await read_place() if there is None else Place(there.machine, there.devices)
    made = await plan_at_hub(hub, chosen, place, wish)
    notes = () if there is None else (f"{NOT_HERE} it is planned for {there.title}.",)
    return structs.replace(made.plan, limits=(*notes, *made.plan.limits)), made.facts


async def _plan_from_header(
    path: str, wish: Wish, refusal: ModelError
) -> tuple[MemoryPlan, ModelFacts]:
    """The plan of a file that llama.cpp refused, if it has a header. Raises the refusal if not,
    for a part of a model, which nobody wants planned but whole, and where adapters or workers would
    need the model to be judged.
    """
    if wish.adapters or wish.workers:
        raise refusal
    from edgekv.models.gguf_walk import walk_file
    from edgekv.models.header_plan import has_data, plan_from_header
    from edgekv.service.devices import read_place

    try:
        header = walk_file(Path(path))
        if isinstance(refusal, DamagedModel) and has_data(Path(path), header):
            raise refusal
        made = await plan_from_header(header, path, await read_place(), wish, str(refusal))
    except (ModelError, OSError):
        raise refusal from None
    return made.plan, made.facts


def ledger(plan: MemoryPlan, facts: ModelFacts) -> Iterator[str]:
    """The plan as lines of text for people."""
    model = plan.model
    if plan.limits[0].startswith(NOT_HERE):
        yield plan.limits[0]
        yield ""
    yield f"{model.name}  ({model.architecture}, {format_size(model.file_bytes)}, {model.path})"
    yield ""
    yield from _choice(plan)
    for device in plan.devices:
        yield ""
        yield from _device(plan, device)
    yield ""
    total, budget = format_size(plan.total_bytes), format_size(plan.budget_bytes)
    yield f"In all {total} of {budget} that may be used."
    yield from _steps(facts, plan.choice)
    yield ""
    yield "What bounds it:"
    yield from (f"  - {sentence}" for sentence in plan.limits)


def _choice(plan: MemoryPlan) -> Iterator[str]:
    choice = plan.choice
    pool = f"{choice.cells:,} cells"
    if choice.cells < choice.context_length * choice.slots:
        pool += ", shared by the slots"
    computing = counted(choice.threads, "thread")
    on_workers = sum(choice.worker_layers)
    if choice.gpu_layers > on_workers:
        on_graphics = choice.gpu_layers - on_workers
        computing += f", {counted(on_graphics, 'layer')} on a graphics device"
    if choice.host_experts:
        computing += f", the experts of {choice.host_experts:,} of them on the host"
    if on_workers:
        computing += f", {counted(on_workers, 'layer')} on workers"
    rows = (
        ("context", f"{choice.context_length:,} tokens a conversation"),
        ("slots", f"{counted(choice.slots, 'conversation')} at once, {choice.kept} more kept"),
        ("pool", pool),
        ("KV type", kv_words(plan)),
        ("computed by", computing),
    )
    yield from (f"  {name:12}{text}" for name, text in rows)


def _device(plan: MemoryPlan, device: PlannedDevice) -> Iterator[str]:
    lines = [line for line in plan.lines if line.device == device.id]
    used = sum(line.bytes for line in lines)
    far = "" if device.latency_ms is None else f", {device.latency_ms:.2g} ms there and back"
    yield f"{device.id}  {device.name}{far}"
    yield (
        f"  {_bar(used, device.budget_bytes)} {format_size(used)} of "
        f"{format_size(device.budget_bytes)}, {format_size(device.free_bytes)} free "
        f"({device.source})"
    )
    for line in lines:
        yield f"  {line.label:12}{format_size(line.bytes):>11}  {line.how}"


def _bar(used: int, budget: int) -> str:
    # A claim that is there shows, however small its part.
    filled = max(1, used * BAR_LENGTH // budget) if used and budget else 0
    return f"[{'#' * filled:.<{BAR_LENGTH}}]"


def _steps(facts: ModelFacts, choice: Choice) -> Iterator[str]:
    costs = step_costs(facts, choice)
    if costs is None:
        return
    token = f"{costs.token:,} bytes" if costs.token else "no memory"
    yield f"One token takes {token}; 1,024 more in the pool {format_size(costs.thousand_tokens)}."
    yield (
        f"One more slot takes {format_size(costs.slot)} with a whole context of its own, "
        f"{format_size(costs.sharing_slot)} if it shares the pool."
    )

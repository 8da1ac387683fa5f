"""The loads of the suite by name: the scripts beside this one, with the published sizes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bench import decode, fan_out, priorities, spike, stall, turns
from bench.clients import Client

Figures = dict[str, object]
AT_ONCE = (1, 4, 16)
"""Answers that are decoded beside each other."""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    what: str
    """What is asked, for the head of a row."""
    slots: int
    cells: int
    context_length: int
    rounds: int
    minutes: float
    """About how long one server takes for a round, on two quiet cores."""
    run: Callable[[Client], Awaitable[Figures]]


async def _decode(client: Client, tokens: int) -> Figures:
    speeds = await decode.speeds(client, list(AT_ONCE), tokens)
    return {
        f"tokens_per_second_at_{n}": v and round(v, 1) for n, v in speeds.items()
    } | client.totals()


FULL = (
    Workload(
        "fan_out",
        "16 clients at once behind one system prompt of 1,000 words, 8,192 cells",
        *(16, 8192, 8192),
        rounds=3,
        minutes=0.5,
        run=lambda client: fan_out.burst(client, fan_out.chats(16, 1000, 40), 48),
    ),
    Workload(
        "spike",
        "8 clients that want 5,000 tokens in all, 2,048 cells",
        *(8, 2048, 2048),
        rounds=3,
        minutes=0.5,
        run=lambda client: spike.burst(client, 8, 200, 400),
    ),
    Workload(
        "turns",
        "6 conversations of 6 turns, one after the other, 2,048 cells",
        *(4, 2048, 2048),
        rounds=1,
        minutes=0.9,
        run=lambda client: turns.run(client, 6, 6, 32),
    ),
    Workload(
        "stall",
        "an answer under way while a prompt of 3,000 words comes",
        *(4, 16384, 8192),
        rounds=1,
        minutes=1.2,
        run=lambda client: stall.run(client, 3000, 400),
    ),
    Workload(
        "decode",
        "1, 4 and 16 answers at once that share nothing",
        *(16, 8192, 8192),
        rounds=2,
        minutes=0.7,
        run=lambda client: _decode(client, 128),
    ),
    Workload(
        "priorities",
        "32 clients of three priorities, 4,096 cells",
        *(16, 4096, 2048),
        rounds=1,
        minutes=1.0,
        run=lambda client: priorities.run(client, 32),
    ),
)
SHORT_FORMS: dict[str, tuple[str, Callable[[Client], Awaitable[Figures]]]] = {
    "fan_out": (
        "4 clients at once behind one system prompt of 100 words",
        lambda client: fan_out.burst(client, fan_out.chats(4, 100, 10), 8),
    ),
    "spike": ("2 clients that want 24 tokens", lambda client: spike.burst(client, 2, 20, 12)),
    "turns": ("2 conversations of 2 turns", lambda client: turns.run(client, 2, 2, 4)),
    "stall": (
        "an answer under way while a prompt of 60 words comes",
        lambda client: stall.run(client, 60, 8),
    ),
    "decode": ("1, 4 and 16 short answers at once", lambda client: _decode(client, 20)),
    "priorities": ("3 clients of three priorities", lambda client: priorities.run(client, 3)),
}
SHORT = tuple(
    replace(
        workload,
        what=f"{SHORT_FORMS[workload.name][0]} (short form)",
        run=SHORT_FORMS[workload.name][1],
        rounds=1,
        minutes=0.3,
    )
    for workload in FULL
)
"""Just long enough to see that everything works. Their figures say nothing."""

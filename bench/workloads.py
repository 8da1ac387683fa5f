"""The loads of the suite by name: the scripts beside this one, with the published sizes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bench import decode, fan_out, priorities, spike, stall, turns
from bench.asking import Asking, Chats, Figures
from bench.clients import Client
from bench.contestants import Contestant, Peers, Room, contestants, keepers, with_workers
from bench.geometry import f16_bytes
from bench.mixed_trace import Replay, mixed
from bench.returning import Conversations, Returning

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
    asking: Callable[[Room], Asking]
    servers: Callable[[Peers], list[Contestant]] = contestants
    """Who takes part."""


def _chats(ask: Callable[[Client], Awaitable[Figures]]) -> Callable[[Room], Asking]:
    return lambda _: Chats(ask)


async def _decode(client: Client, tokens: int, at_once: tuple[int, ...] = AT_ONCE) -> Figures:
    speeds = await decode.speeds(client, list(at_once), tokens)
    return {
        f"tokens_per_second_at_{n}": v and round(v, 1) for n, v in speeds.items()
    } | client.totals()


def _returning(room: Room, conversations: Conversations) -> Returning:
    return Returning(conversations, f16_bytes(room.model, room.cells))


FULL = (
    Workload(
        "fan_out",
        "16 clients at once behind one system prompt of 1,000 words, 8,192 cells",
        *(16, 8192, 8192),
        rounds=3,
        minutes=0.5,
        asking=_chats(lambda client: fan_out.burst(client, fan_out.chats(16, 1000, 40), 48)),
    ),
    Workload(
        "spike",
        "8 clients that want 5,000 tokens in all, 2,048 cells",
        *(8, 2048, 2048),
        rounds=3,
        minutes=0.5,
        asking=_chats(lambda client: spike.burst(client, 8, 200, 400)),
    ),
    Workload(
        "turns",
        "6 conversations of 6 turns, one after the other, 2,048 cells",
        *(4, 2048, 2048),
        rounds=1,
        minutes=0.9,
        asking=_chats(lambda client: turns.run(client, 6, 6, 32)),
    ),
    Workload(
        "stall",
        "an answer under way while a prompt of 3,000 words comes",
        *(4, 16384, 8192),
        rounds=1,
        minutes=1.2,
        asking=_chats(lambda client: stall.run(client, 3000, 400)),
    ),
    Workload(
        "decode",
        "1, 4 and 16 answers at once that share nothing",
        *(16, 8192, 8192),
        rounds=2,
        minutes=0.7,
        asking=_chats(lambda client: _decode(client, 128)),
    ),
    Workload(
        "priorities",
        "32 clients of three priorities, 4,096 cells",
        *(16, 4096, 2048),
        rounds=1,
        minutes=1.0,
        asking=_chats(lambda client: priorities.run(client, 32)),
    ),
    Workload(
        "trace",
        "112 requests of two public traces within 60 s, 4,096 cells",
        *(4, 4096, 2048),
        rounds=1,
        minutes=1.6,
        asking=lambda _: Replay(mixed(112, seconds=60), num_words=40_009),
    ),
    Workload(
        "returning",
        "36 conversations of 250 tokens that come back, with the memory of 4,352 cells of f16",
        *(17, 4352, 512),
        rounds=1,
        minutes=1.0,
        asking=lambda room: _returning(room, Conversations(36, 250, num_words=40_009)),
        servers=keepers,
    ),
    Workload(
        "workers",
        "1 and 4 answers at once, with half of the layers on a worker of the same machine",
        *(4, 4096, 2048),
        rounds=3,
        minutes=0.3,
        asking=_chats(lambda client: _decode(client, 64, (1, 4))),
        servers=with_workers,
    ),
)
SHORT_FORMS: dict[str, tuple[str, Callable[[Room], Asking]]] = {
    "fan_out": (
        "4 clients at once behind one system prompt of 100 words",
        _chats(lambda client: fan_out.burst(client, fan_out.chats(4, 100, 10), 8)),
    ),
    "spike": (
        "2 clients that want 24 tokens",
        _chats(lambda client: spike.burst(client, 2, 20, 12)),
    ),
    "turns": ("2 conversations of 2 turns", _chats(lambda client: turns.run(client, 2, 2, 4))),
    "stall": (
        "an answer under way while a prompt of 60 words comes",
        _chats(lambda client: stall.run(client, 60, 8)),
    ),
    "decode": (
        "1, 4 and 16 short answers at once",
        _chats(lambda client: _decode(client, 20)),
    ),
    "priorities": (
        "3 clients of three priorities",
        _chats(lambda client: priorities.run(client, 3)),
    ),
    "trace": (
        "24 requests of two public traces",
        lambda _: Replay(mixed(24, seconds=1), num_words=150),
    ),
    "returning": (
        "2 conversations of 24 tokens that come back",
        lambda room: _returning(room, Conversations(2, 24, num_words=150)),
    ),
    "workers": (
        "1 and 2 short answers, with half of the layers on a worker of the same machine",
        _chats(lambda client: _decode(client, 12, (1, 2))),
    ),
}
SHORT = tuple(
    replace(
        workload,
        what=f"{SHORT_FORMS[workload.name][0]} (short form)",
        asking=SHORT_FORMS[workload.name][1],
        rounds=1,
        minutes=0.3,
    )
    for workload in FULL
)
"""Just long enough to see that everything works. Their figures say nothing."""

"""Runs an engine on the strict fake and compares its books with the cells after every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgekv.core.events import EngineEvent, Failed, Finished, Sampled, Started
from edgekv.core.request import Priority, Request, RequestId, SamplingParams, Token
from edgekv.engine.engine import Engine, Limits
from edgekv.kv.prefix_cache import PrefixCache
from edgekv.kv.store import Store
from tests.cell_backend import CellBackend

END = Token(0)
FAR_TOO_MANY_STEPS = 5_000


def tokens(numbers: Iterable[int]) -> tuple[Token, ...]:
    return tuple(Token(n) for n in numbers)


def request(
    name: str,
    prompt: Iterable[int],
    max_tokens: int = 4,
    *,
    seed: int | None = None,
    ignore_end: bool = False,
    priority: Priority = Priority.NORMAL,
) -> Request:
    return Request(
        RequestId(name),
        tokens(prompt),
        max_tokens,
        SamplingParams(seed=seed),
        ignore_end,
        priority=priority,
    )


@dataclass(eq=False, kw_only=True)
class Driver:
    """`answers`, `started` and `ends` are what the engine has told so far."""

    num_cells: int = 400
    slots: int = 4
    kept: int = 0
    batch_tokens: int = 64
    sharing: bool = True
    max_waiting: int | None = None
    store: Store | None = None
    own_backend: CellBackend | None = None

    def __post_init__(self) -> None:
        self.backend = self.own_backend or CellBackend(
            self.num_cells, self.slots + self.kept, batch_tokens=self.batch_tokens
        )
        self.engine = Engine(
            self.backend,
            Limits(self.slots, self.num_cells, self.batch_tokens, self.max_waiting),
            end_tokens=frozenset({END}),
            sharing=self.sharing,
            store=self.store,
        )
        self.answers: dict[RequestId, list[Token]] = {}
        self.generated_before: dict[RequestId, int] = {}
        self.started: dict[RequestId, Started] = {}
        self.ends: dict[RequestId, Finished | Failed] = {}

    def submit(self, *requests: Request) -> None:
        for one in requests:
            self.engine.submit(one)
            self.answers[one.id] = []
            self.generated_before[one.id] = len(one.generated)

    def step(self) -> list[EngineEvent]:
        events = self.engine.step()
        self.hear(events)
        self.compare_books()
        return events

    def cancel(self, name: str) -> None:
        self.hear(self.engine.cancel(RequestId(name)))
        self.compare_books()

    def stop(self, name: str) -> None:
        self.hear(self.engine.stop(RequestId(name)))
        self.compare_books()

    def finish(self, *requests: Request) -> None:
        """Submit, then step until nothing is left to do."""
        self.submit(*requests)
        for _ in range(FAR_TOO_MANY_STEPS):
            if self.engine.is_idle:
                break
            self.step()
        assert self.engine.is_idle, "the engine does not come to an end"
        assert self.ends.keys() == self.answers.keys()
        assert self.engine.snapshot().cells_reserved == 0

    def hear(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            assert event.request_id not in self.ends, "nothing comes after the end"
            match event:
                case Started(request_id):
                    assert request_id not in self.started
                    self.started[request_id] = event
                case Sampled(request_id, token):
                    assert request_id in self.started
                    self.answers[request_id].append(token)
                case Finished(request_id, _, num_generated):
                    already = self.generated_before[request_id]
                    assert num_generated == already + len(self.answers[request_id])
                    self.ends[request_id] = event
                case Failed(request_id):
                    self.ends[request_id] = event

    def compare_books(self) -> None:
        self.engine.check_integrity()
        cache, cells = self.engine._cache, self.backend.cells()
        kept = cache.kept() if isinstance(cache, PrefixCache) else []
        counts = cache.counts()
        assert counts.used == len(cells)
        assert counts.shared == sum(len(cell.holders) > 1 for cell in cells)
        assert counts.kept == sum(cell.holders <= set(kept) for cell in cells)
        assert self.backend.attached() == cache.running()
        for seq_id in [*cache.running(), *kept]:
            assert len(self.backend.visible(seq_id)) == cache.length(seq_id)
            if isinstance(cache, PrefixCache):
                assert self.backend.visible(seq_id) == cache.tokens(seq_id)

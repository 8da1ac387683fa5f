"""Prometheus metrics: the engine's own counts as they are, and times as a client sees them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from contextlib import aclosing

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from edgekv.core.events import AnswerStream, Delta, Finished
from edgekv.core.plan import BufferSize, CostLine
from edgekv.errors import Overloaded
from edgekv.server.load_metrics import load_families
from edgekv.server.memory_metrics import memory_families
from edgekv.service.load_watch import LoadWatch
from edgekv.service.worker import Worker

FIRST_TOKEN_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
TOKEN_GAP_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

Family = CounterMetricFamily | GaugeMetricFamily


class Metrics:
    def __init__(self, worker: Worker, load: LoadWatch) -> None:
        """`load` is told who comes and who leaves."""
        self._load = load
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(worker, load))
        self._requests = Counter(
            "edgekv_requests",
            "Requests by how they ended: stop, length, cancelled, expired, refused or failed.",
            ["outcome"],
            registry=self._registry,
        )
        self._first_token = Histogram(
            "edgekv_first_token_seconds",
            "From a request's arrival to the first text of its answer.",
            buckets=FIRST_TOKEN_SECONDS,
            registry=self._registry,
        )
        self._token_gap = Histogram(
            "edgekv_token_gap_seconds",
            "Between one piece of an answer and the next.",
            buckets=TOKEN_GAP_SECONDS,
            registry=self._registry,
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def count(self, outcome: str) -> None:
        self._requests.labels(outcome).inc()

    async def watch(self, events: AnswerStream, arrived: float) -> AnswerStream:
        """The same events, measured. `arrived` is a `time.monotonic()`.

        A request that fails is not counted here but where its error is answered.
        """
        last, histogram, was_in = arrived, self._first_token, True
        self._load.come()
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Delta):
                        now = time.monotonic()
                        histogram.observe(now - last)
                        last, histogram = now, self._token_gap
                    elif isinstance(event, Finished):
                        self.count(event.reason.value)
                    yield event
        except (asyncio.CancelledError, GeneratorExit):
            self.count("cancelled")
            raise
        except Overloaded:
            was_in = False
            raise
        finally:
            if was_in:
                self._load.end()


class _EngineCollector(Collector):
    """Reads the worker when somebody asks, so that nothing is counted twice."""

    def __init__(self, worker: Worker, load: LoadWatch) -> None:
        self._worker, self._load = worker, load

    def collect(self) -> Iterator[Family]:
        yield from self._pool()
        yield from self._tokens()
        yield from self._swap()
        yield from self._memory()
        yield from memory_families(self._worker.watch.view())
        yield from load_families(self._load.forecast)

    def _pool(self) -> Iterator[Family]:
        snapshot = self._worker.snapshot
        cells = GaugeMetricFamily(
            "edgekv_cells",
            "Cells by state. used and free are all there are; shared and kept are part of used, "
            "reserved of free.",
            labels=["state"],
        )
        cells.add_metric(["used"], snapshot.cells_used)
        cells.add_metric(["free"], snapshot.num_cells - snapshot.cells_used)
        cells.add_metric(["shared"], snapshot.cells_shared)
        cells.add_metric(["kept"], snapshot.cells_kept)
        cells.add_metric(["reserved"], snapshot.cells_reserved)
        yield cells
        yield GaugeMetricFamily(
            "edgekv_queue_length", "Requests that wait for a slot.", snapshot.num_waiting
        )
        yield GaugeMetricFamily(
            "edgekv_running", "Requests that are being answered.", snapshot.num_running
        )

    def _tokens(self) -> Iterator[Family]:
        snapshot = self._worker.snapshot
        prompt = CounterMetricFamily(
            "edgekv_prompt_tokens",
            "Prompt tokens by source, since the engine started.",
            labels=["source"],
        )
        prompt.add_metric(["computed"], snapshot.prompt_tokens_computed)
        prompt.add_metric(["reused"], snapshot.prompt_tokens_reused)
        prompt.add_metric(["restored"], snapshot.prompt_tokens_restored)
        yield prompt
        yield CounterMetricFamily(
            "edgekv_generated_tokens",
            "Tokens of answers, since the engine started.",
            snapshot.tokens_generated,
        )
        yield CounterMetricFamily(
            "edgekv_engine_restarts",
            "Times that the engine process died and was started again.",
            self._worker.num_restarts,
        )

    def _swap(self) -> Iterator[Family]:
        snapshot = self._worker.snapshot
        yield GaugeMetricFamily(
            "edgekv_suspended",
            "Requests whose cells wait outside the pool.",
            snapshot.num_suspended,
        )
        yield CounterMetricFamily(
            "edgekv_suspensions",
            "Times that a request made room for another, since the engine started.",
            snapshot.num_suspensions,
        )
        yield CounterMetricFamily(
            "edgekv_recomputed_tokens",
            "Computed again after a suspension, because the store had lost their cells.",
            snapshot.tokens_recomputed,
        )
        swapped = CounterMetricFamily(
            "edgekv_swap_bytes",
            "Moved between the pool and the store, since the engine started.",
            labels=["direction"],
        )
        swapped.add_metric(["out"], snapshot.swap_bytes_out)
        swapped.add_metric(["in"], snapshot.swap_bytes_in)
        yield swapped
        store = GaugeMetricFamily(
            "edgekv_store_bytes", "What the store holds, by place.", labels=["place"]
        )
        store.add_metric(["host"], snapshot.store_host_bytes)
        store.add_metric(["disk"], snapshot.store_disk_bytes)
        yield store

    def _memory(self) -> Iterator[Family]:
        plan, allocation = self._worker.plan, self._worker.allocation
        yield _by_line(
            "edgekv_memory_planned_bytes", "What the plan claims.", plan.lines if plan else ()
        )
        yield _by_line(
            "edgekv_memory_measured_bytes",
            "What llama.cpp allocated.",
            allocation.buffers if allocation else (),
        )
        yield GaugeMetricFamily(
            "edgekv_engine_resident_bytes",
            "Resident memory of the engine process, mapped weights included.",
            self._worker.snapshot.resident_bytes,
        )


def _by_line(name: str, text: str, parts: Sequence[CostLine | BufferSize]) -> GaugeMetricFamily:
    """A device may hold several buffers for one line of the plan."""
    totals: Tally[tuple[str, str]] = Tally()
    for part in parts:
        totals[part.device, part.label] += part.bytes
    family = GaugeMetricFamily(name, text, labels=["device", "line"])
    for labels, num_bytes in totals.items():
        family.add_metric(labels, num_bytes)
    return family

"""How short memory is and what was given up for it, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from edgekv.budget.pressure import Level
from edgekv.service.memory_view import MemoryView

STEPS = ("tight", "scarce", "critical", "smaller", "at_least", "eased", "larger", "ran_out")


def memory_families(view: MemoryView) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    yield GaugeMetricFamily(
        "edgekv_memory_level",
        "How short memory is: 0 calm, 1 tight, 2 scarce, 3 critical.",
        Level[view.level.upper()],
    )
    spare = GaugeMetricFamily(
        "edgekv_memory_spare_bytes",
        "Left once the plan is filled; below 0 it cannot be.",
        labels=["device"],
    )
    margin = GaugeMetricFamily(
        "edgekv_memory_margin_bytes", "What should be left then.", labels=["device"]
    )
    for room in view.rooms:
        spare.add_metric([room.device], room.spare_bytes)
        margin.add_metric([room.device], room.margin_bytes)
    yield spare
    yield margin
    yield GaugeMetricFamily(
        "edgekv_memory_stall_percent",
        "Of the last ten seconds, how much everybody waited for memory.",
        view.stall_percent,
    )
    steps = CounterMetricFamily(
        "edgekv_memory_steps",
        "Steps taken when memory got short or was there again, since the start.",
        labels=["step"],
    )
    for step in STEPS:
        steps.add_metric([step], view.counts.get(step, 0))
    yield steps

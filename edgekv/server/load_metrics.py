"""How requests come and end, and where that leads, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from prometheus_client.core import GaugeMetricFamily

from edgekv.traffic.load import Forecast, Wall


def load_families(forecast: Forecast) -> Iterator[GaugeMetricFamily]:
    yield GaugeMetricFamily(
        "edgekv_load_level",
        "Where the load leads: 0 calm, 1 requests wait for long, 2 the queue will soon be full, "
        "3 it is full.",
        forecast.level,
    )
    yield GaugeMetricFamily(
        "edgekv_come_per_second",
        "Requests that come, over the last minute or so.",
        forecast.come_per_second,
    )
    yield GaugeMetricFamily(
        "edgekv_end_per_second",
        "Requests that end while others wait, over the last minutes in which any did.",
        forecast.end_per_second,
    )
    yield GaugeMetricFamily(
        "edgekv_expected_wait_seconds",
        "How long a request that comes now waits for its start.",
        forecast.wait_seconds,
    )
    full_in = forecast.full_in_seconds
    yield GaugeMetricFamily(
        "edgekv_queue_full_in_seconds",
        "Until the queue is full at these rates; +Inf if it does not grow.",
        inf if full_in is None else full_in,
    )
    wall = GaugeMetricFamily(
        "edgekv_wall", "1 for the wall that requests wait at.", labels=["wall"]
    )
    for one in Wall:
        wall.add_metric([one.value], forecast.wall is one)
    yield wall

"""docs/metrics.md and the dashboard say of metrics what /metrics itself says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.anyio

PAGE = (REPOSITORY / "docs/metrics.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((REPOSITORY / "docs/grafana/edgekv.json").read_text(encoding="utf-8"))
UNBOUNDED = {"device", "line", "outcome"}
"""Labels whose values depend on the machine, or on what was asked."""
GROUPING = re.compile(r"\b(?:by|ignoring) \([^)]*\)")


@pytest.fixture
async def families(client: httpx.AsyncClient) -> list[Metric]:
    """After one answer, so that every metric has a sample."""
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3}
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    text = (await client.get("/metrics")).text
    # When a count began is a sample of its own in the text form, and no metric of ours.
    return [
        family
        for family in text_string_to_metric_families(text)
        if not family.name.endswith("_created")
    ]


def exposed(family: Metric) -> str:
    return family.name + "_total" * (family.type == "counter")


def labels(family: Metric) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            values.setdefault(label, set()).add(value)
    values.pop("le", None)
    return values


def row(family: Metric) -> str:
    told = ", ".join(
        f"`{label}`"
        if label in UNBOUNDED
        else f"`{label}`: {', '.join(f'`{value}`' for value in sorted(values))}"
        for label, values in labels(family).items()
    )
    cell = f" {told} " if told else " "
    return f"| `{exposed(family)}` | {family.type} |{cell}| {family.documentation} |"


async def test_the_page_has_a_row_for_every_metric_in_its_own_words(
    families: list[Metric],
) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `edgekv_")]
    told = [row(family) for family in families]
    assert sorted(rows) == sorted(told)


def queries() -> Iterator[str]:
    yield from re.findall(r"`([^`]*edgekv_[^`]*)`", PAGE)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if isinstance(variable["query"], dict):
            yield variable["query"]["query"]


def known(families: list[Metric]) -> set[str]:
    """The names that a query may have; a metric of times is also asked for as a whole."""
    samples = {sample.name for family in families for sample in family.samples}
    return samples | {exposed(family) for family in families}


async def test_every_query_names_metrics_and_labels_that_exist(families: list[Metric]) -> None:
    names = known(families)
    by_name = {
        name: labels(family)
        for family in families
        for name in {exposed(family), *(sample.name for sample in family.samples)}
    }
    assert any("edgekv_cells" in query for query in queries())
    for query in queries():
        for name, selected in re.findall(r"(edgekv_\w+)(?:\{([^}]*)\})?", query):
            assert name in names, query
            for label, equals, value in re.findall(r'(\w+)(=~?)"([^"]*)"', selected):
                # Prometheus itself adds which server a sample is of.
                assert label == "instance" or label in by_name[name], query
                assert equals == "=~" or value in by_name[name][label], query


async def test_the_dashboard_shows_every_metric_there_is(families: list[Metric]) -> None:
    shown = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    missing = [f.name for f in families if not re.search(rf"\b{f.name}(_total|_bucket)?\b", shown)]
    assert missing == []


async def test_what_a_query_groups_by_is_a_label_of_its_metric(families: list[Metric]) -> None:
    of: dict[str, Any] = {
        sample.name: {*sample.labels} for family in families for sample in family.samples
    }
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            name = re.search(r"edgekv_\w+", target["expr"])
            assert name is not None
            groups = {
                label
                for group in GROUPING.findall(target["expr"])
                for label in re.findall(r"\w+", group.partition("(")[2])
            }
            drawn = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert groups | drawn - {"instance"} <= of[name[0]] | {"instance"}, target["expr"]

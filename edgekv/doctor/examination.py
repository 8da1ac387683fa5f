"""Everything the doctor looks at, in the order in which one thing rests on another."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from edgekv.doctor.finding import Finding, warning
from edgekv.doctor.host import Host
from edgekv.doctor.library import Broken, examine_broken, examine_library, read_facts
from edgekv.doctor.memory import examine_memory
from edgekv.doctor.processor import examine_processor
from edgekv.doctor.self_test import examine_by_trying
from edgekv.doctor.surroundings import (
    examine_folders,
    examine_port,
    examine_quarantine,
    examine_settings,
    examine_terminal,
)
from edgekv.errors import ModelError
from edgekv.models.finding import find_model
from edgekv.models.folders import own_folders
from edgekv.service.own_command import own_command


async def examine(host: Host, model: str | None) -> AsyncIterator[Finding]:
    """Findings as they are made. `model` is tried instead of the starter model."""
    for finding in _system(host):
        yield finding
    try:
        facts = read_facts(own_command("library"))
    except Broken as broken:
        # What follows would end in the same way.
        yield examine_broken(host, broken)
        return
    for finding in examine_library(host, facts):
        yield finding
    yield await _trial(model)


def _system(host: Host) -> Iterator[Finding]:
    yield from examine_memory(host)
    yield from examine_processor(host)
    yield from examine_settings(host)
    yield from examine_folders(own_folders())
    yield examine_port()
    yield from examine_terminal(host)
    if host.is_bundle:
        yield from examine_quarantine(host, Path(sys.executable).parent)


async def _trial(model: str | None) -> Finding:
    try:
        path = find_model(model)
    except ModelError as error:
        return warning(
            "self-test", f"not made: {str(error).rstrip('.')}", "edgekv doctor FILE.gguf"
        )
    return await examine_by_trying(path)

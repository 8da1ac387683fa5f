"""What every plan for a model stands on: the machine, the file, and what the gate knows of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from msgspec import structs

from edgekv.budget.machine import Machine
from edgekv.budget.outcomes import Outcome
from edgekv.config.places import data_folder
from edgekv.core.frames import Describe, Described
from edgekv.errors import ModelError
from edgekv.quality.verdicts import Subject, Verdicts
from edgekv.service.engine_client import EngineClient
from edgekv.service.remote_workers import NO_WORKERS, Workers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ground:
    """What every plan for a model on this machine stands on, read while nothing was open."""

    machine: Machine
    described: Described
    tested: tuple[Outcome, ...] = ()
    """What the gate found out about KV types on this model."""
    workers: Workers = NO_WORKERS
    file: tuple[int, ...] | None = None
    """Tells the model's file from another one of that name."""


async def read_ground(client: EngineClient, path: str, machine: Machine) -> Ground:
    """`machine` must have been read before `client` took any memory. Raises `ModelError`."""
    described = await client.call(lambda call: Describe(call, path))
    assert isinstance(described, Described)
    described = structs.replace(described, devices=client.workers.timed(described.devices))
    return Ground(
        machine, described, tested_types(described), client.workers, _file_at(described.facts.path)
    )


def check_file(ground: Ground | None) -> None:
    """Raise `ModelError` if the model's file is another one by now: the plan and the answers under
    way belong to what was there before.
    """
    if ground is not None and ground.file != _file_at(path := ground.described.facts.path):
        raise ModelError(
            f"{path} was replaced or removed while it was in use; start EdgeKV again to use what "
            "is there now."
        )


def subject_of(described: Described) -> Subject:
    """What a verdict of the gate holds for."""
    here = (device for device in described.devices if device.kind != "rpc")
    devices = tuple(device.name or device.id for device in here)
    return Subject(described.facts.path, devices, version("llama-cpp-python"))


def verdicts() -> Verdicts | None:
    """Those kept for this user; None for a user without a home."""
    folder = data_folder()
    return None if folder is None else Verdicts(folder / "verdicts")


def tested_types(described: Described) -> tuple[Outcome, ...]:
    """What is known of the file; nothing of one that cannot be read any more."""
    known = verdicts()
    if known is None:
        return ()
    try:
        found = known.of(subject_of(described))
    except OSError as error:
        _log.warning("verdicts on KV types are not used: %s", error)
        return ()
    return tuple(
        Outcome(v.kv_type_k, v.kv_type_v, v.quick, v.longest, next(iter(v.objections), None))
        for v in found
    )


def _file_at(path: str) -> tuple[int, ...] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size

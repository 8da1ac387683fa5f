"""A machine that is not here: so much memory, or what a file says of it.

The file is JSON: what `edgekv plan --json` printed there, or as little of it as this:

    {"cores": 8, "devices": [
        {"id": "CPU", "kind": "cpu", "total_bytes": "16GiB", "free_bytes": "12GiB"},
        {"id": "CUDA0", "kind": "cuda", "total_bytes": "8GiB", "free_bytes": "7GiB"}]}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgekv.budget.devices import HOST
from edgekv.budget.machine import Machine, Reading, system_reserve
from edgekv.budget.sizes import format_size, parse_size
from edgekv.core.plan import DeviceInfo, DeviceKind

OPTION = "--what-if"
NOT_HERE = "This is not this machine:"
"""How the first limit of a plan for another machine begins."""


@dataclass(frozen=True, slots=True)
class RecordedMachine:
    machine: Machine
    devices: tuple[DeviceInfo, ...]
    """Graphics devices; the processor is in `machine`."""
    title: str
    """What kind of machine it is, for people."""


def recorded_machine(text: str, here: Machine) -> RecordedMachine:
    """The machine of a size like "8GiB", or of a file. What is not said is as it is `here`.

    Raises `ValueError`, whose text is a sentence for the user.
    """
    path = Path(text)
    if path.is_file():
        return _from_file(path, here)
    try:
        num_bytes = parse_size(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is neither an amount of memory like 8GiB nor a file of another machine; "
            "make one there with 'edgekv plan --json'."
        ) from None
    size = format_size(num_bytes)
    return RecordedMachine(
        _machine(num_bytes, num_bytes, f"{OPTION} {text}", here.cores.value),
        (),
        f"a machine with {size} of memory, all of it free, no graphics device",
    )


class _Choice(msgspec.Struct):
    threads: int | None = None


class _Device(msgspec.Struct):
    id: str
    kind: DeviceKind
    total_bytes: int | str
    free_bytes: int | str | None = None
    name: str = ""
    unified: bool = False


class _File(msgspec.Struct):
    devices: tuple[_Device, ...]
    cores: int | None = None
    choice: _Choice = msgspec.field(default_factory=_Choice)
    """A plan says by its threads how many cores there are."""


def _from_file(path: Path, here: Machine) -> RecordedMachine:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
        return _recorded(found, path, here)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(
            f"{path} does not describe a machine ({str(error).rstrip('.')}); "
            "make one there with 'edgekv plan --json'."
        ) from None


def _recorded(found: _File, path: Path, here: Machine) -> RecordedMachine:
    """Raises `ValueError` for numbers that cannot be."""
    hosts = [device for device in found.devices if device.kind == "cpu"]
    if len(hosts) != 1:
        raise ValueError(f"it needs one device of kind cpu and has {len(hosts)}")
    total = _bytes(hosts[0].total_bytes) or 0
    free = _bytes(hosts[0].free_bytes)
    free = total if free is None else free
    if not total or free > total:
        raise ValueError("the host's free_bytes must be at most its total_bytes")
    cores = next(
        number
        for number in (found.cores, found.choice.threads, here.cores.value)
        if number is not None
    )
    if cores < 1:
        raise ValueError("cores must be 1 or more")
    # Workers are no part of a machine, and whether they are there is known only to who asks them.
    own = (device for device in found.devices if device.kind not in {"cpu", "rpc"})
    devices = tuple(map(_info, own))
    return RecordedMachine(
        _machine(total, free, str(path), cores), devices, f"the machine of {path}"
    )


def _info(device: _Device) -> DeviceInfo:
    total, free = _bytes(device.total_bytes), _bytes(device.free_bytes)
    if device.id == HOST or not device.id:
        raise ValueError(f"a graphics device cannot be called '{device.id}'")
    return DeviceInfo(device.id, device.kind, device.name, total or 0, free, device.unified)


def _bytes(given: int | str | None) -> int | None:
    if isinstance(given, str):
        return parse_size(given)
    if given is not None and not 0 <= given < 2**63:
        raise ValueError(f"{given} is no number of bytes")
    return given


def _machine(total: int, free: int, source: str, cores: int) -> Machine:
    reading = Reading(cores, source)
    return Machine(
        Reading(total, source), Reading(free, source), system_reserve(total), reading, reading
    )

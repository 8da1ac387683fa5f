"""What a plan says about its model and its devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgekv.budget.devices import HOST, Budget, MemoryPool
from edgekv.budget.dry_run import DryRun
from edgekv.budget.formulas import kv_bytes_per_cell
from edgekv.budget.geometry import Geometry
from edgekv.core.plan import CostLine, DeviceInfo, ModelFacts, PlannedDevice, PlannedModel


def planned_model(facts: ModelFacts, geometry: Geometry | None, run: DryRun) -> PlannedModel:
    return PlannedModel(
        path=facts.path,
        name=facts.name,
        architecture=facts.architecture,
        file_bytes=facts.file_bytes,
        context_train=facts.context_train,
        kv_bytes_per_cell=_measured_per_cell(run)
        if geometry is None
        else kv_bytes_per_cell(geometry),
    )


def _measured_per_cell(run: DryRun) -> dict[str, int]:
    choice = run.choice
    if choice.kv_type_k != choice.kv_type_v:
        return {}
    return {choice.kv_type_k: run.allocation.total("kv") // choice.cells}


def planned_devices(
    devices: Iterable[DeviceInfo], budget: Budget, lines: Iterable[CostLine]
) -> tuple[PlannedDevice, ...]:
    """Every device with its part of the budget; the parts add up to the pools' budgets."""
    infos = {device.id: device for device in devices}
    host = infos.pop(HOST, DeviceInfo(HOST, "cpu", "processor", 0, None))
    claims = [line for line in lines if line.device == HOST]
    return (
        _host(host, budget, sum(line.bytes for line in claims)),
        *_graphics(infos.values(), budget, sum(line.bytes for line in claims)),
    )


def _host(host: DeviceInfo, budget: Budget, claim_bytes: int) -> PlannedDevice:
    pool = budget.host
    # Where a device shares the pool, the processor's part is what it takes.
    part = pool.budget_bytes if len(pool.device_ids) == 1 else claim_bytes
    return _planned(host, pool, part, unified=len(pool.device_ids) > 1)


def _graphics(
    devices: Iterable[DeviceInfo], budget: Budget, host_claim_bytes: int
) -> Iterator[PlannedDevice]:
    shared_part = max(0, budget.host.budget_bytes - host_claim_bytes)
    for device in devices:
        pool = budget.pool_of(device.id)
        if device.id not in pool.device_ids:
            yield PlannedDevice(
                id=device.id,
                kind=device.kind,
                name=device.name,
                total_bytes=device.total_bytes,
                free_bytes=device.free_bytes or 0,
                budget_bytes=0,
                unified=device.unified,
                source="not used: its free memory cannot be read",
            )
        elif pool is budget.host:
            yield _planned(device, pool, shared_part, unified=True)
            shared_part = 0
        else:
            yield _planned(device, pool, pool.budget_bytes, unified=False)


def _planned(
    device: DeviceInfo, pool: MemoryPool, budget_bytes: int, *, unified: bool
) -> PlannedDevice:
    return PlannedDevice(
        id=device.id,
        kind=device.kind,
        name=f"worker {device.name}" if pool.is_remote else device.name,
        total_bytes=pool.total_bytes,
        free_bytes=pool.free_bytes,
        budget_bytes=budget_bytes,
        unified=unified,
        source=pool.source,
        latency_ms=device.latency_ms,
    )

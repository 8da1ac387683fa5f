"""What a plan gives a simulation to answer with."""

from __future__ import annotations

from edgekv.budget.wish import Wish
from edgekv.traffic.room import bytes_per_cell, room_of
from tests.unit.budget_models import GIB, MIB, plan


def test_copies_have_room_in_host_memory_and_on_disk() -> None:
    made = plan(Wish(host_cache_bytes=320 * MIB))
    assert bytes_per_cell(made) == 32 * 1024
    assert room_of(made).host_cells == 320 * MIB // (32 * 1024)
    assert room_of(made, disk_bytes=GIB).host_cells == (320 * MIB + GIB) // (32 * 1024)


def test_a_cell_with_keys_and_values_of_two_types_takes_half_of_each() -> None:
    made = plan(Wish(kv_type_k="q8_0", kv_type_v="f16"))
    f16, q8_0 = bytes_per_cell(made, "f16"), bytes_per_cell(made, "q8_0")
    assert bytes_per_cell(made) == (f16 + q8_0) // 2

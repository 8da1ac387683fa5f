"""A mixture of experts that is not here, on a graphics device that may not be here either."""

from __future__ import annotations

import asyncio

from edgekv.core.plan import MemoryPlan
from edgekv.models.forecast import Candidate, Place, forecast
from tests.unit.budget_models import GIB, graphics, machine

QWEN3_30B = {
    # https://huggingface.co/Qwen/Qwen3-30B-A3B, config.json
    "general.architecture": "qwen3moe",
    "qwen3moe.block_count": "48",
    "qwen3moe.context_length": "40960",
    "qwen3moe.embedding_length": "2048",
    "qwen3moe.attention.head_count": "32",
    "qwen3moe.attention.head_count_kv": "4",
    "qwen3moe.attention.key_length": "128",
    "qwen3moe.attention.value_length": "128",
    "qwen3moe.expert_count": "128",
    "qwen3moe.expert_used_count": "8",
    "qwen3moe.expert_feed_forward_length": "768",
}
FILE_BYTES = int(17.3 * GIB)  # Q4_K_M


def planned(gpu_bytes: int) -> MemoryPlan:
    candidate = Candidate("Qwen3 30B A3B", QWEN3_30B, FILE_BYTES, vocabulary=151_936)
    place = Place(machine(64 * GIB), (graphics(gpu_bytes),))
    return asyncio.run(forecast(candidate, place))


def on_gpu(made: MemoryPlan, label: str) -> int:
    return sum(line.bytes for line in made.lines if (line.device, line.label) == ("CUDA0", label))


def test_on_a_laptops_gpu_all_layers_compute_and_most_experts_stay_on_the_host() -> None:
    made = planned(8 * GIB)
    choice = made.choice
    assert choice.gpu_layers == 49
    assert 24 < choice.host_experts <= 48
    assert on_gpu(made, "kv") > 0
    assert 0 < on_gpu(made, "weights") < 8 * GIB
    assert any(line.label == "weights" and not line.exact for line in made.lines), (
        "what is divided by a guess says so"
    )


def test_on_a_gpu_that_holds_it_nothing_stays_on_the_host() -> None:
    made = planned(48 * GIB)
    assert made.choice.host_experts == 0
    assert on_gpu(made, "weights") >= 0.9 * FILE_BYTES

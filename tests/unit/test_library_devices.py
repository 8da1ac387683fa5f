"""What ggml says of a device, as a plan counts it."""

from __future__ import annotations

import pytest

from edgekv.core.plan import DeviceKind
from edgekv.llama.library import is_unified

GPU, INTEGRATED = 1, 2
"""ggml's device types."""


@pytest.mark.parametrize(
    ("kind", "ggml_type", "processor", "unified"),
    [
        ("cuda", GPU, "x86_64", False),
        ("cuda", INTEGRATED, "aarch64", True),
        ("vulkan", INTEGRATED, "x86_64", True),
        ("metal", GPU, "arm64", True),
        ("metal", GPU, "x86_64", False),
    ],
)
def test_memory_that_is_the_hosts_is_known_for_it(
    kind: DeviceKind, ggml_type: int, processor: str, unified: bool
) -> None:
    assert is_unified(kind, ggml_type, processor) is unified

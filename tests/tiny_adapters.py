"""LoRA adapters for tests to write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np


def write_adapter(path: Path, architecture: str, pairs: Mapping[str, tuple[int, int]]) -> Path:
    """A LoRA adapter of rank 4 for `pairs`: tensors of a model with the two lengths they have.

    Its changes are large, and different for each file name.
    """
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 4.0)
    draw = np.random.default_rng(list(path.name.encode()))
    for name, (inner, outer) in pairs.items():
        for part, shape in (("lora_a", (4, inner)), ("lora_b", (outer, 4))):
            values = draw.normal(0, 0.5, shape).astype(np.float32)
            writer.add_tensor(f"{name}.{part}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

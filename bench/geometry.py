"""What a model keeps, for loads that are sized by it."""

from __future__ import annotations

from edgekv.budget.formulas import kv_bytes_per_cell
from edgekv.budget.geometry import Geometry, read_geometry
from edgekv.llama.gguf import read_header


def num_layers(model: str) -> int:
    return len(_geometry(model).layers)


def f16_bytes(model: str, cells: int) -> int:
    """Of the keys and values of so many cells."""
    return cells * kv_bytes_per_cell(_geometry(model))["f16"]


def _geometry(model: str) -> Geometry:
    header = read_header(model)
    geometry = header and read_geometry(header.metadata)
    if not geometry:
        raise SystemExit(f"{model} is no model whose keys and values are known")
    return geometry

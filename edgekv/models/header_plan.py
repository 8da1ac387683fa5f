"""A plan made from a header alone: of a file that llama.cpp will not open, or that is elsewhere.

Cells, recurrent state, logits and weights are exact, by closed formulas and the table of tensors;
what only llama.cpp's allocator knows is estimated, and every line says which it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from edgekv.budget.geometry import read_geometry
from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan, ModelFacts
from edgekv.errors import ModelError
from edgekv.models.forecast import Candidate, Place, facts_of, forecast
from edgekv.models.gguf_walk import ALIGNMENT, Walked
from edgekv.models.quantisations import quantisation_label


@dataclass(frozen=True, slots=True)
class HeaderPlan:
    plan: MemoryPlan
    facts: ModelFacts


def has_data(path: Path, header: Walked) -> bool:
    """Whether the file goes on behind its header and what pads it."""
    return path.stat().st_size >= header.num_bytes + ALIGNMENT


async def plan_from_header(
    header: Walked, title: str, place: Place, wish: Wish, reason: str
) -> HeaderPlan:
    """`title` is the file's path or name, `reason` a sentence that says why nothing but its
    header was read; it comes first of what bounds the plan.

    Raises as `forecast`.
    """
    candidate = candidate_of(header, title)
    plan = await forecast(candidate, place, wish)
    geometry = read_geometry(candidate.metadata)
    assert geometry is not None, "forecast refuses what has none"
    caveat = f"Planned from the header alone, so lines marked 'estimated' may be off. {reason}"
    if header.num_tensors == 0:
        caveat += " It lists no tensors, so its weights are not in this plan."
    plan = structs.replace(
        plan, model=structs.replace(plan.model, path=title), limits=(caveat, *plan.limits)
    )
    return HeaderPlan(plan, facts_of(candidate, geometry))


def candidate_of(header: Walked, title: str) -> Candidate:
    """What a forecast needs to know of the model. Raises `ModelError` if it is none."""
    kind = header.metadata.get("general.type", "model")
    if kind == "adapter" or not header.metadata.get("general.architecture"):
        raise ModelError(f"{title} is no model; take another file.")
    return Candidate(
        title=header.metadata.get("general.name") or Path(title).stem,
        metadata=header.metadata,
        file_bytes=header.whole_bytes or header.num_bytes,
        quantisation=quantisation_label(Path(title).name),
        vocabulary=header.num_vocab,
        tensor_bytes=header.tensor_bytes,
        tensors=header.tensors,
    )

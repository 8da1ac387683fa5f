"""Which models fit this machine, and what one would get of each: context, slots and speed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan
from edgekv.errors import DoesNotFit, ModelError
from edgekv.models.bandwidth import Bandwidth, tokens_per_second
from edgekv.models.catalogue import CatalogueFile, CatalogueModel, catalogue
from edgekv.models.forecast import Candidate, Place, forecast
from edgekv.models.gguf_walk import walk_file
from edgekv.models.shelf import LocalModel, local_models

GOOD_CONTEXT = 8192
"""Tokens of a conversation below which a model is not proposed."""
BEARABLE_TOKENS = 4.0
"""Tokens a second below which reading is faster than the answer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of planning for a model: a plan, or the problem in a sentence."""

    plan: MemoryPlan | None = None
    problem: str | None = None
    needed_bytes: int | None = None
    """What the least of it would take, where that is too much."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A model and what this machine makes of it."""

    name: str
    """What to call it in other commands."""
    quantisation: str | None
    num_bytes: int | None
    local: LocalModel | None
    """Where it is on this disk, if it is."""
    model: CatalogueModel | None
    """Its entry in the catalogue, if it has one."""
    outcome: Outcome
    """Neither plan nor problem before it was judged."""
    most_tokens_per_second: float | None = None
    """What the memory's speed allows one answer; None where that is not known."""

    @property
    def fits(self) -> bool:
        return self.outcome.plan is not None


def not_judged_yet() -> tuple[Verdict, ...]:
    """The models on this disk, by the names that `judge_all` gives them. No file is opened."""
    there = local_models()
    known: dict[Path, tuple[str, CatalogueModel]] = {}
    for name, model in _entries():
        _, local = _file_of(model, there)
        if local is not None:
            known[local.path] = name, model
    verdicts = []
    for one in there:
        name, entry = known.get(one.path, (one.name, None))
        verdicts.append(Verdict(name, one.quantisation, one.num_bytes, one, entry, Outcome()))
    return tuple(sorted(verdicts, key=_rank))


async def judge_all(place: Place, bandwidth: Bandwidth | None) -> tuple[Verdict, ...]:
    """Every model on this disk and in the catalogue: those on disk first, then by size."""
    there = local_models()
    of_catalogue = [await _catalogued(*item, there, place, bandwidth) for item in _entries()]
    known = {verdict.local.path for verdict in of_catalogue if verdict.local}
    others = [await _local(one, place, bandwidth) for one in there if one.path not in known]
    return tuple(sorted([*of_catalogue, *others], key=_rank))


def best_of(verdicts: Iterable[Verdict]) -> Verdict | None:
    """What to propose to somebody who has no model: the largest that answers well here."""
    good = [verdict for verdict in verdicts if _answers_well(verdict)]
    return max(good, key=lambda verdict: verdict.num_bytes or 0, default=None)


def _answers_well(verdict: Verdict) -> bool:
    plan, speed = verdict.outcome.plan, verdict.most_tokens_per_second
    if plan is None or verdict.model is None or verdict.model.use == "code":
        return False
    is_quick = speed is None or speed >= BEARABLE_TOKENS
    return is_quick and plan.choice.context_length >= GOOD_CONTEXT


def _entries() -> Iterable[tuple[str, CatalogueModel]]:
    return catalogue().items()


def _rank(verdict: Verdict) -> tuple[bool, int]:
    return verdict.local is None, verdict.num_bytes or 0


async def _catalogued(
    name: str,
    model: CatalogueModel,
    there: tuple[LocalModel, ...],
    place: Place,
    bandwidth: Bandwidth | None,
) -> Verdict:
    file, local = _file_of(model, there)
    size = local.num_bytes if local else file.size
    metadata = model.metadata()
    outcome = Outcome(problem="What it keeps for a token is not known before it is here.")
    if metadata is not None and size is not None:
        candidate = Candidate(model.title, metadata, size, file.quantisation, model.vocabulary)
        outcome = await _judge(candidate, place)
    share = model.experts.active_share if model.experts else 1.0
    return Verdict(
        name=name,
        quantisation=file.quantisation,
        num_bytes=size,
        local=local,
        model=model,
        outcome=outcome,
        most_tokens_per_second=_speed(outcome, bandwidth, size, share),
    )


async def _local(local: LocalModel, place: Place, bandwidth: Bandwidth | None) -> Verdict:
    metadata: dict[str, str] = {}
    try:
        # What describes a model comes before its vocabulary.
        metadata = walk_file(local.path, whole=False).metadata
        candidate = Candidate(local.name, metadata, local.num_bytes, local.quantisation)
        outcome = await _judge(candidate, place)
    except (ModelError, OSError) as error:
        outcome = Outcome(problem=f"{local.path} cannot be used: {error}.")
    # How much of its weights a mixture of experts reads for a token, only its tensors tell.
    is_mixture = any(key.endswith(".expert_count") for key in metadata)
    return Verdict(
        name=local.name,
        quantisation=local.quantisation,
        num_bytes=local.num_bytes,
        local=local,
        model=None,
        outcome=outcome,
        most_tokens_per_second=None
        if is_mixture
        else _speed(outcome, bandwidth, local.num_bytes, 1.0),
    )


def _file_of(
    model: CatalogueModel, there: tuple[LocalModel, ...]
) -> tuple[CatalogueFile, LocalModel | None]:
    """The quantisation that is here, else the usual one."""
    for file in model.files:
        for local in there:
            if local.path.name == Path(file.name).name:
                return file, local
    return model.files[0], None


async def _judge(candidate: Candidate, place: Place) -> Outcome:
    try:
        return Outcome(await forecast(candidate, place, Wish(embeddings=False)))
    except DoesNotFit as error:
        return Outcome(problem=str(error), needed_bytes=error.needed)
    except ModelError as error:
        return Outcome(problem=str(error))


def _speed(
    outcome: Outcome, bandwidth: Bandwidth | None, size: int | None, share: float
) -> float | None:
    """Known only where the processor computes: that memory was measured, a device's was not."""
    plan = outcome.plan
    if plan is None or bandwidth is None or size is None or plan.choice.gpu_layers:
        return None
    return tokens_per_second(bandwidth, int(size * share))

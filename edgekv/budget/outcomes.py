"""What is known of KV types on one model: which may be trusted, and why not the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgekv.budget.kv_types import KV_TYPES, Pair, pair_name
from edgekv.core.plan import Choice, KVStanding, MemoryPlan

EXACT = ("f32", "f16", "bf16")
"""Types that need no test: models are trained in no finer ones."""
QUICK_IS_ENOUGH = ("q8_0",)
"""Below these a quick check shows too little."""
QUICK_LENGTH = 2048
"""Tokens of the conversation of a quick check."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a gate that was run on this model, these devices and this library."""

    kv_type_k: str
    kv_type_v: str
    quick: bool
    longest: int
    """Tokens of the longest conversation that was tested."""
    objection: str | None
    """The first reason against it; None if it passed."""

    @property
    def types(self) -> Pair:
        return self.kv_type_k, self.kv_type_v

    @property
    def is_trusted(self) -> bool:
        """Whether a plan may choose it by itself."""
        return self.objection is None and (not self.quick or set(self.types) <= _QUICK)

    @property
    def most_context(self) -> int | None:
        """Tokens a conversation may hold, as far as was tested; None: any number, on trust."""
        is_whole = self.longest >= QUICK_LENGTH
        return None if set(self.types) <= _QUICK and is_whole else self.longest

    @property
    def bytes_per_element(self) -> float:
        """Of a key and a value together."""
        types = (KV_TYPES[name] for name in self.types)
        return sum(kv_type.block_bytes / kv_type.block_length for kv_type in types)


_QUICK = {*EXACT, *QUICK_IS_ENOUGH}


def trusted(tested: Iterable[Outcome]) -> list[Outcome]:
    """Those a plan may choose, the most precise first."""
    found = (test for test in tested if test.is_trusted)
    return sorted(found, key=lambda test: -test.bytes_per_element)


@dataclass(frozen=True, slots=True)
class Standing:
    word: KVStanding
    sentence: str


def standing(choice: Choice, tested: Iterable[Outcome]) -> Standing | None:
    """What is known of the types of a choice for conversations as long as it allows; None if there
    is nothing to test about them.
    """
    pair = choice.kv_type_k, choice.kv_type_v
    if set(pair) <= set(EXACT):
        return None
    name = pair_name(pair)
    remedy = f"'edgekv validate --kv-type {name}' tests what it does to long answers."
    test = next((test for test in tested if test.types == pair), None)
    if test is None:
        return Standing("unvalidated", f"{name} is unvalidated on this model; {remedy}")
    if test.objection is not None:
        sentence = f"{name} is refused by the gate on this model: {test.objection}."
        return Standing("refused", sentence)
    extent = "quick check" if test.quick else "gate"
    passed = f"{name} passed the {extent} on this model, up to {test.longest:,} tokens"
    if not test.is_trusted:
        return Standing("unvalidated", f"{passed}, and is unvalidated beyond it; {remedy}")
    if choice.context_length <= test.longest:
        return Standing("passed", f"{passed}.")
    longer = f"'edgekv validate --kv-type {name} --longest {choice.context_length}' tests them."
    if test.most_context is None:
        return Standing(
            "passed", f"{passed}; longer conversations are taken on trust, and {longer}"
        )
    return Standing("unvalidated", f"{passed}; longer conversations are unvalidated, and {longer}")


def kv_words(plan: MemoryPlan) -> str:
    """A plan's types for people, and that they are not to be trusted if so."""
    name = pair_name((plan.choice.kv_type_k, plan.choice.kv_type_v))
    return name if plan.kv_standing in {None, "passed"} else f"{name} ({plan.kv_standing})"

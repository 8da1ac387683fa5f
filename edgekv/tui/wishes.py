"""The plan screen's controls and the wish that they stand for. Knows no widget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from edgekv.budget.kv_types import KV_TYPES
from edgekv.budget.wish import Wish
from edgekv.core.plan import Choice

Value: TypeAlias = int | str | None

SMALLEST_CONTEXT = 512
MOST_SLOTS = 16


def context_steps(context_train: int) -> Iterator[int]:
    """Doubling, up to and including what the model was trained on."""
    length = SMALLEST_CONTEXT
    while length < context_train:
        yield length
        length *= 2
    yield context_train


def slot_steps() -> Iterator[int]:
    return iter(range(1, MOST_SLOTS + 1))


def layer_steps(num_layers: int) -> Iterator[int]:
    """Every layer count; one more than the layers moves the output layer too."""
    return iter(range(num_layers + 2))


def kv_type_names() -> Iterator[str]:
    return iter(KV_TYPES)


def values_of(wish: Wish) -> dict[str, Value]:
    """What each control shows for a wish."""
    return {
        "context": wish.context_length,
        "slots": wish.slots,
        "kv": _kv_type(wish.kv_type_k, wish.kv_type_v),
        "layers": wish.gpu_layers,
    }


def planned_words(choice: Choice) -> dict[str, str]:
    """What each control shows where it leaves the value to the plan."""
    return {
        "context": f"{choice.context_length:,}",
        "slots": f"{choice.slots:,}",
        "kv": _kv_type(choice.kv_type_k, choice.kv_type_v) or "",
        "layers": f"{choice.gpu_layers:,}",
    }


def wish_of(values: Mapping[str, Value], before: Wish) -> Wish:
    """`before` with what the controls say. The size of the pool follows from the controls, so
    one that was asked for is left to the plan again as soon as any of them says something else.
    """
    if dict(values) == values_of(before):
        return before
    key_type, value_type = _kv_pair(values["kv"])
    return replace(
        before,
        context_length=_count(values["context"]),
        slots=_count(values["slots"]),
        cells=None,
        kv_type_k=key_type,
        kv_type_v=value_type,
        gpu_layers=_count(values["layers"]),
    )


def _count(value: Value) -> int | None:
    assert not isinstance(value, str)
    return value


def _kv_type(key_type: str | None, value_type: str | None) -> str | None:
    if key_type == value_type:
        return key_type
    return f"{key_type or 'auto'}/{value_type or 'auto'}"


def _kv_pair(value: Value) -> tuple[str | None, str | None]:
    assert not isinstance(value, int)
    if value is None:
        return None, None
    key_type, slash, value_type = value.partition("/")
    names = (key_type, value_type if slash else key_type)
    return _unless_auto(names[0]), _unless_auto(names[1])


def _unless_auto(name: str) -> str | None:
    return None if name == "auto" else name

"""What bounds a plan, and what would lift each bound: the sentences under it."""

from __future__ import annotations

from collections.abc import Iterator

from edgekv.budget.case import Case
from edgekv.budget.devices import Budget
from edgekv.budget.machine import Machine
from edgekv.budget.outcomes import standing
from edgekv.budget.sizes import counted
from edgekv.budget.styles import PLAIN_UBATCHES, UBATCHES
from edgekv.core.plan import CELL_PADDING, Choice

SMALLER = ("q8_0", "q8_0")
"""What is worth a test where memory is short."""


def limit_sentences(
    case: Case, machine: Machine, budget: Budget, choice: Choice
) -> tuple[str, ...]:
    return (
        _context(case, choice),
        *_pool(case, choice),
        *_slots(case, machine, choice),
        *_style(case, choice),
        *_embeddings(case, choice),
        *_threads(case, machine),
        *budget.notes,
    )


def _context(case: Case, choice: Choice) -> str:
    if case.wish.context_length is not None:
        return f"Conversations hold {choice.context_length:,} tokens, because --ctx says so."
    if choice.context_length == case.longest_context:
        return f"Conversations hold all {choice.context_length:,} tokens the model can follow."
    if case.wish.cells is not None:
        return f"--cells bounds conversations to {choice.context_length:,} tokens; raise it."
    return (
        f"Memory bounds conversations to {choice.context_length:,} of the "
        f"{case.longest_context:,} tokens the model can follow; "
        "more memory, fewer --slots or a smaller --kv-type lift that."
    )


def _pool(case: Case, choice: Choice) -> Iterator[str]:
    if case.geometry is not None and not case.geometry.has_cells:
        yield "Tokens take no memory in this model, so memory does not bound the context."
        return
    asked = case.wish.cells or (case.wish.context_length or 0) * choice.slots
    if choice.cells > asked > choice.cells - CELL_PADDING:
        yield f"The pool has {choice.cells:,} cells: llama.cpp rounds up to a multiple of 256."
    if choice.cells < choice.context_length * choice.slots:
        yield (
            f"The {choice.slots} slots share {choice.cells:,} cells, so not all of them can hold "
            f"{choice.context_length:,} tokens at once; more memory or fewer --slots lift that."
        )


def _slots(case: Case, machine: Machine, choice: Choice) -> Iterator[str]:
    if case.wish.slots is not None:
        return
    if choice.slots < case.most_slots:
        yield (
            f"Memory bounds the slots to {choice.slots}; more memory or a smaller --ctx lift that."
        )
    else:
        yield (
            f"{counted(choice.slots, 'slot')}: with {counted(machine.cores.value, 'core')}, more "
            "conversations at once make each slower; --slots lifts that."
        )


def _style(case: Case, choice: Choice) -> Iterator[str]:
    facts, wish = case.facts, case.wish
    if not choice.swa_full and facts.window:
        yield (
            "Window layers keep only their window, because whole windows would cost context or "
            "slots; so prefixes are not shared."
        )
    elif not facts.can_share_prefixes(choice.swa_full):
        yield "Prefixes are not shared: recurrent state cannot go back to an earlier token."
    if wish.kv_type_k is None and wish.kv_type_v is None and choice.kv_type_k != "f16":
        yield f"Keys and values are {choice.kv_type_k}, because f16 would cost context or slots."
    if known := standing(choice, case.tested):
        yield known.sentence
    elif _is_short(case, choice) and not any(test.types == SMALLER for test in case.tested):
        yield (
            "q8_0 keys and values would take half the memory; 'edgekv validate --quick' tests "
            "them on this model, and then the plan may choose them."
        )
    most, *_ = UBATCHES if choice.flash_attention else PLAIN_UBATCHES
    if choice.ubatch < most:
        yield (
            f"Prompts are computed {choice.ubatch} tokens at a time, not {most}, "
            "to leave memory for context and slots; they take a little longer."
        )


def _is_short(case: Case, choice: Choice) -> bool:
    """Whether a plan got less context or fewer slots than people need."""
    wish = case.wish
    decides = wish.kv_type_k is None and wish.kv_type_v is None and not choice.worker_layers
    few = choice.context_length < case.enough_context or choice.slots < case.most_slots
    return decides and few and wish.slots is None


def _embeddings(case: Case, choice: Choice) -> Iterator[str]:
    if case.wish.embeddings is None and not choice.embedding_cells and case.can_embed:
        yield (
            "There is no room for embeddings that costs neither context, slots nor precision; "
            "--embeddings takes it."
        )


def _threads(case: Case, machine: Machine) -> Iterator[str]:
    wished, usable = case.wish.threads, machine.usable_cpus
    if wished is not None and wished > usable.value:
        yield (
            f"--threads {wished} is more than the {counted(usable.value, 'CPU')} usable here "
            f"({usable.source}), so it is {case.threads}."
        )

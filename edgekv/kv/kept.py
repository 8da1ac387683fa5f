"""Finished sequences that still hold cells, in the order in which they are given up.

A pinned prompt has a sequence id of its own, which is given up after all others. When that has
happened the pin has no holder, until a sequence that begins with it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgekv.core.inspection import PinnedRun
from edgekv.core.request import SeqId, Token
from edgekv.errors import InvalidValue
from edgekv.kv.radix_tree import RadixTree


@dataclass(frozen=True, slots=True)
class Pin:
    name: str
    tokens: tuple[Token, ...]


class Kept:
    def __init__(self) -> None:
        self._oldest_first: dict[SeqId, None] = {}
        """Those that hold no pin."""
        self._pinned: dict[SeqId, Pin] = {}
        self._unsaved: dict[SeqId, int] = {}
        """Up to where the copy of a sequence has come."""
        self.pins: list[Pin] = []

    def __contains__(self, seq_id: object) -> bool:
        return seq_id in self._oldest_first or seq_id in self._pinned

    def __iter__(self) -> Iterator[SeqId]:
        """The next to be given up first."""
        yield from self._oldest_first
        yield from self._pinned

    def __len__(self) -> int:
        return len(self._oldest_first) + len(self._pinned)

    @property
    def next(self) -> SeqId:
        return next(iter(self))

    @property
    def loose(self) -> list[SeqId]:
        """Those that hold no pin, the oldest first."""
        return list(self._oldest_first)

    @property
    def unsaved(self) -> tuple[SeqId, int] | None:
        """One whose copy is not whole, and up to where it is."""
        return next(iter(self._unsaved.items()), None)

    def use(self, seq_id: SeqId) -> None:
        """Keep a sequence, or give one up later because it was of use just now."""
        if seq_id not in self._pinned:
            self._oldest_first.pop(seq_id, None)
            self._oldest_first[seq_id] = None
        self._unsaved[seq_id] = 0

    def give_up(self, seq_id: SeqId) -> None:
        self._oldest_first.pop(seq_id, None)
        self._pinned.pop(seq_id, None)
        self._unsaved.pop(seq_id, None)

    def save(self, seq_id: SeqId, done: int | None) -> None:
        """Its copy has come up to `done`; None: it is whole."""
        if done is None:
            del self._unsaved[seq_id]
        else:
            self._unsaved[seq_id] = done

    def unheld(self) -> list[Pin]:
        held = self._pinned.values()
        return [pin for pin in self.pins if pin not in held]

    def hold(self, pin: Pin, seq_id: SeqId) -> None:
        """A kept sequence, or a new one, is nothing but this pin."""
        self._oldest_first.pop(seq_id, None)
        self._pinned[seq_id] = pin
        self._unsaved[seq_id] = 0

    def pin(self, name: str, tokens: Sequence[Token], num_cells: int) -> None:
        """Raises `InvalidValue` if all pins together would take more than half of a pool."""
        needed, most_cells = self._cells_with(tokens), num_cells // 2
        if needed > most_cells:
            raise InvalidValue(
                "warm",
                f"With '{name}' the pinned prompts would take {needed} cells, but they may have "
                f"{most_cells}, half of the pool; shorten them or start with more --cells.",
            )
        self.pins.append(Pin(name, tuple(tokens)))

    def pinned_runs(self, tree: RadixTree) -> tuple[PinnedRun, ...]:
        return tuple(
            PinnedRun(pin.name, len(pin.tokens), tree.match(pin.tokens).length) for pin in self.pins
        )

    def check_integrity(self) -> None:
        assert not self._oldest_first.keys() & self._pinned.keys()
        assert all(seq_id in self for seq_id in self._unsaved)
        assert set(self._pinned.values()) <= set(self.pins)

    def _cells_with(self, more: Sequence[Token]) -> int:
        tree = RadixTree()
        for number, tokens in enumerate([*(pin.tokens for pin in self.pins), more]):
            tree.acquire(SeqId(number))
            tree.advance(SeqId(number), tokens)
        return tree.num_cells

"""Which copies to drop first when the store is full: policies on a recorded trace.

A trace is JSON lines with `hash_ids`, one id a block of a prompt; equal ids are equal blocks behind
an equal beginning, as in the public Mooncake traces. Each policy drops blocks that nothing stored
goes on from, so that what is left can be used.

    python bench/eviction.py --trace conversation_trace.jsonl --blocks 5000

Policies, by the value of a block:

    recency     when it was used last
    cost        recency, and what its tokens take to compute, more the later they come
    hits        recency, and how often it was used
    cost_hits   all three
    cost_hits2  all three, with use squared: what `kv/store.py` does

All but the first are GreedyDual (Young 1994; with size and frequency, Cherkasova 1998): a block is
worth its cost on top of what was dropped last. The last line is one JSON document: the part of all
blocks that needed no computing, and what an unlimited store would have reached.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

COST_OF_DEPTH = 0.02
"""What a block costs more for each block before it: attention over a longer past."""


@dataclass(slots=True, eq=False)
class Block:
    parent: Block | None
    parent_number: int
    depth: int
    last_use: int = 0
    num_uses: int = 0
    num_children: int = 0
    value: float = 0.0

    @property
    def cost(self) -> float:
        return 1 + COST_OF_DEPTH * self.depth


POLICIES: dict[str, Callable[[Block], float] | None] = {
    "recency": None,
    "cost": lambda block: block.cost,
    "hits": lambda block: block.num_uses,
    "cost_hits": lambda block: block.cost * block.num_uses,
    "cost_hits2": lambda block: block.cost * block.num_uses**2,
}


class Cache:
    def __init__(self, limit: int, worth: Callable[[Block], float] | None) -> None:
        self._limit, self._worth = limit, worth
        self._blocks: dict[int, Block] = {}
        self._by_value: list[tuple[float, int, int]] = []
        """(value, -depth, id); out of date where the block has another value by now. A block that
        others go on from need not be here."""
        self._floor = 0.0

    def use(self, prompt: list[int], now: int) -> int:
        """How many of the prompt's blocks were there; now all are."""
        num_known = next((n for n, i in enumerate(prompt) if i not in self._blocks), len(prompt))
        parent: Block | None = None
        parent_number = -1
        for depth, number in enumerate(prompt):
            block = self._blocks.get(number)
            if block is None:
                block = self._blocks[number] = Block(parent, parent_number, depth)
                if parent is not None:
                    parent.num_children += 1
            block.last_use, block.num_uses = now, block.num_uses + 1
            self._put(number, block)
            parent, parent_number = block, number
        self._shrink(now)
        return num_known

    def _put(self, number: int, block: Block) -> None:
        block.value = block.last_use if self._worth is None else self._floor + self._worth(block)
        self._offer(number, block)

    def _offer(self, number: int, block: Block) -> None:
        heapq.heappush(self._by_value, (block.value, -block.depth, number))

    def _shrink(self, now: int) -> None:
        """Drop blocks that nothing goes on from, the least valuable first, but none just used."""
        spared: list[tuple[int, Block]] = []
        while len(self._blocks) > self._limit and self._by_value:
            value, _, number = heapq.heappop(self._by_value)
            block = self._blocks.get(number)
            if block is None or block.value != value or block.num_children:
                continue  # it is offered again when its last child goes
            if block.last_use == now:
                spared.append((number, block))
                continue
            self._floor = max(self._floor, value)
            del self._blocks[number]
            if block.parent is not None:
                block.parent.num_children -= 1
                if not block.parent.num_children:
                    self._offer(block.parent_number, block.parent)
        for number, block in spared:
            self._offer(number, block)


def part_known(prompts: Iterable[list[int]], limit: int, policy: str) -> float:
    cache, known, total = Cache(limit, POLICIES[policy]), 0, 0
    for now, prompt in enumerate(prompts, start=1):
        known += cache.use(prompt, now)
        total += len(prompt)
    return round(known / total, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare policies of dropping stored blocks.")
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--blocks", type=int, default=5000, help="blocks the store holds")
    options = parser.parse_args()
    lines = options.trace.read_text(encoding="utf-8").splitlines()
    prompts = [json.loads(line)["hash_ids"] for line in lines]
    result = {
        "bench": "eviction",
        "trace": options.trace.name,
        "blocks": options.blocks,
        "unlimited": part_known(prompts, sys.maxsize, "recency"),
        **{policy: part_known(prompts, options.blocks, policy) for policy in POLICIES},
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

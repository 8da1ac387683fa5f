"""Copies of cells outside the pool: in host memory under a limit, then on disk under another.

One mechanism for suspended sequences, idle conversations and restarts. An entry holds the cells
at [start, end) of a path of tokens and is found by those tokens alone, so nothing needs to know
why it was put here. Entries chain: one that starts where another ends goes on from it.

    path   1 2 3 4 5 6 7        entry A  cells of [0, 4)
           └── A ──┘└ B ┘       entry B  cells of [4, 7), of use to one who has 1 2 3 4

What is dropped first is what is worth least: it was not used lately or often and is quickly
computed again (GreedyDual with frequency; compared with others by bench/eviction.py). What somebody
has claimed (`kv/claims.py`) stays until the rest has gone: a suspended answer does not lose its
cells to an idle conversation. What is lost here costs time, never an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from edgekv.core.inspection import StoredRun
from edgekv.core.request import SeqId, Token
from edgekv.kv.claims import Claim, Claims, Rank, highest
from edgekv.kv.disk import Disk, DiskCopy
from edgekv.kv.entry import Entry, Stored
from edgekv.kv.lost_paths import LostPaths
from edgekv.kv.radix_tree import RadixTree

COST_OF_POSITION = 1 / 25_600
"""What a cell costs more to compute for each cell before it, in cells: attention looks back."""

FULL = "newer copies took its place in the store"


class Store:
    def __init__(self, *, host_limit_bytes: int = 0, disk: Disk | None = None) -> None:
        """With no room anywhere, as by default, nothing is stored."""
        self._host_limit_bytes, self._disk = host_limit_bytes, disk
        self._tree = RadixTree()
        self._claims = Claims()
        self._entries: dict[SeqId, Entry] = {}
        """The least recently used first."""
        self._floor = 0.0
        """The value of what was dropped last: what is used now is worth so much more than that."""
        self._next_number = 0
        self._to_write: deque[SeqId] = deque()
        """Entries that `rest` has not tried to write yet."""
        self.host_bytes = 0
        self.lost = LostPaths()
        for copy in disk.copies if disk else ():
            self._add(copy.start, copy.tokens, copy.num_bytes, blob=None, copy=copy)
        self._bound_disk(0, Rank.KEPT)

    @property
    def is_on(self) -> bool:
        return self._host_limit_bytes > 0 or self._disk is not None

    @property
    def outlives_process(self) -> bool:
        return self._disk is not None

    @property
    def host_limit_bytes(self) -> int:
        return self._host_limit_bytes

    def limit_host(self, num_bytes: int) -> None:
        """Have no more in host memory from now on; what is beyond goes to disk, or is dropped."""
        self._host_limit_bytes = num_bytes
        self._bound_host(0, Rank.SUSPENDED)

    @property
    def disk_bytes(self) -> int:
        """Files of other models in the same folder included."""
        return self._disk.used_bytes if self._disk else 0

    def runs(self) -> tuple[StoredRun, ...]:
        """For people: what is here, the least recently used first."""
        return tuple(
            StoredRun(e.start, e.end, e.num_bytes, e.blob is not None, e.copy is not None)
            for e in self._entries.values()
        )

    def entries(self) -> list[Entry]:
        """The least recently used first."""
        return list(self._entries.values())

    def find(self, tokens: Sequence[Token], known: int) -> Stored | None:
        """The entry that takes one who has cells for `tokens[:known]` furthest."""
        for end, numbers in self._tree.holders_along(tokens):
            if end <= known:
                return None
            usable = [e for n in numbers if (e := self._entries[n]).start <= known]
            if usable:
                # Of equals the one that brings the fewest cells twice.
                return Stored(max(usable, key=lambda e: (e.start, e.number)), end)
        return None

    def find_whole(self, tokens: Sequence[Token]) -> Stored | None:
        """The longest entry that is the state after exactly some first part of `tokens`."""
        for end, numbers in self._tree.holders_along(tokens):
            whole = [e for n in numbers if (e := self._entries[n]).start == 0 and e.end <= end]
            if whole:
                longest = max(whole, key=lambda e: (e.end, e.number))
                return Stored(longest, longest.end)
        return None

    def nearest(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """The path, with or without its first cells, that has most in common with `tokens`."""
        along = self._tree.holders_along(tokens)
        return self._tree.tokens(min(along[0][1])) if along else ()

    def reach(self, tokens: Sequence[Token], known: int) -> int:
        """How many of `tokens` one would have cells for who now has `known`."""
        while (stored := self.find(tokens, known)) is not None:
            known = stored.end
        return known

    def put(
        self, tokens: Sequence[Token], start: int, blob: bytes, *, may_drop: bool = True
    ) -> bool:
        """Keep the cells of `tokens[start:]`; False if there is no room for so many, beside what
        has a higher rank, or, unless it `may_drop`, beside all that is of any use.
        """
        rank = highest(self._claims.on(tokens, start)) if may_drop else None
        if self._bound_host(len(blob), rank):
            self._add(start, tokens, len(blob), blob=blob, copy=None)
            self.host_bytes += len(blob)
            return True
        copy = self._write(start, tokens, blob, rank)
        if copy is not None:
            self._add(start, tokens, len(blob), blob=None, copy=copy)
        return copy is not None

    def get(self, entry: Entry) -> bytes | None:
        """The cells of an entry, which was thereby used. None, and forgotten, if they are lost."""
        self._use(entry)
        if entry.blob is not None:
            return entry.blob
        assert self._disk is not None
        assert entry.copy is not None
        blob = self._disk.read(entry.copy)
        if blob is None:
            self.forget(entry, "its file was damaged or removed")
        else:
            self._disk.touch(entry.copy)
        return blob

    def claim(self, tokens: Sequence[Token], rank: Rank) -> Claim:
        """Whatever cells of `tokens` are here, or will be, have at least that rank now."""
        claim = self._claims.add(tokens, rank)
        for length, numbers in self._tree.holders_along(tokens):
            for entry in map(self._entries.__getitem__, numbers):
                if entry.start < length:
                    entry.claims.add(claim)
        return claim

    def release(self, claim: Claim) -> None:
        self._claims.remove(claim)
        for entry in self._entries.values():
            entry.claims.discard(claim)

    def forget(self, entry: Entry, how: str) -> None:
        """Drop an entry. `how` is the end of the sentence "It was computed again because …"."""
        self.lost.note(self._tree.tokens(entry.number), how)
        del self._entries[entry.number]
        self._tree.evict(entry.number)
        self._drop_blob(entry)
        self._drop_copy(entry)

    def rest(self) -> bool:
        """Write one entry that only host memory has to the disk; False if none is left.

        Each is tried once, so that a disk too small for all comes to rest as well.
        """
        while self._to_write:
            entry = self._entries.get(self._to_write.popleft())
            if entry is not None and entry.copy is None:
                self._write_entry(entry)
                return True
        return False

    def check_integrity(self) -> None:
        """Raises `AssertionError` if the books do not agree with what is there."""
        self._tree.check_integrity()
        self._claims.check_integrity()
        entries = self._entries.values()
        assert self.host_bytes == sum(e.num_bytes for e in entries if e.blob is not None)
        assert self.host_bytes <= self._host_limit_bytes
        assert self._disk is None or self._disk.used_bytes <= self._disk.limit_bytes
        for number, entry in self._entries.items():
            assert entry.number == number
            assert 0 <= entry.start < entry.end == self._tree.length(number)
            assert entry.blob is not None or entry.copy is not None
            assert entry.claims == self._claims.on(self._tree.tokens(number), entry.start)

    def _add(
        self,
        start: int,
        tokens: Sequence[Token],
        num_bytes: int,
        *,
        blob: bytes | None,
        copy: DiskCopy | None,
    ) -> None:
        number = SeqId(self._next_number)
        self._next_number += 1
        self._tree.acquire(number)
        self._tree.advance(number, tokens)
        entry = Entry(number, start, len(tokens), num_bytes, blob, copy)
        entry.claims |= self._claims.on(tokens, start)
        self._entries[number] = entry
        self._use(entry)
        if blob is not None and self._disk is not None:
            self._to_write.append(number)

    def _bound_host(self, num_bytes: int, rank: Rank | None) -> bool:
        """Move what is worth least to disk, or drop it, until so much more fits.

        False if it would not, or only if something of a higher rank were dropped.
        """
        if num_bytes > self._host_limit_bytes:
            return False
        while self.host_bytes + num_bytes > self._host_limit_bytes:
            least = self._least([e for e in self._entries.values() if e.blob is not None])
            if least.copy is not None or self._write_entry(least):
                self._drop_blob(least)
            elif rank is not None and least.rank <= rank:
                self.forget(least, FULL)
            else:
                return False
        return True

    def _write_entry(self, entry: Entry) -> bool:
        assert entry.blob is not None
        tokens = self._tree.tokens(entry.number)
        entry.copy = self._write(entry.start, tokens, entry.blob, entry.rank)
        return entry.copy is not None

    def _write(
        self, start: int, tokens: Sequence[Token], blob: bytes, rank: Rank | None
    ) -> DiskCopy | None:
        if self._disk is None:
            return None
        self._bound_disk(self._disk.file_bytes(len(tokens), len(blob)), rank)
        return self._disk.write(start, tokens, blob)

    def _bound_disk(self, num_bytes: int, rank: Rank | None) -> None:
        """Remove the files that are worth least until so much more fits, as far as `rank` goes."""
        if self._disk is None or num_bytes > self._disk.limit_bytes:
            return
        while not self._disk.fits(num_bytes):
            least = self._least([e for e in self._entries.values() if e.copy is not None])
            if least.blob is not None:
                self._drop_copy(least)
            elif rank is not None and least.rank <= rank:
                self.forget(least, FULL)
            else:
                return

    def _use(self, entry: Entry) -> None:
        self._entries[entry.number] = self._entries.pop(entry.number)
        entry.num_uses += 1
        cost = 1 + COST_OF_POSITION * entry.start
        # Squared: what was of use twice will be so again more than twice as likely.
        entry.value = self._floor + cost * entry.num_uses**2

    def _least(self, entries: list[Entry]) -> Entry:
        """Of some entries the one to drop: of the lowest rank there is, and not one that another
        goes on from unless all are such.
        """
        rank = min(entry.rank for entry in entries)
        by_value = sorted((e for e in entries if e.rank == rank), key=lambda entry: entry.value)
        least = next((e for e in by_value if not self._leads_on(e)), by_value[0])
        self._floor = max(self._floor, least.value)
        return least

    def _leads_on(self, entry: Entry) -> bool:
        longer = self._tree.others(entry.number)
        return any(self._entries[number].end > entry.end for number in longer)

    def _drop_blob(self, entry: Entry) -> None:
        if entry.blob is not None:
            self.host_bytes -= entry.num_bytes
            entry.blob = None

    def _drop_copy(self, entry: Entry) -> None:
        if entry.copy is not None and self._disk is not None:
            self._disk.remove(entry.copy)
            entry.copy = None

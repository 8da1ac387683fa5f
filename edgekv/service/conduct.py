"""How an engine treats its requests, and where it keeps copies of conversations."""

from __future__ import annotations

from dataclasses import dataclass

from edgekv.budget.wish import Wish
from edgekv.config.places import cache_folder
from edgekv.core.plan import Choice, ModelFacts, Opening
from edgekv.service.warm import WarmPrompt
from edgekv.traffic.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Conduct:
    """None of it changes what is allocated."""

    max_waiting: int | None = None
    """Requests that may wait beyond those that a free slot will take. None: any number."""
    max_gap_ms: int = 250
    """How long prompts may hold up answers that are under way; 0: as long as they like."""
    disk_cache_bytes: int = 2 * 1024**3
    """For copies of idle conversations that outlive the process; 0: nothing is written."""
    warm: tuple[WarmPrompt, ...] = ()
    """Prompts that are computed at the start and kept."""
    recorder: Recorder | None = None
    """Who writes down how long requests were and which began alike."""

    def opening(self, facts: ModelFacts, choice: Choice, wish: Wish) -> Opening:
        """The model of `facts` opened as wished, planned and conducted like this."""
        return Opening(
            path=facts.path,
            choice=choice,
            use_mmap=wish.use_mmap,
            adapters=wish.adapters,
            can_write=facts.can_write,
            share_prefixes=facts.can_share_prefixes(choice.swa_full),
            store_path=_store_path() if self.disk_cache_bytes else None,
            disk_cache_bytes=self.disk_cache_bytes,
            max_gap_ms=self.max_gap_ms,
            max_waiting=self.max_waiting,
        )


AS_USUAL = Conduct()


def _store_path() -> str | None:
    folder = cache_folder()
    return None if folder is None else str(folder / "conversations")

"""On real models: a suspended answer goes on as if nothing had been, to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.core.events import Sampled
from edgekv.core.plan import Opening
from edgekv.core.request import Request, RequestId, SamplingParams, Segment, Token
from edgekv.engine.engine import Engine, Limits
from edgekv.kv.disk import Disk
from edgekv.kv.store import Store
from edgekv.llama.backend import LlamaBackend, LlamaLibrary
from edgekv.llama.state_key import state_key
from edgekv.service.own_command import own_command
from tests.llama.test_backend import CHOICE, TEXT

pytestmark = pytest.mark.llama

LENGTH = 24
SUSPENDED_AT = 10


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


@pytest.fixture(params=["starter_model", "gemma_model"])
def model_path(request: pytest.FixtureRequest) -> str:
    path: Path = request.getfixturevalue(request.param)
    return str(path)


class Opened:
    """An engine on a real model, one step at a time."""

    def __init__(
        self, library: LlamaLibrary, opening: Opening, store: Store, sharing: bool = True
    ) -> None:
        backend, self.vocabulary, _ = library.open(opening, lambda _: None)
        assert isinstance(backend, LlamaBackend)
        self.backend, self.store = backend, store
        limits = Limits(slots=2, context_length=512, batch_tokens=256)
        self.engine = Engine(backend, limits, end_tokens=frozenset(), sharing=sharing, store=store)

    def answer(self, suspended_at: int | None) -> list[Token]:
        """A seeded answer, suspended once after so many tokens."""
        prompt = tuple(self.vocabulary.tokenize([Segment(TEXT, True)]))
        sampling = SamplingParams(temperature=0.7, seed=11)
        self.engine.submit(Request(RequestId("a"), prompt, LENGTH, sampling, ignore_end=True))
        tokens: list[Token] = []
        while not self.engine.is_idle:
            if len(tokens) == suspended_at:
                self.suspend()
                suspended_at = None
            events = self.engine.step()
            tokens += [e.token for e in events if isinstance(e, Sampled)]
        self.engine.check_integrity()
        return tokens

    def suspend(self) -> None:
        """As the engine does when cells run short."""
        [seq] = self.engine._scheduler.running.values()
        self.engine._scheduler.suspend(seq)
        self.engine._detach(seq.request.id)
        assert self.engine.snapshot().cells_used == 0


@pytest.mark.parametrize("tier", ["host", "disk"])
def test_a_suspended_answer_goes_on_with_the_same_tokens(
    library: LlamaLibrary, model_path: str, tmp_path: Path, tier: str
) -> None:
    whole = Opened(library, Opening(model_path, CHOICE), Store())
    expected = whole.answer(suspended_at=None)
    whole.backend.close()
    disk = Disk(tmp_path, "key", limit_bytes=10**9)
    store = Store(host_limit_bytes=10**9) if tier == "host" else Store(disk=disk)
    opened = Opened(library, Opening(model_path, CHOICE), store)
    assert opened.answer(SUSPENDED_AT) == expected
    assert opened.engine.snapshot().tokens_recomputed == 0
    opened.backend.close()


def test_a_window_model_is_suspended_with_its_whole_state(
    library: LlamaLibrary, gemma_model: Path
) -> None:
    opening = Opening(str(gemma_model), replace(CHOICE, swa_full=False))
    whole = Opened(library, opening, Store(), sharing=False)
    expected = whole.answer(suspended_at=None)
    whole.backend.close()
    store = Store(host_limit_bytes=10**9)
    opened = Opened(library, opening, store, sharing=False)
    assert opened.answer(SUSPENDED_AT) == expected
    assert opened.engine.snapshot().tokens_recomputed == 0
    opened.backend.close()


def test_the_key_of_stored_cells_tells_models_and_kv_types_apart(
    starter_model: Path, gemma_model: Path
) -> None:
    openings = [
        Opening(str(starter_model), CHOICE),
        Opening(str(gemma_model), CHOICE),
        Opening(str(starter_model), replace(CHOICE, kv_type_k="f16")),
        Opening(str(starter_model), replace(CHOICE, swa_full=False)),
    ]
    assert len({state_key(opening) for opening in openings}) == len(openings)
    longer = replace(CHOICE, cells=1024, slots=2)
    assert state_key(openings[0]) == state_key(Opening(str(starter_model), longer))

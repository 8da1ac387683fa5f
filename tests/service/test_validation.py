"""The gate's run over fake models: what it asks, keeps and decides, and what harm it catches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import pytest

from edgekv.budget.wish import Wish
from edgekv.core.comparison import Compare, Likeness, Passage, Scored
from edgekv.core.frames import LENGTH_BYTES, Command, decode_command, encode
from edgekv.core.plan import Opening
from edgekv.engine.comparing import ComparisonProcess
from edgekv.errors import EdgeKVError, EngineDied, Unavailable
from edgekv.quality.verdicts import Verdict, Verdicts
from edgekv.service.engine_client import SECONDS_OF_SILENCE, EngineClient
from edgekv.service.engine_log import EngineLog
from edgekv.service.stages import Stage
from edgekv.service.validation import Scope, Validation
from tests.fakes import FakeLibrary, FakeVocabulary
from tests.server.in_loop_engine import InLoopEngine, InLoopProcess

pytestmark = pytest.mark.anyio

GATE = Scope("q8_0", "q8_0", quick=False, longest=4096)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class FakeComparison:
    """Finds every answer with f16; `harm` is what the candidate loses at a length, in nats."""

    harm: Callable[[int], float]
    passages: list[Passage] = field(default_factory=list)
    dies_after: int | None = None

    def open_comparison(
        self, reference: Opening, candidate: Opening, on_progress: Callable[[float], None]
    ) -> tuple[FakeComparison, FakeVocabulary]:
        assert reference.choice.kv_type_k == reference.choice.kv_type_v == "f16"
        assert candidate.choice.num_ids == reference.choice.num_ids
        self.cells = candidate.choice.cells
        return self, FakeVocabulary()

    def compare(self, passage: Passage) -> tuple[Likeness, ...]:
        assert passage.num_cells - passage.shared_length > 0
        self.passages.append(passage)
        harm = self.harm(passage.shared_length)
        return tuple(self._likeness(text, harm) for text in passage.texts)

    def close(self) -> None: ...

    def _likeness(self, text: Scored, harm: float) -> Likeness:
        num = len(text.tokens) - text.scored_from
        good = harm < 1
        return Likeness(
            (-1.0,) * num,
            (-1.0 - harm / num,) * num,
            (True,) * num,
            (good,) * num,
            (True,) * num,
            (harm / 100,) * num,
        )


class InLoopComparison(InLoopProcess):
    def __init__(self, library: FakeComparison) -> None:
        super().__init__()
        self._library = library
        self._inbox: SimpleQueue[Command] = SimpleQueue()
        self._process = ComparisonProcess(
            library, self._inbox, lambda frame: self.stdout.feed_data(encode(frame))
        )

    def write(self, frame: bytes) -> None:
        command = decode_command(frame[LENGTH_BYTES:])
        if isinstance(command, Compare) and self._library.dies_after == len(self._library.passages):
            self.end(-6)
            return
        self._inbox.put(command)
        self._process.turn()


@dataclass
class Bench:
    """A model file, a folder for verdicts, and the library that is asked."""

    path: Path
    verdicts: Verdicts
    library: FakeComparison
    engine: FakeLibrary = field(default_factory=FakeLibrary)
    stages: list[Stage] = field(default_factory=list)

    async def run(self, scope: Scope = GATE, wish: Wish | None = None) -> Verdict:
        validation = Validation(str(self.path), wish or Wish(), scope, self.verdicts)
        return await validation.run(self.stages.append)

    def kept(self) -> list[Path]:
        return sorted(path for path in self.verdicts.folder.rglob("*") if path.is_file())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    made = Bench(path, Verdicts(tmp_path / "verdicts"), FakeComparison(lambda _: 0.0))

    async def start(command: str = "engine") -> EngineClient:
        process: object = InLoopEngine(made.engine)
        if command == "comparison":
            process = InLoopComparison(made.library)
        return EngineClient(process, EngineLog(), SECONDS_OF_SILENCE)  # type: ignore[arg-type]

    monkeypatch.setattr(EngineClient, "start", start)
    return made


async def test_a_type_that_changes_nothing_passes_and_the_verdict_is_kept(bench: Bench) -> None:
    verdict = await bench.run()
    assert verdict.passed
    (path,) = bench.kept()
    assert path.name.endswith("-q8_0-q8_0.json"), "and nothing unfinished is left"
    assert [passage.shared_length > 0 for passage in bench.library.passages] == [True] * 4


async def test_no_text_is_longer_than_its_cells(bench: Bench) -> None:
    await bench.run()
    for passage in bench.library.passages:
        longest = max(len(text.tokens) for text in passage.texts)
        assert longest <= bench.library.cells


async def test_harm_that_only_long_texts_show_is_caught(bench: Bench) -> None:
    bench.library.harm = lambda length: 5.0 if length > 3000 else 0.0
    assert (await bench.run(Scope("q8_0", "q8_0", quick=True))).passed
    verdict = await bench.run()
    assert not verdict.passed
    assert any("loses 8 of 32 answers" in objection for objection in verdict.objections)


async def test_an_interrupted_run_goes_on_where_it_was(bench: Bench) -> None:
    bench.library.dies_after = 2
    with pytest.raises(EngineDied):
        await bench.run()
    assert len(bench.kept()) == 2, "what two trials measured, and no verdict"
    bench.library.dies_after = None
    verdict = await bench.run()
    assert len(bench.library.passages) == 4
    assert len(verdict.measured.prose) == 4
    assert len(bench.kept()) == 1


async def test_progress_tells_of_every_trial(bench: Bench) -> None:
    await bench.run()
    trials = [stage for stage in bench.stages if "tokens" in stage.words]
    assert [(stage.num_done, stage.num_stages) for stage in trials] == [(n, 4) for n in range(4)]


async def test_both_contexts_must_fit_at_once(bench: Bench) -> None:
    bench.engine.bytes_per_cell = 64 * 1024
    tight = Wish(context_length=1024, slots=1, memory_bytes=230_000_000)
    with pytest.raises(EdgeKVError) as refusal:
        await bench.run(wish=tight)
    assert isinstance(refusal.value, Unavailable), refusal.value
    assert "do not fit at once" in str(refusal.value)

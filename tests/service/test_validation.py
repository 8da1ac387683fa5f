"""The gate's run over fake models: what it asks, keeps and decides, and what harm it catches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TypeAlias

import pytest
from msgspec import structs

from edgekv.budget.kv_types import Pair
from edgekv.budget.wish import Wish
from edgekv.core.comparison import Compare, Likeness, Passage, Scored
from edgekv.core.frames import LENGTH_BYTES, Command, decode_command, encode
from edgekv.core.plan import Opening
from edgekv.engine.comparing import ComparisonProcess
from edgekv.errors import EdgeKVError, EngineDied, Unavailable
from edgekv.quality.verdicts import Verdict, Verdicts
from edgekv.service.engine_client import SECONDS_OF_SILENCE, EngineClient
from edgekv.service.engine_log import EngineLog
from edgekv.service.lineup import BRANCH_TOKENS
from edgekv.service.remote_workers import NO_WORKERS, Workers
from edgekv.service.stages import Stage
from edgekv.service.validation import Scope, Validation
from tests.fakes import FakeLibrary, FakeVocabulary
from tests.server.in_loop_engine import InLoopEngine, InLoopProcess

pytestmark = pytest.mark.anyio

Q8, Q4, F16 = ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("f16", "f16")
GATE = Scope((Q8,), longest=4096)
BOTH = Scope((Q4, Q8), longest=4096)

Harm: TypeAlias = Callable[[int], float]
"""What a KV type makes right answers less likely by at a length, in nats."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def none(_: int) -> float:
    return 0.0


def a_little(_: int) -> float:
    """More than the limit of divergence; every answer is found still."""
    return 0.22


@dataclass
class FakeComparison:
    """Finds every answer with f16; what other types do is `harms`, nothing unless said."""

    harms: dict[Pair, Harm] = field(default_factory=dict)
    asked: list[tuple[Passage, list[Pair]]] = field(default_factory=list)
    """Every passage, with the types that were to predict it."""
    dies_after: int | None = None

    @property
    def passages(self) -> list[Passage]:
        return [passage for passage, _ in self.asked]

    def open_comparison(
        self,
        reference: Opening,
        candidates: Sequence[Opening],
        on_progress: Callable[[float], None],
    ) -> tuple[FakeComparison, FakeVocabulary]:
        assert _pair(reference) == F16
        assert {c.choice.num_ids for c in candidates} == {reference.choice.num_ids}
        self.candidates = candidates
        self.reference = reference
        return self, FakeVocabulary()

    def compare(
        self, passage: Passage, candidates: Sequence[int], on_progress: Callable[[float], None]
    ) -> tuple[tuple[Likeness, ...], ...]:
        assert passage.num_cells - passage.shared_length > 0
        pairs = [_pair(self.candidates[number]) for number in candidates]
        self.asked.append((passage, pairs))
        on_progress(0.5)
        return tuple(self._likenesses(passage, pair) for pair in pairs)

    def close(self) -> None: ...

    def _likenesses(self, passage: Passage, pair: Pair) -> tuple[Likeness, ...]:
        harm = self.harms.get(pair, none)(passage.shared_length)
        return tuple(_likeness(text, harm) for text in passage.texts)


def _pair(opening: Opening) -> Pair:
    return opening.choice.kv_type_k, opening.choice.kv_type_v


def _likeness(text: Scored, harm: float) -> Likeness:
    num = len(text.tokens) - text.scored_from
    return Likeness(
        (-1.0,) * num,
        (-1.0 - harm / num,) * num,
        (True,) * num,
        (harm < 1,) * num,
        (True,) * num,
        (harm / 10,) * num,
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
    library: FakeComparison = field(default_factory=FakeComparison)
    engine: FakeLibrary = field(default_factory=FakeLibrary)
    stages: list[Stage] = field(default_factory=list)

    async def run_all(self, scope: Scope, wish: Wish | None = None) -> tuple[Verdict, ...]:
        validation = Validation(str(self.path), wish or Wish(), scope, self.verdicts)
        return await validation.run(self.stages.append)

    async def run(self, scope: Scope = GATE, wish: Wish | None = None) -> Verdict:
        (verdict,) = await self.run_all(scope, wish)
        return verdict

    def verdict_files(self) -> list[Path]:
        return sorted(self.verdicts.folder.glob("*.json"))

    def trial_files(self) -> list[Path]:
        return sorted(self.verdicts.folder.glob("trials/*/*.json"))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    made = Bench(path, Verdicts(tmp_path / "verdicts"))

    async def start(command: str = "engine", workers: Workers = NO_WORKERS) -> EngineClient:
        process: object = InLoopEngine(made.engine)
        if command == "comparison":
            process = InLoopComparison(made.library)
        return EngineClient(process, EngineLog(), SECONDS_OF_SILENCE)  # type: ignore[arg-type]

    monkeypatch.setattr(EngineClient, "start", start)
    return made


async def test_a_type_that_changes_nothing_passes_and_the_verdict_is_kept(bench: Bench) -> None:
    verdict = await bench.run()
    assert verdict.passed
    (path,) = bench.verdict_files()
    assert path.name.endswith("-q8_0-q8_0.json")
    assert all("f16-f16" in path.parent.name for path in bench.trial_files()), "only the noise"
    assert [passage.shared_length > 0 for passage in bench.library.passages] == [True] * 4


async def test_no_text_is_longer_than_its_cells(bench: Bench) -> None:
    await bench.run()
    for passage in bench.library.passages:
        longest = max(len(text.tokens) for text in passage.texts)
        assert longest <= 4096 <= bench.library.reference.choice.cells


async def test_harm_that_only_long_texts_show_is_caught(bench: Bench) -> None:
    bench.library.harms[Q8] = lambda length: 5.0 if length > 3000 else 0.0
    assert (await bench.run(replace(GATE, quick=True))).passed
    verdict = await bench.run()
    assert not verdict.passed
    assert any("loses 8 of 32 answers" in objection for objection in verdict.objections)


async def test_an_interrupted_run_goes_on_where_it_was(bench: Bench) -> None:
    bench.library.dies_after = 2
    with pytest.raises(EngineDied):
        await bench.run()
    assert len(bench.trial_files()) == 2 * 2, "what two trials measured of the type and of f16"
    assert bench.verdict_files() == []
    bench.library.dies_after = None
    verdict = await bench.run()
    assert len(bench.library.passages) == 4
    assert len(verdict.measured.prose) == 4
    assert len(bench.verdict_files()) == 1


async def test_a_torn_file_of_an_interrupted_run_is_measured_again(bench: Bench) -> None:
    bench.library.dies_after = 2
    with pytest.raises(EngineDied):
        await bench.run()
    torn = bench.trial_files()[-1]
    torn.write_bytes(torn.read_bytes()[:-9])
    bench.library.dies_after = None
    assert (await bench.run()).passed
    assert len(bench.library.passages) == 5


async def test_progress_tells_of_every_trial_and_how_far_it_is(bench: Bench) -> None:
    await bench.run()
    trials = [stage for stage in bench.stages if "tokens" in stage.words]
    parts = [(stage.num_done, stage.num_stages, stage.words[-4:]) for stage in trials]
    assert parts == [(n, 4, part) for n in range(4) for part in (", 0%", " 50%")]


async def test_several_types_read_the_same_texts_at_once(bench: Bench) -> None:
    verdicts = await bench.run_all(BOTH)
    assert [verdict.pair for verdict in verdicts] == [Q4, Q8]
    assert [pairs for _, pairs in bench.library.asked] == [[F16, Q4, Q8]] * 4
    assert len(bench.verdict_files()) == 2


async def test_a_type_that_a_short_text_has_refused_reads_no_longer_ones(bench: Bench) -> None:
    bench.library.harms[Q4] = a_little
    bad, good = await bench.run_all(BOTH)
    assert (bad.passed, good.passed) == (False, True)
    assert [pairs for _, pairs in bench.library.asked] == [[F16, Q4, Q8], *[[F16, Q8]] * 3]
    assert (bad.longest, good.longest) == (512 + BRANCH_TOKENS, 4096)
    bench.library.asked.clear()
    bad, _ = await bench.run_all(replace(BOTH, every_length=True))
    assert [pairs for _, pairs in bench.library.asked] == [[Q4, Q8]] * 4, "the noise is known"
    assert not bad.passed


async def test_a_run_with_more_types_takes_over_what_fewer_have_measured(bench: Bench) -> None:
    bench.library.dies_after = 2
    with pytest.raises(EngineDied):
        await bench.run()
    bench.library.dies_after = None
    bench.library.asked.clear()
    await bench.run_all(BOTH)
    assert [pairs for _, pairs in bench.library.asked] == [[Q4], [Q4], *[[F16, Q4, Q8]] * 2]


async def test_the_noise_is_f16_in_other_pieces_and_is_measured_once_for_all_runs(
    bench: Bench,
) -> None:
    await bench.run()
    noise, _ = bench.library.candidates
    reference = bench.library.reference
    assert noise.choice.ubatch < reference.choice.ubatch
    assert structs.replace(noise.choice, ubatch=reference.choice.ubatch) == reference.choice
    bench.library.asked.clear()
    await bench.run(replace(GATE, pairs=(Q4,)))
    assert [pairs for _, pairs in bench.library.asked] == [[Q4]] * 4


async def test_a_type_is_held_against_the_noise_of_its_own_model(bench: Bench) -> None:
    bench.library.harms |= {Q8: a_little, F16: a_little}
    verdict = await bench.run()
    assert verdict.passed
    assert verdict.noise.prose == verdict.measured.prose


async def test_both_contexts_must_fit_at_once(bench: Bench) -> None:
    bench.engine.bytes_per_cell = 64 * 1024
    tight = Wish(context_length=1024, slots=1, memory_bytes=230_000_000)
    with pytest.raises(EdgeKVError) as refusal:
        await bench.run(wish=tight)
    assert isinstance(refusal.value, Unavailable), refusal.value
    assert "do not fit at once; give more" in str(refusal.value)


async def test_where_memory_is_too_short_for_all_types_at_once_they_are_tested_one_by_one(
    bench: Bench,
) -> None:
    bench.engine.bytes_per_cell = 64 * 1024
    short = Wish(context_length=1024, slots=1, memory_bytes=300_000_000)
    verdicts = await bench.run_all(Scope((Q8, Q4)), wish=short)
    assert [verdict.pair for verdict in verdicts] == [Q8, Q4]
    assert [pairs for _, pairs in bench.library.asked] == [[F16]] * 2 + [[Q8]] * 2 + [[Q4]] * 2
    assert {verdict.longest for verdict in verdicts} == {1024}

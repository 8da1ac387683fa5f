"""What a look at an open model tells of requests and cells."""

from __future__ import annotations

from msgspec import msgpack
from msgspec.structs import replace

from edgekv.core.frames import Look, Looked, Open
from edgekv.core.look import MOST_WAITING, EngineLook
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import Priority
from tests.engine.test_process import CHOICE, Front, ask
from tests.fakes import FakeLibrary


def opened(choice: Choice = CHOICE) -> Front:
    front = Front(FakeLibrary(answer="Grüße, 世界!"))
    front.turn(Open(1, Opening("model.gguf", choice)))
    return front


def look(front: Front) -> EngineLook:
    front.say(Look(7))
    [looked] = [frame for frame in front.turn() if isinstance(frame, Looked)]
    assert looked.call == 7
    return looked.look


def test_an_idle_model_shows_only_what_it_keeps() -> None:
    front = opened()
    assert look(front) == EngineLook()
    front.answers(ask("a"))
    [run] = look(front).runs
    assert (run.running, len(run.kept)) == ((), 1)


def test_running_requests_show_how_far_they_are() -> None:
    front = opened()
    front.turn(ask("a", "x" * 40, max_tokens=9, priority=Priority.BATCH))
    [reading] = look(front).running
    assert (reading.num_prompt, reading.num_computed) == (41, 16)
    assert (reading.request_id, reading.priority, reading.max_tokens) == ("a", Priority.BATCH, 9)
    while reading.num_generated < 3:
        [reading] = look(front).running
    assert reading.num_computed == reading.num_prompt + reading.num_generated - 1


def test_waiting_requests_show_what_they_wait_for() -> None:
    front = opened()
    front.turn(ask("a", "Hello there, this is long"), ask("b", "Hello there, this is longer"))
    [led] = look(front).waiting
    assert (led.request_id, led.waits_for, led.is_suspended) == ("b", "prefix", False)
    front.turn(ask("c", "Quite another"), ask("d", "And one more"))
    assert {entry.waits_for for entry in look(front).waiting} == {"slot"}


def test_a_request_that_finds_a_slot_but_no_cells_waits_for_room() -> None:
    front = opened(replace(CHOICE, cells=64))
    front.turn(ask("a", "x" * 50), ask("b", "y" * 50))
    while not (shown := look(front)).running[0].num_generated:
        pass
    assert [entry.waits_for for entry in shown.waiting] == ["room"]


def test_a_look_stays_small_however_many_wait() -> None:
    front = opened()
    front.turn(*(ask(f"request-{n}", f"{n} " * 20) for n in range(200)))
    shown = look(front)
    assert len(shown.waiting) == MOST_WAITING
    assert len(shown.runs) <= 2 * CHOICE.num_ids
    assert len(msgpack.encode(shown)) < 4096

"""Who waits how long when there are more requests than slots.

ggml-org/llama.cpp#15008: a request that was put off was overtaken for ever. ollama/ollama#7758 and
#4124: the bound of the queue did not hold, or a full one was an internal error.
"""

from __future__ import annotations

from contextlib import suppress
from statistics import median

from edgekv.core.request import RequestId, SeqId
from edgekv.core.sequence import Sequence
from edgekv.engine.waiting_line import WaitingLine
from edgekv.errors import Overloaded
from edgekv.kv.claims import Claim, Rank
from tests.engine.driver import Driver, request


def test_requests_start_in_the_order_they_came() -> None:
    driver = Driver(slots=2, num_cells=200)
    names = [str(n) for n in range(10)]
    driver.finish(*(request(name, [int(name) + 1] * 5, 6, ignore_end=True) for name in names))
    assert list(driver.started) == names


def test_clients_that_ask_again_at_once_wait_about_equally_long() -> None:
    """Three of them on two slots, each with answers of another length."""
    driver = Driver(slots=2, num_cells=200)
    asked_at: dict[str, int] = {}
    waits: list[int] = []
    turns = dict.fromkeys("abc", 0)
    for step in range(150):
        for client, length in (("a", 3), ("b", 9), ("c", 6)):
            name = f"{client} {turns[client]}"
            if name in asked_at and RequestId(name) not in driver.ends:
                continue
            turns[client] += 1
            name = f"{client} {turns[client]}"
            asked_at[name] = step
            driver.submit(request(name, [turns[client] % 90 + 1] * 3, length, ignore_end=True))
        before = set(driver.started)
        driver.step()
        waits += [step - asked_at[name] for name in driver.started.keys() - before]
    assert min(turns.values()) > 5
    assert max(waits) < 3 * max(1, median(waits)) + 9
    driver.finish()


def test_of_forty_at_once_those_that_may_wait_are_answered_and_leave_nothing_behind() -> None:
    driver = Driver(slots=2, num_cells=200, max_waiting=8)
    for number in range(40):
        with suppress(Overloaded):
            driver.submit(request(str(number), [number + 1] * 5, 6, ignore_end=True))
    driver.finish()
    assert list(driver.started) == list(driver.ends) == [str(n) for n in range(2 + 8)]
    snapshot = driver.engine.snapshot()
    assert (snapshot.num_running, snapshot.num_waiting) == (0, 0)
    driver.finish(request("later", [1]))


def test_one_that_waits_again_before_it_had_caught_up_still_had_as_much() -> None:
    """Else work that is lost twice would count as new."""
    asked, line = request("a", [1, 2, 3, 4, 5]), WaitingLine()
    seq = Sequence(asked, SeqId(0), list(asked.known), num_computed=3, num_had=5)
    line.suspend(seq, Claim(SeqId(0), Rank.SUSPENDED))
    assert [entry.num_had for entry in line.in_order()] == [5]

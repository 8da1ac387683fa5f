"""One model for the front end: its engine process, its plan and a stream per request.

worker = Worker(path, Wish(...))
await worker.start(on_progress)          # plan, then load
async for event in worker.stream(Submit(...)):
    ...                                  # Started, Delta …, Finished
await worker.close()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from edgekv.budget.dry_run import DryRun
from edgekv.budget.machine import Machine
from edgekv.budget.probe import HERE, Probe
from edgekv.budget.wish import Wish
from edgekv.core.events import AnswerStream, Failed, Finished
from edgekv.core.frames import Cancel, Open, Opened, Snapshot, Submit
from edgekv.core.look import EngineLook
from edgekv.core.memory_frames import Resize, Resized
from edgekv.core.plan import Allocation, Choice, MemoryPlan, ModelFacts
from edgekv.core.request import RequestId, TextPrompt
from edgekv.errors import EdgeKVError, EngineDied, ModelError, Unavailable
from edgekv.service import planning
from edgekv.service.conduct import AS_USUAL, Conduct
from edgekv.service.drafts import Desk, Draft
from edgekv.service.engine_client import EngineClient, Interrupted
from edgekv.service.ground import Ground, check_file, read_ground
from edgekv.service.memory_watch import MemoryWatch
from edgekv.service.questions import Questions
from edgekv.service.recovery import Recovery
from edgekv.service.report import Report
from edgekv.service.starting import start_again, start_engine
from edgekv.service.states import LoadStep, State
from edgekv.service.unread import read_ahead
from edgekv.service.warm import as_read_by, pin


class Worker:
    """Owns one engine process on the running asyncio loop.

    `ground`, `facts`, `plan` and `allocation` are None until `start` has got that far.
    """

    def __init__(
        self, path: str, wish: Wish, conduct: Conduct = AS_USUAL, probe: Probe = HERE
    ) -> None:
        self.path, self.wish, self.conduct = path, wish, conduct
        self._probe = probe
        ask = Questions(self._living_client)
        self.tokenize, self.detokenize, self.embed = ask.tokenize, ask.detokenize, ask.embed
        self.check_grammar, self.inspect = ask.check_grammar, ask.inspect
        self.survey, self.restrain = ask.survey, ask.restrain
        self.watch = MemoryWatch(self, probe)
        self._watching: asyncio.Task[None] | None = None
        self._client: EngineClient | None = None
        self._restarting = asyncio.Lock()
        self._recovery = Recovery()
        self._hear: Callable[[LoadStep], None] = lambda _: None
        self.state = State.STARTING
        self.facts: ModelFacts | None = None
        self.ground: Ground | None = None
        self.plan: MemoryPlan | None = None
        self.allocation: Allocation | None = None
        self.num_restarts = 0
        self._pinned: dict[str, TextPrompt] = {}
        self.own_requests: Collection[RequestId] | None = None
        """Which requests are this program's. None: all of them."""

    @property
    def snapshot(self) -> Snapshot:
        """The engine as of its last step; all zero before there was one."""
        return self._client.snapshot if self._client else Snapshot()

    @property
    def engine_pid(self) -> int | None:
        return self._client.pid if self._client else None

    @property
    def open_pid(self) -> int | None:
        """The engine process, if a model is open in it."""
        is_open = self.state is State.READY and self._client and self._client.death is None
        return self.engine_pid if is_open else None

    @property
    def desk(self) -> Desk | None:
        """A new one, for its user to close; None before there is a plan."""
        if self.ground is None:
            return None
        return Desk(self.ground, self.wish, self.reopen, self._living_client)

    async def start(self, on_progress: Callable[[LoadStep], None] = lambda _: None) -> None:
        """Plan and load. Raises `ModelError`, `DoesNotFit` or `EngineDied`, and for a prompt
        that cannot be pinned `InvalidValue` or `Unavailable`; then nothing runs.
        """
        self._hear = on_progress
        await self.make_plan()
        try:
            assert self.facts is not None
            self._pinned = await as_read_by(self.facts, self.conduct.warm)
            await self._measure_again()
            await self._open(is_first_time=True)
            await self.watch.look()
            self._watching = asyncio.create_task(self.watch.run())
        except EngineDied as death:
            await self._give_up()
            raise EngineDied(
                f"llama.cpp broke down while loading {self.path}; try a smaller --memory."
            ) from death
        except BaseException:
            await self._give_up()
            raise

    async def make_plan(self) -> MemoryPlan:
        """The plan alone, nothing loaded. Raises as `start`."""
        self._enter(State.STARTING)
        # Before there is an engine: what that holds already is counted in the plan.
        machine = self._probe.machine()
        client = self._client = await start_engine(self.wish)
        try:
            return await self._plan(client, machine)
        except EngineDied as death:
            # Reading and sizing are all that was asked, so the file is what it died of.
            await self._give_up()
            raise ModelError(
                f"llama.cpp broke down while reading {self.path}; try another file of this model."
            ) from death
        except BaseException:
            await self._give_up()
            raise

    def stream(self, submit: Submit) -> AnswerStream:
        """Run one request. The last event is `Finished`.

        Raises the `EdgeKVError` of a request that fails: `RequestError`s before `Started`.
        Closing the iterator early cancels the request. If the engine dies it is started again
        and the answer goes on from where it was; `EngineDied` is for a request it died of, and
        `SlowReader` for one whose events nobody takes.
        """
        events = self._recovery.stream(submit, self._attempt)
        if (recorder := self.conduct.recorder) is not None:
            events = recorder.watch(submit, events, self.tokenize)
        return read_ahead(events)

    async def _attempt(self, submit: Submit) -> AnswerStream:
        """Run one request on one engine. Raises `EngineDied` when that ends."""
        client = await self._living_client()
        queue = client.open_stream(submit.request_id)
        client.send(submit)
        is_over = False
        try:
            while not is_over:
                event = await queue.get()
                if isinstance(event, (Failed, EdgeKVError, Interrupted)):
                    is_over = True
                    raise event.error.to_error() if isinstance(event, Failed) else event
                is_over = isinstance(event, Finished)
                yield event
        finally:
            client.close_stream(submit.request_id)
            if not is_over:
                client.send(Cancel(submit.request_id))

    async def resize(self, choice: Choice) -> Resized:
        """Change the pool to another size; answers under way go on in it after a pause."""
        client = await self._living_client()
        async with self._restarting:
            resized = await client.call(lambda call: Resize(call, choice))
            assert isinstance(resized, Resized)
            if resized.allocation is not None:
                assert self.ground is not None
                self.allocation = resized.allocation
                self.plan = planning.plan_opened(
                    self.ground, self.wish, resized.choice, resized.allocation
                )
            return resized

    async def report(self) -> Report:
        """What there is to show now. A dead engine is not started again for it."""
        client = self._client
        if client is None:
            return Report()
        is_open = self.state is State.READY and client.death is None
        look = await client.look() if is_open else EngineLook()
        times, rest = client.rhythm.times(), (self.num_restarts, self.watch.view())
        return Report(client.snapshot, look, self.plan, self.allocation, *times, *rest)

    async def reopen(self, draft: Draft) -> None:
        """Open the model as drafted. Answers under way go on in it from the tokens they have.

        Raises the `EdgeKVError` of an opening that fails; then the model is open as before.
        """
        client = await self._living_client()
        async with self._restarting:
            before, self.plan = self.plan, draft.plan
            client.interrupt_streams()
            try:
                await self._open()
            except EdgeKVError:
                self.plan = before
                await (self._restart() if client.death else self._open())
                raise
            self.wish = draft.wish

    async def close(self) -> None:
        """End the engine process and every stream. Safe to call twice."""
        self._enter(State.CLOSED)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        if self.conduct.recorder is not None:
            self.conduct.recorder.close()

    async def _plan(self, client: EngineClient, machine: Machine) -> MemoryPlan:
        ground = await read_ground(client, self.path, machine)
        self.facts = ground.described.facts
        self._enter(State.PLANNING)
        self.plan, self.ground = await planning.plan_on(client, ground, self.wish), ground
        return self.plan

    async def _measure_again(self) -> None:
        """Others may have taken memory while the plan was made. Raises as `make_plan`."""
        assert self._client is not None
        assert self.ground is not None
        assert self.plan is not None
        self.ground, self.plan = await planning.plan_again(
            self._client, self.ground, self.wish, self.plan, self._probe
        )

    async def _open(self, *, is_first_time: bool = False) -> None:
        assert self._client is not None
        assert self.plan is not None
        assert self.facts is not None
        opening = self.conduct.opening(self.facts, self.plan.choice, self.wish)
        self._enter(State.LOADING)
        reply = await self._client.call(
            lambda call: Open(call, opening),
            lambda fraction: self._hear(LoadStep(State.LOADING, fraction)),
        )
        assert isinstance(reply, Opened)
        self.allocation = reply.allocation
        if self.ground is not None:
            self.plan = planning.held_to(self.ground, self.wish, self.plan, reply)
        await pin(self._client, self._pinned, is_first_time=is_first_time)
        self._enter(State.READY)

    async def _living_client(self) -> EngineClient:
        """The engine process, started again if it died. Raises `Unavailable` if it cannot be."""
        async with self._restarting:
            if self.state is State.CLOSED:
                raise Unavailable("EdgeKV is shutting down; start it again to go on.")
            assert self._client is not None, "start comes first"
            if self._client.death is not None:
                await self._restart()
            return self._client

    async def _restart(self) -> None:
        assert self._client is not None
        needs_less = self._client.died_of_memory
        self._enter(State.RESTARTING)
        self.num_restarts += 1
        machine = self._probe.machine()
        client = self._client = await start_again(self.wish, self._client)
        try:
            check_file(self.ground)
            if self.ground is None or client.workers.addresses != self.ground.workers.addresses:
                await self._plan(client, machine)
            elif needs_less:
                await self._plan_smaller(client, machine)
            await self._open()
            self.watch.restarted()
        except EdgeKVError as error:
            # A process without a model is of no use; the next request tries again from here.
            await client.close()
            self._enter(State.FAILED)
            raise Unavailable(f"The engine cannot be started again: {error}") from error

    async def _plan_smaller(self, client: EngineClient, machine: Machine) -> None:
        """A plan for less memory, or the same one where what the user fixed leaves no choice."""
        assert self.plan is not None
        assert self.allocation is not None
        opened, most_bytes = DryRun(self.plan.choice, self.allocation), self.watch.ran_out()
        self._enter(State.PLANNING)
        self.ground = await read_ground(client, self.path, machine)
        less = await planning.plan_less(client, self.ground, self.wish, opened, most_bytes)
        self.plan = less or self.plan

    async def _give_up(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self.state is not State.CLOSED:
            self._enter(State.FAILED)

    def _enter(self, state: State) -> None:
        self.state = state
        self._hear(LoadStep(state))

"""Commands about the model and the memory it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgekv.budget.kv_types import KV_TYPES
from edgekv.budget.wish import Wish
from edgekv.core.plan import MemoryPlan
from edgekv.errors import InvalidValue, NotReady, Unavailable
from edgekv.models.finding import find_model
from edgekv.models.shelf import local_models
from edgekv.service.drafts import Desk
from edgekv.service.measuring import measure_speed
from edgekv.tui.why_words import why_words
from edgekv.tui.words import choice_words, model_words

if TYPE_CHECKING:
    from edgekv.tui.chat import ChatScreen

AUTO = "auto"


class ModelActions:
    def __init__(self, screen: ChatScreen) -> None:
        self._screen, self._talk = screen, screen.talk

    def actions(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        """By the names of their commands."""
        return {
            "bench": self.bench,
            "ctx": self.ctx,
            "kv": self.kv,
            "memory": self.memory,
            "model": self.model,
            "why": self.why,
        }

    def arguments(self, name: str) -> Sequence[str]:
        """What may follow the command of that name."""
        match name:
            case "model":
                return sorted({model.name for model in local_models()})
            case "kv":
                return [AUTO, *KV_TYPES]
            case "ctx":
                return [AUTO]
        return ()

    async def bench(self, _: str) -> None:
        self._screen.notify("Measuring …", timeout=3)
        speed = await measure_speed(self._talk.model.worker)
        await self._tell(
            f"Here this model reads {speed.reading:,.1f} tokens a second and writes "
            f"{speed.writing:,.1f}, measured on {speed.num_read:,} and {speed.num_written:,} "
            "tokens beside whatever else this machine did."
        )

    async def ctx(self, argument: str) -> None:
        if argument:
            if argument != AUTO and not (argument.isdecimal() and 0 < int(argument) < 2**31):
                raise InvalidValue("message", f"'{argument}' is neither 'auto' nor a number.")
            length = None if argument == AUTO else int(argument)
            await self._plan_anew(lambda wish: replace(wish, context_length=length))
        await self._tell_choice()

    async def kv(self, argument: str) -> None:
        if argument:
            key_type, slash, value_type = argument.lower().partition("/")
            types = [key_type, value_type if slash else key_type]
            for name in types:
                if name not in {AUTO, *KV_TYPES}:
                    known = ", ".join([AUTO, *KV_TYPES])
                    raise InvalidValue("message", f"'{name}' is not a KV type; take {known}.")
            key, value = (None if name == AUTO else name for name in types)
            await self._plan_anew(lambda wish: replace(wish, kv_type_k=key, kv_type_v=value))
        await self._tell_choice()

    async def memory(self, _: str) -> None:
        await self._screen.app.run_action("view('plan')")

    async def model(self, argument: str) -> None:
        if not argument:
            await self._tell(model_words(self._talk.model_name, self._plan))
            return
        open_model = self._screen.open_model
        if open_model is None:
            raise Unavailable("Another model cannot be opened here; start EdgeKV with it.")
        path = find_model(argument)
        await self._screen.exchange_model(open_model(path), path.stem)
        await self._talk.count()
        await self._tell(model_words(self._talk.model_name, self._plan))

    async def why(self, _: str) -> None:
        self._need_model()
        await self._tell(why_words(await self._talk.model.last_start()))

    async def _plan_anew(self, change: Callable[[Wish], Wish]) -> None:
        self._need_model()
        desk: Desk | None = self._talk.model.worker.desk
        if desk is None:
            raise Unavailable(
                "The plan belongs to the server that runs the model; change it there."
            )
        try:
            await desk.take(await desk.draft(change(desk.wish)))
        finally:
            await desk.close()

    @property
    def _plan(self) -> MemoryPlan | None:
        return self._talk.model.worker.plan

    def _need_model(self) -> None:
        if not self._talk.is_ready.is_set():
            raise NotReady("The model is still loading; try again when it is there.")

    async def _tell_choice(self) -> None:
        self._need_model()
        assert self._plan is not None
        await self._tell(f"One conversation may hold {choice_words(self._plan)}.")

    async def _tell(self, text: str) -> None:
        await self._talk.transcript.reply(text)

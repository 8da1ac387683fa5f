"""A chat template, rendered in a child process that may be stopped at any time.

renderer = TemplateRenderer(source)
text = await renderer.render({"messages": […], "add_generation_prompt": True})
await renderer.close()
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import psutil

from edgekv.core.frames import LENGTH_BYTES, frame_length
from edgekv.errors import InvalidValue, Unavailable
from edgekv.service.own_command import own_command
from edgekv.service.template_frames import (
    MEMORY_LIMIT_BYTES,
    Call,
    Mistake,
    Reply,
    decode_reply,
    frame,
)

SECONDS_TO_START = 30.0
SECONDS_TO_RENDER = 3.0
"""Of processor time. An honest template takes milliseconds, and tens of them to compile."""
SECONDS_TO_WAIT = 60.0
"""For a child that other programs keep from the processor: that is no fault of its template."""
SECONDS_BETWEEN_LOOKS = 0.05
"""How often it is looked at what the child has used while it works."""

_ONE_WORD = {"messages": [{"role": "user", "content": "hi"}]}
_BLAME = "The model's chat template"


class TemplateRenderer:
    """Renders one template, one call at a time; the child starts with the first call."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._turn = asyncio.Lock()
        self._child: _Child | None = None
        self._verdict: str | None = None
        """Why this template is not tried again."""

    async def render(self, variables: Mapping[str, object]) -> str:
        """The text of the template with these variables.

        Raises `InvalidValue` if the template refuses them or goes over a limit.
        """
        async with self._turn:
            if self._verdict is not None:
                raise InvalidValue("messages", self._verdict)
            if self._child is None:
                self._child = await _Child.start()
                await self._try_one_word(variables)
            try:
                reply = await self._ask(variables)
            except _LimitHit as hit:
                raise InvalidValue("messages", f"{_BLAME} {hit} for these messages.") from None
        if isinstance(reply, Mistake):
            raise InvalidValue("messages", f"{_BLAME} refused these messages: {reply.words}.")
        return reply.text

    async def close(self) -> None:
        """End the child. Safe to call twice, and `render` starts another."""
        child, self._child = self._child, None
        if child is not None:
            await child.kill()

    async def _try_one_word(self, variables: Mapping[str, object]) -> None:
        """Give a template up for good that goes over a limit for a single word.

        One that goes over it later was given too much, and only that call fails.
        """
        try:
            await self._ask({**variables, **_ONE_WORD})
        except _LimitHit as hit:
            self._verdict = f"{_BLAME} {hit} for a single word, so this model cannot chat."
            raise InvalidValue("messages", self._verdict) from None

    async def _ask(self, variables: Mapping[str, object]) -> Reply:
        """One call. A child that does not finish it, for whatever reason, is ended."""
        assert self._child is not None
        is_done = False
        try:
            reply = await self._child.ask(Call(self._source, dict(variables)))
            is_done = True
            return reply
        finally:
            if not is_done:
                await self.close()


class _LimitHit(Exception):
    """Its words fit between "The template" and "for these messages"."""


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    @classmethod
    async def start(cls) -> _Child:
        """Raises `Unavailable` if the process does not come up."""
        process = await asyncio.create_subprocess_exec(
            *own_command("render"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        child = cls(process)
        is_up = False
        try:
            await asyncio.wait_for(child._reply(), SECONDS_TO_START)
            is_up = True
        except (TimeoutError, asyncio.IncompleteReadError):
            raise Unavailable("The process for chat templates did not start.") from None
        finally:
            if not is_up:
                await child.kill()
        return child

    async def ask(self, call: Call) -> Reply:
        """Raises `_LimitHit` when the call takes too much; the child is then useless."""
        cpu_seconds = self._cpu_seconds() + SECONDS_TO_RENDER
        self._stdin.write(frame(call))
        replying = asyncio.ensure_future(self._reply())
        try:
            async with asyncio.timeout(SECONDS_TO_WAIT):
                while not replying.done():
                    await asyncio.wait({replying}, timeout=SECONDS_BETWEEN_LOOKS)
                    self._check(cpu_seconds)
            return replying.result()
        except TimeoutError:
            raise _LimitHit(f"took more than {SECONDS_TO_WAIT:g} seconds") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise _LimitHit("ended its process") from None
        finally:
            replying.cancel()
            await asyncio.wait({replying})

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        # Also reads what is left in the pipe, without which the process is never done.
        await self._process.communicate()

    async def _reply(self) -> Reply:
        prefix = await self._stdout.readexactly(LENGTH_BYTES)
        return decode_reply(await self._stdout.readexactly(frame_length(prefix)))

    def _check(self, cpu_seconds: float) -> None:
        """`cpu_seconds`: what the child may have used in all."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(self._process.pid).memory_info().rss > MEMORY_LIMIT_BYTES:
                raise _LimitHit(f"needed more than {MEMORY_LIMIT_BYTES} bytes of memory")
        if self._cpu_seconds() > cpu_seconds:
            raise _LimitHit(f"took more than {SECONDS_TO_RENDER:g} seconds")

    def _cpu_seconds(self) -> float:
        """What the child has used so far; 0 if it is gone, which `ask` hears of in its own way."""
        with contextlib.suppress(psutil.NoSuchProcess):
            times = psutil.Process(self._process.pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

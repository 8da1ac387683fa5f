"""What the settings file may say, each key with what it does: docs/configuration.md in types.

None is a key that is not there. Keys that are also options carry the option's name.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from edgekv.budget.kv_types import parse_kv_types
from edgekv.budget.sizes import parse_reserve, parse_size
from edgekv.budget.worker_addresses import parse_workers
from edgekv.core.request import SamplingParams

Auto: TypeAlias = Literal["auto"]
Count: TypeAlias = Annotated[int, Meta(ge=1, lt=2**31)]
CountOrNone: TypeAlias = Annotated[int, Meta(ge=0, lt=2**31)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]


class Table(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A table of the file; `said` is what it really holds."""

    def said(self) -> dict[str, Any]:
        names = self.__struct_fields__
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def _check_size(text: str | None) -> None:
    """Raises `ValueError`, whose text is a sentence for the user."""
    if text not in (None, "auto"):
        parse_size(text)


class PlanSettings(Table, frozen=True):
    """`[plan]`: the budget options, for every model."""

    ctx: Count | Auto | None = None
    """Tokens one conversation may hold."""
    slots: Count | Auto | None = None
    """Conversations decoded at once."""
    cells: Count | Auto | None = None
    """Tokens the pool holds in all."""
    kv_type: str | None = None
    """Precision of keys and values: `TYPE` or `KTYPE/VTYPE`."""
    flash_attention: Literal["on", "off", "auto"] | None = None
    """Off may be faster on a processor where answers share their prompt; it takes memory."""
    gpu_layers: CountOrNone | Auto | None = None
    """Layers that go to the GPU, or to workers."""
    memory: str | None = None
    """The whole budget, like `4GiB`."""
    host_cache: str | None = None
    """Set aside for idle conversations."""
    reserve: str | None = None
    """Left to the rest of the system: a size, or a part of all memory like `10%`."""
    threads: Count | Auto | None = None
    """CPU threads, at most those usable here."""
    workers: str | None = None
    """Other machines that run `edgekv worker`: `HOST:PORT`, commas between."""
    mmap: bool | None = None
    """Map the weights from the file; false copies them."""

    def __post_init__(self) -> None:
        if self.kv_type is not None:
            parse_kv_types(self.kv_type)
        for text in (self.memory, self.host_cache):
            _check_size(text)
        if self.reserve not in (None, "auto"):
            parse_reserve(self.reserve)
        if self.workers is not None:
            parse_workers(self.workers)


class SamplingSettings(Table, frozen=True):
    """`[sampling]`: how the chat draws its answers. A server's clients say it themselves."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """0 takes the most likely token."""
    top_k: CountOrNone | None = None
    """Draw from so many likeliest; 0: from all."""
    top_p: Share | None = None
    """Draw from the likeliest that sum up to this."""
    min_p: Share | None = None
    """Leave out what is less likely than this share of the best."""
    seed: CountOrNone | None = None
    """The same answer to the same question."""
    repeat_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    """Above 1 repeats less."""
    presence_penalty: Penalty | None = None
    """Against tokens that were there at all."""
    frequency_penalty: Penalty | None = None
    """Against tokens, by how often they were there."""

    def params(self) -> SamplingParams:
        return SamplingParams(**self.said())


class ModelSettings(PlanSettings, frozen=True):
    """`[models."NAME"]`: for one model, over what is said for all of them."""

    system: str | None = None
    """Put before every conversation with this model."""
    sampling: SamplingSettings = SamplingSettings()


class ServeSettings(Table, frozen=True):
    """`[serve]`: the options of `edgekv serve`."""

    host: str | None = None
    """Address to listen on."""
    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    """0 takes any free port."""
    api_key_file: str | None = None
    """A file that holds the key that callers must send."""
    drain: Annotated[float, Meta(ge=0)] | None = None
    """Seconds that answers under way have to finish once the server is told to stop."""
    cors: list[str] | None = None
    """Web sites whose pages may ask: a list of origins."""
    tls_cert: str | None = None
    """A file with a certificate, to answer by HTTPS."""
    tls_key: str | None = None
    """A file with its key, if the certificate's has none."""
    queue: CountOrNone | None = None
    """Requests that may wait; more are turned away."""
    max_gap_ms: CountOrNone | None = None
    """How long prompts may hold up answers under way; 0: as long as they like."""
    disk_cache: str | None = None
    """For idle conversations on disk; `0` writes nothing."""

    def __post_init__(self) -> None:
        _check_size(self.disk_cache)


class Settings(Table, frozen=True):
    """The whole file."""

    model: str | None = None
    """What to open where no model is named: a file or a name."""
    theme: str | None = None
    """Colours of the terminal app."""
    system: str | None = None
    """Put before every conversation of the chat."""
    plan: PlanSettings = PlanSettings()
    sampling: SamplingSettings = SamplingSettings()
    serve: ServeSettings = ServeSettings()
    keys: dict[str, list[str]] = {}
    models: dict[str, ModelSettings] = {}

    def of_model(self, *names: str) -> ModelSettings:
        """What holds for the model with one of these names or paths.

        A section is found by a name as it is, a file's name, or that without its suffix; what it
        leaves out is as for every model.
        """
        spellings = {
            spelling
            for name in names
            for spelling in (name, PurePath(name).name, PurePath(name).stem)
        }
        own = next((self.models[key] for key in self.models if key in spellings), ModelSettings())
        said = {**self.plan.said(), **own.said()}
        sampling = {**self.sampling.said(), **own.sampling.said()}
        said["sampling"] = SamplingSettings(**sampling)
        said.setdefault("system", self.system)
        return ModelSettings(**said)

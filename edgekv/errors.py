"""Every error EdgeKV raises on purpose.

EdgeKVError
├── ModelError          (the file is missing, damaged, or not a model llama.cpp can open)
│   ├── DamagedModel    (a file is cut, or the files of a set do not belong together)
│   └── NotHere         (a hub has it and this disk has not)
├── DoesNotFit          (no plan satisfies the request in this memory)
├── EngineDied          (the engine process ended while it was needed)
├── HubError            (a hub cannot be reached, refuses, or sends something else than the file)
├── Unavailable         (this machine or build cannot do it; the message says what can)
├── SettingsError       (the settings file says something that nobody can follow)
├── BadTrace            (the file of recorded requests is none that can be read)
├── NotSaved            (the file of the conversations cannot be read or written)
├── NotReady            (the model is still loading, or no longer open; try again later)
├── Overloaded          (the queue is full; becomes an HTTP 429)
├── SlowReader          (nobody took the answer as it came; becomes an HTTP 408)
├── DeadlineExceeded    (not begun when its time was over; becomes an HTTP 504)
└── RequestError        (the caller's fault; becomes an HTTP 400)
    ├── PromptTooLong
    ├── UnknownModel    (becomes an HTTP 404)
    ├── UnsupportedOption
    └── InvalidValue

The message is one sentence that a user can act on. `code` is the stable word that
HTTP answers and frames carry.
"""

from __future__ import annotations


class EdgeKVError(Exception):
    code = "internal_error"


class ModelError(EdgeKVError):
    code = "model_error"


class DamagedModel(ModelError):
    code = "damaged_model"


class NotHere(ModelError):
    """`wanted` is what `edgekv pull` takes for it."""

    code = "model_not_here"

    def __init__(self, message: str, wanted: str) -> None:
        super().__init__(message)
        self.wanted = wanted


class DoesNotFit(EdgeKVError):
    """`needed` and `available` are bytes."""

    code = "does_not_fit"

    def __init__(self, message: str, needed: int, available: int) -> None:
        super().__init__(message)
        self.needed, self.available = needed, available


class EngineDied(EdgeKVError):
    code = "engine_died"


class HubError(EdgeKVError):
    code = "hub_error"


class Unavailable(EdgeKVError):
    code = "unavailable"


class BadTrace(EdgeKVError):
    code = "bad_trace"


class NotSaved(EdgeKVError):
    code = "not_saved"


class SettingsError(EdgeKVError):
    code = "settings_error"


class NotReady(EdgeKVError):
    code = "not_ready"


class Overloaded(EdgeKVError):
    """`num_waiting` requests were before this one."""

    code = "overloaded"

    def __init__(self, num_waiting: int) -> None:
        super().__init__(
            f"{num_waiting} requests are waiting, which is as many as may; try again in a moment."
        )
        self.num_waiting = num_waiting


class SlowReader(EdgeKVError):
    code = "slow_reader"

    def __init__(self, num_unread: int) -> None:
        super().__init__(
            f"The answer was ended because {num_unread} pieces of it were not read; "
            "read it as it comes."
        )


class DeadlineExceeded(EdgeKVError):
    code = "deadline_exceeded"

    def __init__(self) -> None:
        super().__init__(
            "The answer had not begun when its time was over; allow it more, or ask for it again "
            "when less is going on."
        )


class RequestError(EdgeKVError):
    code = "invalid_request"
    param: str | None = None


class PromptTooLong(RequestError):
    """`needed` and `limit` are tokens; `is_about` says that not all of them were counted."""

    code = "context_length_exceeded"
    param = "messages"

    def __init__(self, needed: int, limit: int, *, is_about: bool = False) -> None:
        count = f"about {needed}" if is_about else needed
        super().__init__(
            f"The prompt has {count} tokens but one conversation may hold {limit}, "
            "of which at least one is for the answer; shorten it or start with a larger --ctx."
        )
        self.needed, self.limit = needed, limit


class UnknownModel(RequestError):
    code = "model_not_found"
    param = "model"

    def __init__(self, asked: str, served: str) -> None:
        super().__init__(f"The model '{asked}' is not served here; ask for '{served}'.")


class UnsupportedOption(RequestError):
    code = "unsupported_parameter"

    def __init__(self, name: str, remedy: str = "leave it out") -> None:
        super().__init__(f"'{name}' is not supported; {remedy}.")
        self.param = name


class InvalidValue(RequestError):
    code = "invalid_value"

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param


def restore(code: str, message: str, param: str | None) -> EdgeKVError:
    """The error of another process, of the same class, by its code.

    Only what travels is there: message and `param`, not the numbers some classes carry.
    """
    known: dict[str, type[EdgeKVError]] = {cls.code: cls for cls in _family(EdgeKVError)}
    cls = known.get(code, EdgeKVError)
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    if isinstance(error, RequestError):
        error.param = param
    return error


def _family(cls: type[EdgeKVError]) -> list[type[EdgeKVError]]:
    return [cls, *(member for child in cls.__subclasses__() for member in _family(child))]

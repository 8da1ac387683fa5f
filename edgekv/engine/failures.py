"""What callers are told of a step that could not be decoded."""

from __future__ import annotations

from edgekv.core.batch import DecodeStatus
from edgekv.core.events import ErrorInfo
from edgekv.errors import EdgeKVError

MESSAGES = {
    DecodeStatus.FAILED: "llama.cpp could not compute this step, so the answer ends here; "
    "send the request again.",
    # A plan is made to fit, so this is a bug; it ends answers, not the process.
    DecodeStatus.NO_SPACE: "There was no room for tokens that had been found room, which is "
    "a bug in EdgeKV; send the request again, and please report it.",
}


def failure(status: DecodeStatus) -> ErrorInfo:
    return ErrorInfo(EdgeKVError.code, MESSAGES[status])

"""What a hub has: the files of a repository, with the sizes and hashes that it states.

Names, tokens and errors are the hub library's. `HF_ENDPOINT` (a mirror), `HF_TOKEN` and
`HF_HUB_OFFLINE` mean here what they mean there.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import httpx2

from edgekv.errors import EdgeKVError, HubError
from edgekv.models.hub_errors import no_answer, refusal_of

LISTING_SECONDS = 12.0
"""A listing takes one second. The limit also holds where a name server never answers."""


@dataclass(frozen=True, slots=True)
class HubFile:
    name: str
    """Its path in the repository, with slashes."""
    num_bytes: int
    sha256: str | None
    """None where the hub states none."""


@dataclass(frozen=True, slots=True)
class Listing:
    repository: str
    commit: str
    """What the names mean from now on, whatever is uploaded meanwhile."""
    files: tuple[HubFile, ...]


@dataclass(frozen=True, slots=True)
class Hub:
    endpoint: str
    token: str | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint).netloc or self.endpoint

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def url(self, listing: Listing, file: HubFile) -> str:
        from huggingface_hub import hf_hub_url

        return hf_hub_url(
            listing.repository, file.name, revision=listing.commit, endpoint=self.endpoint
        )

    def list_files(self, repository: str) -> Listing:
        """Raises `HubError` in words that say what to do."""
        # No timeout of a library covers the name server, so a thread asks, and is left behind.
        answers: SimpleQueue[Listing | EdgeKVError] = SimpleQueue()
        ask = threading.Thread(target=lambda: answers.put(self._ask(repository)), daemon=True)
        ask.start()
        try:
            answer = answers.get(timeout=LISTING_SECONDS)
        except Empty:
            raise no_answer(self.host, f"nothing came within {LISTING_SECONDS:.0f} s") from None
        if isinstance(answer, EdgeKVError):
            raise answer
        return answer

    def _ask(self, repository: str) -> Listing | EdgeKVError:
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self.token or False)
        try:
            info = api.model_info(repository, files_metadata=True, timeout=LISTING_SECONDS)
            return _listing(repository, info)
        except (httpx2.HTTPError, OSError) as error:
            return self.refusal(repository, error)
        except (KeyError, TypeError, ValueError, AttributeError):
            # A mirror's listing lacks fields that the hub library takes for granted.
            return HubError(
                f"{self.host} answers with something else than a listing of {repository}; "
                "check HF_ENDPOINT, or try another mirror."
            )

    def refusal(self, repository: str, error: httpx2.HTTPError | OSError) -> HubError:
        """The error of a request about `repository` in words for people."""
        return refusal_of(error, self.host, repository, has_token=self.token is not None)


def connect() -> Hub:
    """The hub that the environment names, and the token that the user is logged in with."""
    from huggingface_hub import constants, get_token

    endpoint = os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
    if constants.HF_HUB_OFFLINE:
        raise HubError("HF_HUB_OFFLINE is set, so nothing is asked of any hub; unset it to pull.")
    try:
        token = get_token()
    except OSError:
        token = None  # a home that is no folder holds none
    return Hub(endpoint.rstrip("/"), token)


def _listing(repository: str, info: Any) -> Listing:
    files = (
        HubFile(file.rfilename, file.size, file.lfs.sha256 if file.lfs else None)
        for file in info.siblings or ()
        if file.size is not None
    )
    return Listing(repository, str(info.sha or "main"), tuple(files))

"""The header of a model that is still at its hub, read with ranged requests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import httpx2

from edgekv.budget.sizes import format_size
from edgekv.budget.wish import Wish
from edgekv.errors import HubError, ModelError
from edgekv.models.forecast import Place
from edgekv.models.gguf_walk import Walked, walk
from edgekv.models.header_plan import HeaderPlan, plan_from_header
from edgekv.models.hub import Hub, HubFile, Listing
from edgekv.models.hub_errors import raise_for_status
from edgekv.models.quantisations import Chosen

FIRST_BYTES = 1 << 20
"""Most headers without a large vocabulary fit; each further request fetches twice as much."""
_SECONDS = 30.0
_PARTIAL = 206


class RemoteFile:
    """The beginning of a file at a hub, as much of it as was asked for."""

    def __init__(self, client: httpx2.Client, url: str, num_bytes: int) -> None:
        self._client, self._url, self.num_bytes = client, url, num_bytes
        self._there = bytearray()
        self._next_bytes = FIRST_BYTES

    @property
    def fetched_bytes(self) -> int:
        return len(self._there)

    def read(self, offset: int, length: int) -> bytes:
        """As `gguf_walk.Read`. Raises `HubError`, and the HTTP error of a refusal."""
        end = min(offset + length, self.num_bytes)
        while len(self._there) < end:
            self._fetch(max(end - len(self._there), self._next_bytes))
            self._next_bytes *= 2
        return bytes(self._there[offset:end])

    def _fetch(self, length: int) -> None:
        start = len(self._there)
        last = min(start + length, self.num_bytes) - 1
        headers = {"Range": f"bytes={start}-{last}", "Accept-Encoding": "identity"}
        with self._client.stream("GET", self._url, headers=headers) as response:
            raise_for_status(response)
            if response.status_code != _PARTIAL:
                raise HubError(
                    f"{response.url.host} sends no parts of files, so this model cannot be looked "
                    "at from afar; pull it first."
                )
            for block in response.iter_raw():
                self._there += block
                if len(self._there) > last:
                    break
        del self._there[last + 1 :]
        if len(self._there) <= last:
            raise HubError(f"{response.url.host} sent less than asked for; try again later.")


@dataclass(frozen=True, slots=True)
class RemoteHeader:
    """The header of a model at a hub."""

    content: bytes
    walked: Walked
    fetched_bytes: int
    """What crossed the network for it."""


def fetch_header(hub: Hub, listing: Listing, file: HubFile) -> RemoteHeader:
    """The header of `file`, exactly. Raises `HubError`, and `ModelError` if it is no model."""
    with httpx2.Client(follow_redirects=True, timeout=_SECONDS, headers=hub.headers) as client:
        remote = RemoteFile(client, hub.url(listing, file), file.num_bytes)
        try:
            walked = walk(remote.read, file.num_bytes)
            return RemoteHeader(remote.read(0, walked.num_bytes), walked, remote.fetched_bytes)
        except httpx2.HTTPError as error:
            raise hub.refusal(listing.repository, error) from error
        except ModelError as error:
            raise ModelError(
                f"{file.name} of {listing.repository} cannot be used: {error}."
            ) from error


async def plan_at_hub(hub: Hub, chosen: Chosen, place: Place, wish: Wish) -> HeaderPlan:
    """The plan of a model that nobody has transferred yet, but for its header.

    Raises `HubError`, `ModelError` if it is none, and `DoesNotFit`.
    """
    listing, quantisation = chosen.listing, chosen.quantisation
    header = fetch_header(hub, listing, quantisation.files[0])
    walked = header.walked
    if len(quantisation.files) > 1:  # the first file's table lists its own tensors alone
        walked = replace(walked, tensor_bytes=None, tensors=())
    walked = replace(walked, whole_bytes=quantisation.num_bytes)
    reason = (
        f"{format_size(header.fetched_bytes)} of {format_size(quantisation.num_bytes)} were read "
        f"at {hub.host}; 'edgekv pull' gets the rest."
    )
    return await plan_from_header(walked, quantisation.name, place, wish, reason)

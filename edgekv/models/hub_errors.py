"""The one table from what went wrong at a hub to what the user reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from edgekv.errors import HubError

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

_UNAUTHORISED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY = 401, 403, 404, 429


def raise_for_status(response: httpx2.Response) -> None:
    """Raises what `refusal_of` understands if a hub has refused a request."""
    from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

    hf_raise_for_status(response)


def refusal_of(
    error: httpx2.HTTPError | OSError, host: str, repository: str, *, has_token: bool
) -> HubError:
    """What a failed request about `repository` means for the user, with the remedy."""
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):
        return _refused(error, host, repository, has_token=has_token)
    return no_answer(host, str(error) or type(error).__name__)


def no_answer(host: str, why: str) -> HubError:
    return HubError(
        f"{host} cannot be reached ({' '.join(why.split())}); check the network, or name a mirror "
        "in HF_ENDPOINT. Models that are here already need no network: 'edgekv models'."
    )


def _refused(error: HfHubHTTPError, host: str, repository: str, *, has_token: bool) -> HubError:
    from huggingface_hub.errors import GatedRepoError

    status = error.response.status_code
    page = f"https://{host}/{repository}"
    if status == _UNAUTHORISED and has_token:
        return HubError(
            f"{host} refuses your token; make a new one at https://{host}/settings/tokens and put "
            "it into HF_TOKEN, or run 'hf auth login'."
        )
    if isinstance(error, GatedRepoError) and not has_token:
        return HubError(
            f"{repository} is given to people who are logged in and accepted its terms; log in "
            f"with 'hf auth login' or HF_TOKEN, and accept them at {page}."
        )
    if isinstance(error, GatedRepoError) or status == _FORBIDDEN:
        return HubError(
            f"Your account may not have {repository} yet; ask for access at {page}, "
            "and pull again once it is given."
        )
    if status in {_UNAUTHORISED, _NOT_FOUND}:
        return HubError(
            f"{host} has no repository or file {repository}, or keeps it private; check the "
            "spelling, or log in with 'hf auth login' if it is yours."
        )
    if status == _TOO_MANY:
        wait = error.response.headers.get("Retry-After")
        when = f"in {wait} seconds" if wait and wait.isdigit() else "in some minutes"
        return HubError(f"{host} wants fewer requests; pull again {when}, or log in.")
    return HubError(f"{host} is out of order (HTTP {status}); pull again later.")

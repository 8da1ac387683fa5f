"""How likely the model itself found each token, before any sampling option had its say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgekv.core.events import TokenLogprob
from edgekv.core.request import Token


class Likelihoods:
    """Log-probabilities at one place of an answer.

    Ask for them before the logits are sampled from, because a constraint changes the logits of
    what it forbids.
    """

    def __init__(self, logits: NDArray[np.float32], num_top: int) -> None:
        self._logits = logits
        highest = logits.max()
        # Log-softmax: x - log(sum(exp(x))), moved by the highest so that nothing overflows.
        self._log_total = float(
            highest + np.log(np.exp(logits - highest).sum(dtype=np.float64)),
        )
        self._top = [(Token(int(i)), self._logprob(int(i))) for i in _highest(logits, num_top)]

    def of(
        self, chosen: Token, piece: Callable[[Token], bytes], spelling: Callable[[Token], bytes]
    ) -> TokenLogprob:
        """The chosen token with the bytes it adds to the answer, beside the likeliest spelled out,
        control tokens too.
        """
        top = tuple((token, spelling(token), logprob) for token, logprob in self._top)
        return TokenLogprob(chosen, piece(chosen), self._logprob(chosen), top)

    def _logprob(self, token: int) -> float:
        return float(self._logits[token]) - self._log_total


def _highest(logits: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Ids of the highest logits, the highest first."""
    count = min(count, len(logits))
    if count == 0:
        return np.zeros(0, np.int64)
    ids = np.argpartition(logits, -count)[-count:]
    return ids[np.argsort(-logits[ids], kind="stable")]

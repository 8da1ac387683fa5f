from __future__ import annotations

import numpy as np

from edgekv.llama.sampler import stream_seed


def test_neighbouring_seeds_and_positions_draw_from_different_streams() -> None:
    drawn = {stream_seed(seed, position) for seed in range(100) for position in range(300)}
    # By chance alone 0.1 of 30,000 numbers of 32 bits meet another.
    assert len(drawn) >= 29_998


def test_every_bit_of_a_stream_seed_is_set_half_of_the_time() -> None:
    drawn = np.array([stream_seed(7, position) for position in range(4096)], np.uint64)
    set_bits = np.array([int(np.sum(drawn >> np.uint64(bit) & np.uint64(1))) for bit in range(32)])
    assert np.all(abs(set_bits - 2048) < 6 * 32), "more than 6 standard deviations off"


def test_a_seed_may_have_64_bits_and_a_sign() -> None:
    for seed in (-1, 2**63, 2**64 - 1):
        assert 0 <= stream_seed(seed, 5) < 2**32 - 1
    assert stream_seed(2**32, 5) != stream_seed(0, 5)

"""Layers on workers: the same answers, and every byte where the plan says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from edgekv.core.plan import Allocation, Choice, Opening
from edgekv.errors import ModelError
from edgekv.llama.backend import LlamaBackend, LlamaLibrary
from edgekv.llama.placement import Placement, split_of
from edgekv.service.own_command import own_command
from tests.lenders import MIB, Lender, lender
from tests.llama.test_adapters import SMALL, logits
from tests.llama.test_backend import A, compute, tokens_of

pytestmark = pytest.mark.llama

LENT = (120 * MIB, 60 * MIB, 60 * MIB)
PLACES = ((4, 4, 4), (1, 0, 5), (31, 0, 0))


@pytest.fixture(scope="module")
def lenders() -> Iterator[list[Lender]]:
    with ExitStack() as stack:
        yield [stack.enter_context(lender(num_bytes)) for num_bytes in LENT]


@pytest.fixture(scope="module")
def library(lenders: list[Lender]) -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"), [one.address for one in lenders])


def placed(worker_layers: tuple[int, ...], choice: Choice = SMALL) -> Choice:
    return replace(choice, gpu_layers=sum(worker_layers), worker_layers=worker_layers)


def free_bytes(library: LlamaLibrary) -> list[int]:
    return [device.free_bytes or 0 for device in library.devices() if device.kind == "rpc"]


def test_each_worker_is_a_device_with_what_it_lends(
    library: LlamaLibrary, lenders: list[Lender]
) -> None:
    devices = [device for device in library.devices() if device.kind == "rpc"]
    assert [device.id for device in devices] == ["RPC0", "RPC1", "RPC2"]
    assert [device.name for device in devices] == [one.address for one in lenders]
    assert tuple(device.total_bytes for device in devices) == LENT
    assert tuple(free_bytes(library)) == LENT


def shares(found: np.ndarray) -> np.ndarray:
    """How likely each token is."""
    raised = np.exp(found - found.max())
    return np.array(raised / raised.sum())


def test_answers_are_the_same_wherever_layers_are(
    library: LlamaLibrary, starter_model: Path
) -> None:
    here = shares(logits(library, Opening(str(starter_model), SMALL)))
    for worker_layers in PLACES:
        there = shares(logits(library, Opening(str(starter_model), placed(worker_layers))))
        # Not to the bit: weights that are here may be laid out for the processor, which rounds
        # otherwise. One layer that is left out moves most of what is likely.
        assert np.abs(here - there).sum() / 2 < 0.05, worker_layers


def test_a_dry_run_foresees_every_byte_on_every_worker(
    library: LlamaLibrary, starter_model: Path
) -> None:
    weight_bytes = library.describe(str(starter_model)).weight_bytes
    for worker_layers in PLACES:
        opening = Opening(str(starter_model), placed(worker_layers))
        foreseen = library.dry_run(opening)
        backend, _, allocated = library.open(opening, lambda _: None)
        taken = [lent - free for lent, free in zip(LENT, free_bytes(library), strict=True)]
        backend.close()
        assert _sizes(foreseen) == _sizes(allocated)
        assert foreseen.total("weights") == weight_bytes, "a tensor is nowhere, or twice"
        for number, layers in enumerate(worker_layers):
            on_worker = _bytes_on(allocated, f"RPC{number}")
            assert (on_worker > 0) is (layers > 0)
            # Each buffer is rounded up to whole cache lines, where it lies.
            assert on_worker <= taken[number] <= on_worker + 4096
        assert tuple(free_bytes(library)) == LENT


def test_a_worker_gives_no_more_than_it_lends_and_lends_again(
    library: LlamaLibrary, starter_model: Path
) -> None:
    with pytest.raises(ModelError, match="failed to allocate RPC0"):
        library.open(Opening(str(starter_model), placed((0, 31, 0))), lambda _: None)
    assert tuple(free_bytes(library)) == LENT


def test_cells_on_workers_are_copied_and_come_back(
    library: LlamaLibrary, starter_model: Path
) -> None:
    backend, _, _ = library.open(Opening(str(starter_model), placed((4, 4, 4))), lambda _: None)
    assert isinstance(backend, LlamaBackend)
    tokens = tokens_of(backend, "The robot walked home. " * 6)
    compute(backend, A, 0, tokens[:30])
    copy = backend.save(A, 0, 30)
    expected = compute(backend, A, 30, tokens[30:])
    backend.cut(A, 0, len(tokens))
    assert backend.load(copy, A, 0, 30)
    assert (compute(backend, A, 30, tokens[30:]) == expected).all()
    backend.close()


def _sizes(allocation: Allocation) -> list[tuple[str, str, int]]:
    return sorted((buffer.device, buffer.label, buffer.bytes) for buffer in allocation.buffers)


def _bytes_on(allocation: Allocation, device: str) -> int:
    return sum(buffer.bytes for buffer in allocation.buffers if buffer.device == device)


def test_a_split_gives_each_device_its_whole_layers_however_sums_are_rounded() -> None:
    for layers in ((1, 0, 5), (7, 11, 13), (1,), (3, 3, 3, 3, 3, 3, 3)):
        shares = split_of(layers)
        total = sum(shares)
        borders = [sum(shares[: n + 1]) / total for n in range(len(shares))]
        found = [0] * len(layers)
        for layer in range(sum(layers)):
            found[next(n for n, border in enumerate(borders) if border > layer / sum(layers))] += 1
        assert found == list(layers)


def test_a_placement_says_what_each_worker_holds() -> None:
    assert Placement.of(placed((2, 3))) == Placement(5, 0, (2, 3))


def test_scores_are_computed_here_unless_a_graphics_device_does_it() -> None:
    assert Placement.of(placed((2, 3))).keeps_output
    assert not Placement.of(replace(placed((2, 3)), gpu_layers=9)).keeps_output
    assert not Placement.of(SMALL).keeps_output

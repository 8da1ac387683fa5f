"""What a user types becomes a `Wish`, or one sentence."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgekv.budget.sizes import Reserve
from edgekv.budget.wish import Wish
from edgekv.cli.options import budget_options

GIB = 1024**3


def parse(model: Path, *arguments: str) -> Wish:
    seen: list[Wish] = []

    @click.command()
    @budget_options
    def command(path: str, wish: Wish) -> None:
        assert path == str(model)
        seen.append(wish)

    command.main([str(model), *arguments], standalone_mode=False)
    return seen[0]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.touch()
    return path


def test_nothing_said_means_auto_everywhere(model: Path) -> None:
    assert parse(model) == Wish()


def test_auto_may_be_said(model: Path) -> None:
    names = ["--ctx", "--slots", "--cells", "--kv-type", "--gpu-layers", "--memory"]
    names += ["--host-cache", "--threads"]
    assert parse(model, *[word for name in names for word in (name, "auto")]) == Wish()


def test_every_option_reaches_its_field(model: Path) -> None:
    line = (
        "--ctx 4096 --slots 3 --cells 8192 --kv-type q8_0/q4_0 --gpu-layers 0 --memory 4GiB "
        "--host-cache 512MiB --reserve 1G --threads 2 --no-mmap"
    )
    assert parse(model, *line.split()) == Wish(
        context_length=4096,
        slots=3,
        cells=8192,
        kv_type_k="q8_0",
        kv_type_v="q4_0",
        gpu_layers=0,
        memory_bytes=4 * GIB,
        host_cache_bytes=GIB // 2,
        reserve=Reserve(GIB),
        threads=2,
        use_mmap=False,
    )


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("4GiB", 4 * GIB),
        ("4G", 4 * GIB),
        ("4gib", 4 * GIB),
        ("4 GiB", 4 * GIB),
        ("4GB", 4 * 10**9),
        ("1.5GiB", 3 * GIB // 2),
        ("512MiB", GIB // 2),
        ("9007199254740993", 9007199254740993),
        ("0", 0),
    ],
)
def test_a_size_is_read_as_written(model: Path, text: str, num_bytes: int) -> None:
    assert parse(model, "--memory", text).memory_bytes == num_bytes


@pytest.mark.parametrize(
    ("text", "of_eight_gib"), [("10%", 8 * GIB // 10), ("0.5 %", GIB // 25), ("1G", GIB), ("0", 0)]
)
def test_a_reserve_is_an_amount_or_a_part_of_all_memory(
    model: Path, text: str, of_eight_gib: int
) -> None:
    wished = parse(model, "--reserve", text).reserve
    assert wished is not None
    assert wished.of(8 * GIB) == of_eight_gib


def test_one_kv_type_means_keys_and_values(model: Path) -> None:
    wish = parse(model, "--kv-type", "Q8_0")
    assert (wish.kv_type_k, wish.kv_type_v) == ("q8_0", "q8_0")


def test_half_of_a_kv_type_pair_may_be_auto(model: Path) -> None:
    wish = parse(model, "--kv-type", "q8_0/auto")
    assert (wish.kv_type_k, wish.kv_type_v) == ("q8_0", None)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--memory", "lots"),
        ("--memory", "9" * 30),
        ("--ctx", "9" * 5000),
        ("--ctx", "2147483648"),
        ("--memory", "4XB"),
        ("--memory", "-1"),
        ("--memory", "1e9"),
        ("--memory", ""),
        ("--memory", "٣GiB"),
        ("--reserve", "100%"),
        ("--reserve", "-1%"),
        ("--reserve", "%"),
        ("--memory", "10%"),
        ("--ctx", "0"),
        ("--ctx", "-5"),
        ("--ctx", "4k"),
        ("--threads", "0"),
        ("--threads", "x"),
        ("--slots", "1.5"),
        ("--gpu-layers", "-1"),
        ("--kv-type", "q3_k"),
        ("--kv-type", "q8_0/"),
        ("--kv-type", "/q8_0"),
        ("--kv-type", "q8_0/q8_0/q8_0"),
    ],
)
def test_a_value_that_makes_no_sense_is_wrong_usage(model: Path, option: str, text: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parse(model, option, text)
    sentence = caught.value.format_message()
    assert f"'{option}'" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_help_names_every_option() -> None:
    @click.command()
    @budget_options
    def command(path: str, wish: Wish) -> None:
        raise AssertionError((path, wish))

    text = CliRunner().invoke(command, ["--help"]).output
    for name in ("MODEL", "--ctx", "--slots", "--cells", "--kv-type", "--reserve", "--no-mmap"):
        assert name in text

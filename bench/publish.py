"""Write the kept results into README, docs/measured.md and its pictures.

    python -m bench.publish

What stands between two marks is replaced, the rest of a page is left alone. A test compares the
pages with the results.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench import drawing, results, tables

REPOSITORY = Path(__file__).parent.parent
README, PAGE = REPOSITORY / "README.md", REPOSITORY / "docs/measured.md"
IMAGES = REPOSITORY / "docs/images"
PICTURES = tuple(f"measured-{name}.svg" for name in ("computed", "decode", "step", "front-end"))
MARKED = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def published(loads: dict[str, Any]) -> dict[Path, str]:
    """Every file that the results are shown in, as it should be."""
    pages = {path: filled(path.read_text(encoding="utf-8"), loads) for path in (README, PAGE)}
    return pages | {IMAGES / name: text for name, text in pictures(loads).items()}


def filled(page: str, loads: dict[str, Any]) -> str:
    """The page with each marked part as the results have it."""
    return MARKED.sub(lambda found: f"{found[1]}{_part(found[2], loads)}\n{found[3]}", page)


def _part(name: str, loads: dict[str, Any]) -> str:
    if name == "overview":
        return tables.overview(loads)
    if name not in loads:
        return "Not measured yet."
    load = loads[name]
    if name == "restart":
        return tables.restart(load)
    return f"{load['what'].capitalize()}.\n\n{tables.details(load)}"


def pictures(loads: dict[str, Any]) -> dict[str, str]:
    """Each by its name; one that has nothing to show says so, as pages lead to it."""
    compared = {name: loads[name] for name in ("fan_out", "turns") if name in loads}
    drawn = dict.fromkeys(PICTURES, drawing.bars("Not measured yet", {}))
    if compared:
        drawn["measured-computed.svg"] = drawing.bars(
            "Prompt tokens computed",
            {_heading(load): _computed(load) for load in compared.values()},
        )
    if "decode" in loads and loads["decode"]["quiet"]:
        drawn["measured-decode.svg"] = drawing.bars(
            "Tokens a second, answers that share nothing", _decoded(loads["decode"])
        )
    if "curves" in loads:
        drawn |= _curves(loads["curves"])
    return drawn


def _heading(load: dict[str, Any]) -> str:
    return str(load["what"])


def _computed(load: dict[str, Any]) -> dict[str, float | None]:
    servers = load["servers"]
    necessary = servers["EdgeKV"]["prompt_tokens_necessary"]["median"]
    return {"necessary": necessary} | {
        name: tables.median(figures.get("prompt_tokens_computed"))
        if tables.finished(figures)
        else None
        for name, figures in servers.items()
        if tables.tells(figures)
    }


def _decoded(load: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    return {
        f"{n} at once": {"at most": top}
        | {
            name: tables.median(figures.get(f"tokens_per_second_at_{n}"))
            for name, figures in load["servers"].items()
        }
        for n, top in load["ceiling"].items()
    }


def _curves(load: dict[str, Any]) -> dict[str, str]:
    steps = {
        "sequences that run": load["step_by_sequences"],
        "tokens kept": load["step_by_kept_tokens"],
        "sequence ids": load["step_by_ids"],
    }
    return {
        "measured-step.svg": drawing.curves(
            "EdgeKV's own part of a step", "milliseconds of CPU time", steps
        ),
        "measured-front-end.svg": drawing.curves(
            "What one streamed token costs the server's process",
            "milliseconds of CPU time",
            {"connections": load["token_by_connections"]},
        ),
    }


def main() -> None:
    loads = results.read(results.file_of_this_version())["loads"]
    for path, text in published(loads).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

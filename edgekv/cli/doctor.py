"""`edgekv doctor`: what is wrong with this machine, and the command that mends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from edgekv.tui.visible import visible

if TYPE_CHECKING:
    from edgekv.doctor.finding import Finding

SCHEMA = 1


@click.command()
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(model: str | None, as_json: bool) -> None:
    """Look at this machine, and try it with a small model.

    MODEL is tried instead of the starter model. Exits with 1 if something does not work.
    """
    from edgekv.doctor.finding import Verdict

    findings = asyncio.run(_examine(model, tell=not as_json))
    worst = max((finding.verdict for finding in findings), key=list(Verdict).index)
    if as_json:
        report = {"schema": SCHEMA, "verdict": worst, "findings": findings}
        click.echo(msgspec.json.encode(report))
    if worst is Verdict.FAULT:
        raise SystemExit(1)


async def _examine(model: str | None, *, tell: bool) -> list[Finding]:
    from edgekv.doctor.examination import examine
    from edgekv.doctor.host import Host

    findings = []
    async for finding in examine(Host(), model):
        findings.append(finding)
        if tell:
            for line in _lines(finding):
                click.echo(visible(line))
    return findings


def _lines(finding: Finding) -> list[str]:
    verdict = "" if finding.remedy is None else f"{finding.verdict.upper()}: "
    lines = [f"{finding.topic:13} {verdict}{finding.text}"]
    if finding.remedy is not None:
        lines.append(f"{'':13} → {finding.remedy}")
    return lines

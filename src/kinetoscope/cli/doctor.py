"""``kinetoscope doctor``: what works on this machine, and why."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from kinetoscope.cli.console import console, progress

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope doctor

  kinetoscope doctor --json > report.json"""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the facts as one JSON object.")] = False) -> None:
    """Say what works here, and why: versions, torch, what can be recorded, what is optional and missing."""
    from kinetoscope.record.environment import environment

    with progress("looking at torch"):
        facts = environment()
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(facts)).decode() + "\n")
        return
    from kinetoscope.show.facts import pairs

    pairs(console(sys.stdout), lines(facts))


def lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts of :func:`kinetoscope.record.environment.environment` for people, as names and values."""
    from kinetoscope.record.environment import OPTIONAL

    versions, torch, recording = facts["versions"], facts["torch"], facts["recording"]
    described = [
        ("kinetoscope", versions["kinetoscope"] or "not installed as a package"),
        ("python", f"{facts['python']}, {facts['platform']}, {facts['cpus']} cpus"),
        ("libraries", ", ".join(f"{name} {found or 'missing'}" for name, found in versions.items() if name != "kinetoscope")),
        ("reading traces", "works, with and without torch"),
        ("torch", f"{torch['version'] or 'not installed'} (supported: {torch['supported']})"),
    ]
    if recording is None:
        described.append(("recording", f"does not work: {torch['why']}"))
    else:
        kineto = "works" if recording["kineto"] else "does not work: this torch was built without Kineto"
        devices = ", ".join(recording["devices"]) or "no device"
        described += [
            ("recording", kineto),
            ("activities", ", ".join(recording["activities"])),
            ("devices", f"{devices} (torch's CUDA: {recording['cuda'] or 'none'})"),
        ]
    for name, use in OPTIONAL.items():
        found = facts["optional"][name]
        described.append((name, found or f"missing; for {use}: pip install {name}"))
    return described

"""``kinetoscope run``: a program as it is, under the profiler."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from kinetoscope.cli.console import CommandError, say, tolerate_any_name

if TYPE_CHECKING:
    from kinetoscope.launch.launcher import Outcome, Plan, RunOptions

SUMMARY_ROWS = 20
SUFFIXES = (".parquet", ".json", ".json.gz")

EXAMPLES = """[bold]Examples[/bold]

  kinetoscope run train.py --epochs 1

  kinetoscope run --shapes --memory -o first.parquet train.py

  kinetoscope run --warmup 2 --active 5 -m package.train --epochs 1

  kinetoscope run --patch train_with_its_own_profiler.py

The summary goes to stderr, so what the program prints can be piped on."""


@dataclass(frozen=True)
class Prepared:
    """A run that was checked and can begin."""

    plan: Plan
    summary: bool = True


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="PROGRAM [ARGUMENTS]...", help="A script, folder or zip file and its arguments; -m: a module."),
    ],
    module: Annotated[bool, typer.Option("-m", "--module", help="PROGRAM is the name of a module.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            show_default=False,
            help="Where the trace goes: .parquet, .json or .json.gz. Default: PROGRAM.parquet in this folder.",
        ),
    ] = None,
    activities: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What to record: cpu, cuda, xpu, ...; several with commas. Default: all."),
    ] = None,
    shapes: Annotated[bool, typer.Option("--shapes", help="Record the sizes and types of operators' inputs.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Record allocations and frees.")] = False,
    stacks: Annotated[bool, typer.Option("--stacks", help="Record Python calls, and so the stacks of operators.")] = False,
    modules: Annotated[bool, typer.Option("--modules", help="Record the modules of TorchScript.")] = False,
    flops: Annotated[bool, typer.Option("--flops", help="Count floating point operations; records shapes too.")] = False,
    all_threads: Annotated[bool, typer.Option("--all-threads", help="Record threads of before too; then no memory.")] = False,
    active: Annotated[
        int | None, typer.Option(metavar="STEPS", help="Record this many steps of the optimizer, not all.")
    ] = None,
    warmup: Annotated[int | None, typer.Option(metavar="STEPS", help="Steps that warm the profiler up. Default: 1.")] = None,
    wait: Annotated[int | None, typer.Option(metavar="STEPS", help="Idle steps before them. Default: 0.")] = None,
    repeat: Annotated[int | None, typer.Option(metavar="CYCLES", help="How often; 0: to the end. Default: 1.")] = None,
    skip_first: Annotated[int | None, typer.Option(metavar="STEPS", help="Idle steps before all. Default: 0.")] = None,
    patch: Annotated[
        bool, typer.Option("--patch", help="Make the program's own torch.profiler Kinetoscope's, and record nothing else.")
    ] = False,
    summary: Annotated[bool, typer.Option("--summary/--no-summary", help="Print a summary at the end.")] = True,
) -> Prepared:
    """Profile a program as it is, and print where its time went."""
    from kinetoscope.launch.launcher import CannotRecord, Plan, RunOptions, require_recording
    from kinetoscope.launch.script import Target

    target = Target(command[0], module, tuple(command[1:]))
    options = RunOptions(
        activities=_activities(activities),
        record_shapes=shapes,
        profile_memory=memory,
        with_stack=stacks,
        with_modules=modules,
        with_flops=flops,
        all_threads=all_threads,
        steps=_steps(active, warmup, wait, repeat, skip_first),
    )
    if all_threads and memory:
        say("Kineto records no memory with --all-threads: the memory columns will be empty")
    if patch:
        _nothing_beside_patch(output, options)
    elif output is None:
        output = Path(f"{target.stem}.parquet")
    if output is not None:
        _check_output(output)
    try:
        require_recording()
    except CannotRecord as error:
        raise CommandError(str(error)) from error
    return Prepared(Plan(target, options, output, patch), summary)


def execute(prepared: Prepared) -> int:
    """Run the program and return its exit status.

    Raises:
        CommandError: there is no such program.
        KeyboardInterrupt: the program was ended by Ctrl-C; Python then ends by the signal, without a traceback of ours.
    """
    from kinetoscope.launch.launcher import launch
    from kinetoscope.launch.script import ScriptError

    try:
        ending = launch(prepared.plan, lambda outcome: _report(outcome, prepared.summary))
    except ScriptError as error:
        say(str(error))
        return 2
    if ending.interrupted:
        sys.excepthook = _silent_hook
        raise KeyboardInterrupt
    return ending.status


def _silent_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    # The program's own traceback has been shown.
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _report(outcome: Outcome, summary: bool) -> None:
    for remark in outcome.remarks:
        say(remark)
    if outcome.path is None or outcome.trace is None:
        return
    if summary:
        from kinetoscope.cli.selection import Selection, select
        from kinetoscope.cli.summary import show

        tolerate_any_name(sys.stderr)
        sys.stderr.write("\n")
        selection = Selection(None, SUMMARY_ROWS, None, (), False, 0, False)
        show(outcome.trace, select(outcome.trace, selection, False), outcome.path, sys.stderr)
    say(f"the trace is in {outcome.path}; look again with: kinetoscope summary {outcome.path}")


def _activities(names: list[str] | None) -> tuple[str, ...] | None:
    from kinetoscope.launch.launcher import ACTIVITIES

    if names is None:
        return None
    chosen = tuple(name.strip().lower() for text in names for name in text.split(",") if name.strip())
    unknown = [name for name in chosen if name not in ACTIVITIES]
    if unknown or not chosen:
        raise CommandError(f"--activities: unknown {', '.join(unknown) or 'nothing'}; choose from {', '.join(ACTIVITIES)}")
    return tuple(dict.fromkeys(chosen))


def _steps(
    active: int | None, warmup: int | None, wait: int | None, repeat: int | None, skip_first: int | None
) -> dict[str, int] | None:
    import warnings

    from kinetoscope.record.schedule import schedule

    given = {"active": active, "warmup": warmup, "wait": wait, "repeat": repeat, "skip_first": skip_first}
    if all(value is None for value in given.values()):
        return None
    if active is None:
        raise CommandError("a schedule needs --active STEPS: how many steps of the optimizer are recorded")
    defaults = {"active": 1, "warmup": 1, "wait": 0, "repeat": 1, "skip_first": 0}
    steps = {name: defaults[name] if value is None else value for name, value in given.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warmup: whoever asks for it knows
            schedule(**steps)
    except AssertionError as error:
        raise CommandError(str(error)) from error
    return steps


def _nothing_beside_patch(output: Path | None, options: RunOptions) -> None:
    from kinetoscope.launch.launcher import RunOptions

    if output is not None or options != RunOptions():
        raise CommandError("--patch leaves recording to the program's own profiler: give it without --output and other options")


def _check_output(path: Path) -> None:
    """Refuse, before anything runs, a file that the trace could not be written to."""
    if not path.name.lower().endswith(SUFFIXES):
        raise CommandError(f"{path}: a trace is written to a file that ends in {', '.join(SUFFIXES)}")
    folder = path.absolute().parent
    if path.is_dir():
        raise CommandError(f"{path}: is a folder; name a file")
    if not folder.is_dir():
        raise CommandError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"{path}: the folder {folder} cannot be written to")

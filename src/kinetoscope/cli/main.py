"""The command ``kinetoscope``: puts the subcommands together and turns errors into one line and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kinetoscope.cli import check, convert, demo, doctor, run, schema, sql, summary
from kinetoscope.cli.console import CommandError, abandon_stdout, say

NAME = "kinetoscope"

EPILOG = """[bold]To begin[/bold]

  kinetoscope demo                    train a small model and see what a profile looks like

  kinetoscope run train.py --epochs 1 profile a script as it is

  kinetoscope summary trace.parquet   look at a trace again

  kinetoscope sql trace.parquet "..."  ask it anything

Each command says more with --help."""

app = typer.Typer(
    name=NAME,
    help="The profiler for PyTorch whose traces are tables.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from kinetoscope import __version__

        print(f"{NAME} {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


# What comes after the script belongs to the script, whatever it looks like.
app.command("run", epilog=run.EXAMPLES, context_settings={"allow_interspersed_args": False}, no_args_is_help=True)(run.run)
app.command("summary", epilog=summary.EXAMPLES, no_args_is_help=True)(summary.summary)
app.command("sql", epilog=sql.EXAMPLES, no_args_is_help=True)(sql.sql)
app.command("schema", epilog=schema.EXAMPLES)(schema.schema)
app.command("convert", epilog=convert.EXAMPLES, no_args_is_help=True)(convert.convert)
app.command("check", epilog=check.EXAMPLES, no_args_is_help=True)(check.check)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)

# The base of all errors that the parser raises. It moved between releases of typer, which does not export it.
_ParserError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Errors are one line on stderr and status 2. A script under ``run`` that was ended by Ctrl-C raises KeyboardInterrupt
    here too, silently, so that Python ends by the signal as it would have without us.
    """
    try:
        outcome = _dispatch(sys.argv[1:] if arguments is None else list(arguments))
        if not isinstance(outcome, run.Prepared):
            sys.stdout.flush()
            return outcome if isinstance(outcome, int) else 0
    except BrokenPipeError:
        abandon_stdout()
        return 141  # as a program that dies by SIGPIPE
    except KeyboardInterrupt:
        return 130
    except CommandError as error:
        say(str(error))
        return error.status
    except _ParserError as error:
        say(_one_line(error))
        return 2
    # Outside of the parser's frames: the script's own stack begins here.
    return int(run.execute(outcome))


def _dispatch(arguments: list[str]) -> Any:
    return typer.main.get_command(app).main(arguments, prog_name=NAME, standalone_mode=False)


def _one_line(error: Any) -> str:
    text = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else NAME
    return f"{text.rstrip('.')}; see {path} --help"

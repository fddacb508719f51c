"""Running a program inside this process as Python itself would: a file, a folder, a zip file or a module.

Nothing here knows of profiling or imports torch.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

OWN_FOLDER = str(Path(__file__).resolve().parent.parent)
"""Frames of files below this folder are ours; a script's traceback does not show them."""


class ScriptError(Exception):
    """The program cannot be found, so there is nothing to run; the message says what is missing."""


@dataclass(frozen=True)
class Target:
    """What is to run: a path, or with ``is_module`` a dotted module name, and the arguments that it gets."""

    name: str
    is_module: bool = False
    arguments: Sequence[str] = field(default_factory=tuple)

    @property
    def stem(self) -> str:
        """A short name for files: the script's name without suffix, or the last part of the module's."""
        if self.is_module:
            return self.name.removesuffix(".__main__").rpartition(".")[2]
        return Path(os.path.abspath(self.name)).stem


@dataclass(frozen=True)
class Program:
    """A program that was found and compiled, ready to become ``__main__``."""

    code: CodeType
    module: ModuleType


@dataclass(frozen=True)
class Ending:
    """How a program ended.

    ``status`` is its exit status: 0 to 255, as ``sys.exit`` or an exception gave it. ``interrupted`` is true if it
    ended by Ctrl-C; Python then ends by the signal itself, after everything else.
    """

    status: int = 0
    interrupted: bool = False


def load(target: Target) -> Program:
    """Find and compile the program, and set ``sys.argv`` and ``sys.path[0]`` as Python would for it.

    Raises:
        ScriptError: there is no such file or module, or it cannot be run.
        SyntaxError: its source is wrong.
        BaseException: what a parent package of the module raised when it was imported.
    """
    return _load_module(target) if target.is_module else _load_path(target)


def _load_path(target: Target) -> Program:
    path = target.name
    if not os.path.exists(path):
        raise ScriptError(f"{path}: no such file")
    sys.argv[:] = [path, *target.arguments]
    if _is_container(path):
        _set_path_entry(path)
        spec = importlib.machinery.PathFinder.find_spec("__main__", [path])
        code = _code_of(spec)
        if spec is None or code is None:
            raise ScriptError(f"{path}: can't find a __main__ module in it")
        return Program(code, _main_module(os.fspath(spec.origin or path), spec.loader, spec))
    _set_path_entry(os.path.dirname(os.path.realpath(path)))
    # Python makes __file__ of a script absolute, but compiles it under the name that was given.
    absolute = os.path.abspath(path)
    loader: Any
    if path.endswith(".pyc"):
        loader = importlib.machinery.SourcelessFileLoader("__main__", absolute)
        code = loader.get_code("__main__")
    else:
        loader = importlib.machinery.SourceFileLoader("__main__", absolute)
        try:
            with io.open_code(absolute) as handle:
                source = handle.read()
        except OSError as error:
            raise ScriptError(f"{path}: {error.strerror or error}") from error
        code = compile(source, path, "exec", dont_inherit=True)
    return Program(code, _main_module(absolute, loader, None))


def _is_container(path: str) -> bool:
    """Whether the path is a folder or a zip file, which Python runs by the ``__main__`` module inside."""
    return os.path.isdir(path) or type(pkgutil.get_importer(path)).__name__ == "zipimporter"


def _load_module(target: Target) -> Program:
    name = target.name
    # What Python shows to parent packages while the module is being looked for.
    sys.argv[:] = ["-m", *target.arguments]
    _set_path_entry(os.getcwd())
    spec = _find_module(name)
    if spec is not None and spec.submodule_search_locations is not None:
        package, name = name, f"{name}.__main__"
        spec = _find_module(name)
        if spec is None:
            raise ScriptError(f"No module named {name}; {package!r} is a package and cannot be run itself")
    code = _code_of(spec)
    if spec is None or code is None:
        raise ScriptError(f"No module named {name}" if spec is None else f"{name} has no code that Python can run")
    file = os.fspath(spec.origin or name)
    sys.argv[0] = file
    return Program(code, _main_module(file, spec.loader, spec))


def _find_module(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # Of the parents of the module itself, not of something that a parent imports.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            return None
        raise
    except ValueError as error:  # relative names, modules without a spec
        raise ScriptError(f"cannot run {name} as a module: {error}") from error


def _code_of(spec: importlib.machinery.ModuleSpec | None) -> CodeType | None:
    if spec is None or not hasattr(spec.loader, "get_code"):
        return None
    code: CodeType | None = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    return code


def _main_module(file: str, loader: Any, spec: importlib.machinery.ModuleSpec | None) -> ModuleType:
    module = ModuleType("__main__")
    vars(module).update(
        __file__=file,
        __loader__=loader,
        __spec__=spec,
        __package__=spec.parent if spec is not None else None,
        __cached__=spec.cached if spec is not None else None,
        __builtins__=sys.modules["builtins"],
    )
    return module


def _set_path_entry(entry: str) -> None:
    """Put the program's folder where Python would, in place of the one that stands for us."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        # Python was told to put no folder there; a folder or zip file that is run itself is put there all the same.
        if _is_container(entry) and entry == sys.argv[0]:
            sys.path.insert(0, entry)
        return
    sys.path[0] = entry


def run(program: Program) -> Ending:
    """Run the program as ``__main__`` until it ends, and show how it ended as Python would.

    An unhandled exception goes to ``sys.excepthook`` without our frames, the text of ``sys.exit("text")`` to stderr.
    ``__main__`` stays in place: exit handlers and pickles may still need it.
    """
    sys.modules["__main__"] = program.module
    try:
        exec(program.code, vars(program.module))
    except SystemExit as error:
        return Ending(exit_status(error.code))
    except KeyboardInterrupt as error:
        show_exception(error)
        return Ending(130, interrupted=True)
    except BaseException as error:
        show_exception(error)
        return Ending(1)
    return Ending()


def exit_status(code: object) -> int:
    """The status of ``sys.exit(code)``, after showing on stderr a code that is text."""
    if code is None:
        return 0
    if isinstance(code, int):
        # Exit statuses have eight bits; Python turns what fits no C long into -1.
        return code & 0xFF if -(2**63) <= code < 2**63 else 0xFF
    _flush(sys.stdout)
    try:
        print(code, file=sys.stderr)
    except Exception:
        return 1
    return 1


def show_exception(error: BaseException) -> None:
    """Hand an unhandled exception to ``sys.excepthook``, its traceback beginning in the program."""
    _flush(sys.stdout)
    kind, trace = type(error), without_own_frames(error.__traceback__)
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(kind, error, trace)
    except BaseException as hook_error:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(hook_error, file=sys.stderr)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error, file=sys.stderr)


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that is not Kinetoscope's or the import system's on its behalf."""
    own = (OWN_FOLDER + os.sep, "<frozen ")
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(own):
        trace = trace.tb_next
    return trace


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except Exception:
        # Closed or broken: Python says so itself when it flushes at exit.
        return

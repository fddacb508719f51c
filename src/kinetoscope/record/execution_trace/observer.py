"""The execution trace: the graph of operators with their inputs, for replay and simulation, written by torch itself.

torch writes the file while the program runs; this module decides when, where, and what goes beside it.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import stat
import sys
import tempfile
import weakref
from abc import abstractmethod
from typing import Protocol, runtime_checkable

from kinetoscope.common.user_warning import warn_user
from kinetoscope.record import torch_private
from kinetoscope.record.distributed import json_safe
from kinetoscope.record.execution_trace.file import check_writable, compress, escape_names

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

ENABLE_VARIABLE = "ENABLE_PYTORCH_EXECUTION_TRACE"
EXTRAS_VARIABLE = "ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS"
PROCESS_GROUP_NODE = "## process_group:init ##"


@runtime_checkable
class TraceObserver(Protocol):
    """What a profiler drives beside its own recording; any object with these three methods will do."""

    @abstractmethod
    def start(self) -> None:
        """Begin to observe; called before the profiler's recording starts."""

    @abstractmethod
    def stop(self) -> None:
        """Stop observing; called before the profiler's recording stops. ``start`` may follow."""

    @abstractmethod
    def cleanup(self) -> None:
        """Finish for good and complete the output; called when the profiler's ``with`` block is left."""


class ExecutionTraceObserver(TraceObserver):
    """Writes an execution trace, of everything that runs between :meth:`start` and :meth:`stop`.

    A process can have one registered observer at a time, torch's own included. :meth:`register_callback` names the file
    and installs the observer, :meth:`start` and :meth:`stop` choose the window, any number of times, and
    :meth:`unregister_callback` (also: deleting the observer, or the end of the program) completes the file.

    A process that is forked off while an observer is registered does not write into its parent's file, and has no
    registered observer.

    >>> observer = ExecutionTraceObserver().register_callback("trace.json")  # doctest: +SKIP
    >>> with kinetoscope.profile(execution_trace_observer=observer):  # doctest: +SKIP
    ...     train()
    """

    def __init__(self) -> None:
        """Make an observer that is not registered yet."""
        self._registered = False
        self._execution_trace_running = False
        self._file_identity: tuple[int, int] | None = None
        self.extra_resources_collection = False
        self.resources_dir = ""
        self.output_file_path = ""
        """Where the trace is to be, as given."""
        self.output_file_path_observer = ""
        """Where torch writes: the same path, or a temporary file that will be compressed."""

    def __del__(self) -> None:
        """Complete the file."""
        if getattr(self, "_registered", False):
            self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """Return a registered observer if ``ENABLE_PYTORCH_EXECUTION_TRACE`` is 1 in the environment, else None.

        It writes a temporary file whose name ends in ``.et.json``, and collects extra resources if
        ``ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS`` is 1. Where that is impossible there is a warning, and None.
        """
        if os.environ.get(ENABLE_VARIABLE, "0") != "1":
            return None
        try:
            with tempfile.NamedTemporaryFile("w+t", suffix=".et.json", delete=False) as handle:
                path = handle.name
            observer = ExecutionTraceObserver().register_callback(path)
        except Exception as error:
            warn_user(f"Execution trace will not be recorded: its temporary file cannot be made ({error})")
            return None
        if not observer.is_registered:
            os.unlink(path)
            return None
        observer.set_extra_resource_collection(os.environ.get(EXTRAS_VARIABLE, "0") == "1")
        return observer

    # the file

    def register_callback(self, output_file_path: str | os.PathLike[str]) -> Self:
        """Name the output and install the observer; it records nothing before :meth:`start`.

        JSON, compressed with gzip if the name ends in ``.gz``. An observer that is registered already keeps its file.
        Where another observer of this process is registered, there is a warning and this one stays as it was.

        Returns:
            The observer itself.

        Raises:
            OSError: the output cannot be written; nothing has been installed then. (A torch that once was told to write
                where it cannot writes no execution trace in that process any more.)
        """
        if self._registered:
            return self
        global _owner
        owner = _registered_observer()
        if owner is not None:
            warn_user(
                f"An execution trace is being written to {owner.output_file_path}; a process has one observer at a "
                f"time, so nothing will be written to {os.fspath(output_file_path)}",
            )
            return self
        path = os.fspath(output_file_path)
        target = path
        check_writable(path)
        if path.endswith(".gz"):
            with tempfile.NamedTemporaryFile("w+b", suffix=".json", delete=False) as handle:
                target = handle.name
        if not _install(target):
            if target != path:
                os.unlink(target)
            warn_user(
                "Another execution trace observer, not Kinetoscope's, is registered in this process, so nothing will "
                f"be written to {path}",
            )
            return self
        self.output_file_path = path
        self.output_file_path_observer = target
        self.resources_dir = ""
        facts = os.stat(target)
        self._file_identity = (facts.st_dev, facts.st_ino) if stat.S_ISREG(facts.st_mode) else None
        self._registered = True
        _owner = weakref.ref(self)
        return self

    def unregister_callback(self) -> None:
        """Stop, remove the observer and complete the file; does nothing where it is not registered.

        Trouble with resources or with the compression is a warning; what was traced is kept, uncompressed if need be.
        """
        if not self._registered:
            return
        global _owner
        try:
            self.stop()
            self._save_resources()
        finally:
            self._registered = False
            _owner = None
            torch_private.remove_execution_trace_observer()
        self._finish_file()

    def cleanup(self) -> None:
        """Complete the file; the same as :meth:`unregister_callback`."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """Return the path given to :meth:`register_callback`, None before that."""
        return self.output_file_path or None

    def _finish_file(self) -> None:
        source, target = self.output_file_path_observer, self.output_file_path
        try:
            escape_names(source)
        except Exception as error:
            warn_user(f"Names in the execution trace {source} could not be escaped: {error}")
        if source == target:
            return
        try:
            compress(source, target)
        except Exception as error:
            warn_user(
                f"The execution trace could not be compressed to {target} ({error}); it is kept, uncompressed, in {source}",
            )
        else:
            os.unlink(source)

    # the window

    @property
    def is_registered(self) -> bool:
        """True from :meth:`register_callback` to :meth:`unregister_callback`."""
        return self._registered

    def is_running(self) -> bool:
        """Return True between :meth:`start` and :meth:`stop`."""
        return self._execution_trace_running

    def start(self) -> None:
        """Begin to record, if registered; the configuration of torch.distributed's process groups is the first node."""
        if self._registered and not self._execution_trace_running:
            torch_private.enable_execution_trace_observer()
            self._execution_trace_running = True
            _record_process_groups()

    def stop(self) -> None:
        """Stop recording; :meth:`start` may follow."""
        if self._execution_trace_running:
            torch_private.disable_execution_trace_observer()
            self._execution_trace_running = False

    # what lies beside the file

    def set_extra_resource_collection(self, val: bool) -> None:
        """Choose whether the kernels that inductor generated are kept beside the trace, so that it can be replayed.

        To be called after :meth:`register_callback`. The folder is made now, the files are copied when the file is
        completed.
        """
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """Return the folder for extra resources: ``<output without its extension>_resources``.

        None where extra resources are not collected, no output is named yet, or the folder does not exist and is not to
        be (or cannot be) made.
        """
        if not self.extra_resources_collection or not self.output_file_path:
            return None
        if not self.resources_dir:
            found = self.get_resources_dir_for_et_path(self.output_file_path, create_dir=can_create)
            self.resources_dir = found or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str | os.PathLike[str], create_dir: bool = False) -> str | None:
        """Return the folder for the extra resources of the trace at a path, None if there is none.

        With ``create_dir`` it is made where it is missing; if that fails there is a warning, and None.
        """
        folder = os.path.splitext(os.fspath(trace_path))[0] + "_resources"
        if os.path.isdir(folder):
            return folder
        if not create_dir:
            return None
        try:
            os.mkdir(folder)
        except OSError as error:
            warn_user(f"The folder for the execution trace's resources cannot be made: {error}")
            return None
        return folder

    def _save_resources(self) -> None:
        try:
            folder = self.get_resources_dir(can_create=True)
            files = torch_private.inductor_source_files() if folder else []
        except Exception as error:
            warn_user(f"The execution trace goes without its resources: {error!r}")
            return
        for file in files:
            try:
                shutil.copyfile(file, os.path.join(str(folder), os.path.basename(file)))
            except Exception as error:
                warn_user(f"The execution trace goes without the generated file {file}: {error}")


def _record_process_groups() -> None:
    """Leave the configuration of the process groups as a node of the trace; a failure is a warning."""
    try:
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            text = json.dumps(json_safe(torch_private.process_group_configs()))
            handle = torch_private.record_function_with_args_enter(PROCESS_GROUP_NODE, text)
            torch_private.record_function_with_args_exit(handle)
    except Exception as error:
        warn_user(f"The execution trace goes without the process groups: {error!r}")


# one observer a process

_owner: weakref.ref[ExecutionTraceObserver] | None = None


def _registered_observer() -> ExecutionTraceObserver | None:
    observer = _owner() if _owner is not None else None
    return observer if observer is not None and observer.is_registered else None


def _install(path: str) -> bool:
    """Let torch open the file and begin to observe; return False if it did not, as another observer is there.

    torch says that it succeeded in that case too. But it empties a file that it opens, so one byte put into the file
    before tells the truth after.
    """
    with open(path, "ab") as handle:
        before = os.fstat(handle.fileno())
        regular = stat.S_ISREG(before.st_mode)
        if regular:
            handle.write(b" ")
    added = bool(torch_private.add_execution_trace_observer(path))
    if added and (not regular or os.path.getsize(path) != before.st_size + 1):
        return True
    if regular:
        os.truncate(path, before.st_size)
    return False


def _finish_at_exit() -> None:
    """Complete the file while Python is still whole; __del__ may run when half of it is gone."""
    observer = _registered_observer()
    if observer is not None:
        observer.unregister_callback()


def _let_go_in_child() -> None:
    """Keep a forked process from writing into its parent's file.

    The file's descriptor and torch's unwritten buffer are copies of the parent's. The descriptor is pointed at nothing,
    before anything can flush the buffer.
    """
    global _owner
    observer = _registered_observer()
    _owner = None
    if observer is None:
        return
    observer._registered = False
    was_running, observer._execution_trace_running = observer._execution_trace_running, False
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for name in os.listdir("/dev/fd"):
            _redirect_if(int(name), observer._file_identity, nowhere)
        if was_running:
            # The child has one thread yet, so its standard error can be closed for the line that torch prints here.
            error_output = os.dup(2)
            os.dup2(nowhere, 2)
            torch_private.disable_execution_trace_observer()
            os.dup2(error_output, 2)
            os.close(error_output)
        os.close(nowhere)
    except OSError:
        pass  # no descriptors to list, or no standard error: nothing to be done, and nobody to tell


def _redirect_if(descriptor: int, identity: tuple[int, int] | None, target: int) -> None:
    try:
        facts = os.fstat(descriptor)
    except OSError:
        return
    if (facts.st_dev, facts.st_ino) == identity:
        os.dup2(target, descriptor, inheritable=False)


atexit.register(_finish_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)

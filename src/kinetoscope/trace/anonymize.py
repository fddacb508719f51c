"""A trace that can be shown to others: names of people, hosts, files and of the program's own parts replaced.

What is known to be public (:mod:`kinetoscope.trace.public_names`: torch's operators, kernels, modules, Python's own
files) stays; every other text is replaced. So a name that nobody thought of is hidden, not shown.
"""

from __future__ import annotations

import builtins
import hashlib
import re
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import polars as pl

from kinetoscope.trace import public_names as public
from kinetoscope.trace.devices import DEVICE_NUMBERS
from kinetoscope.trace.metadata import Metadata
from kinetoscope.trace.vocabulary import MEMORY_EVENTS

_FRAME = re.compile(r"(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)
_BUILT_IN = re.compile(r"<built-in (?:method|function) (?P<name>\w+)(?: of (?P<kind>[\w.]+) object at 0x[0-9a-f]+)?>")
_MODULE = re.compile(r"nn\.Module: (?P<kind>.*)_(?P<number>\d+)", re.DOTALL)
_OPTIMIZER = re.compile(r"(?P<call>Optimizer\.(?:step|zero_grad))#(?P<kind>.*)\.(?P<method>step|zero_grad)", re.DOTALL)
_ENGINE = "autograd::engine::evaluate_function: "
# Nodes that torch generates carry a number; those of a program's own functions do not.
_NODE = re.compile(r"[A-Z]\w*Backward\d+|(?:torch::autograd::)?(?:AccumulateGrad|GraphRoot|CopySlices)")
_LIBRARY = re.compile(r".*/(?:site-packages|dist-packages|lib/python[\d.]+)/", re.DOTALL)
_GENERATED = re.compile(r"<frozen [\w.]+>|<string>|<eval_with_key>\.?\d*")
# Numbers, truth values and lists of them: what operators are called with.
_VALUE = re.compile(r"[\[\](){}, ]*(?:(?:-?\d[\d.]*(?:[eE][+-]?\d+)?j?|True|False|None|nan|-?inf|0x[0-9a-f]+)[\[\](){}, ]*)*")
_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?")

Rule = Callable[[str], str]


def anonymized(events: pl.DataFrame, metadata: Metadata, key: str | None = None) -> tuple[pl.DataFrame, Metadata]:
    """Replace every text that is not known to be public.

    The same text gets the same number everywhere in the trace, as in ``annotation_3f9a1c02``, and in other traces too if
    they are given the same key; without the key nobody can tell which text it was by trying.

    Replaced are the host, user metadata and the recording's log, paths and functions outside of public packages,
    modules, autograd functions, operators, kernels and annotations of one's own, names of processes and threads, and
    texts among the arguments. Times, shapes, sizes, ids and numbers stay: they are what the trace is shared for.

    Args:
        events: the table.
        metadata: what is known about the whole trace.
        key: a secret that makes names agree between traces; default: a new one each time.
    """
    hidden = _Hidden(key if key is not None else secrets.token_hex(16))
    names = _names(events, hidden)
    frame = events.with_columns(
        name=names,
        phase=_mapped(events["phase"], lambda text: text if len(text) == 1 else hidden("phase", text)),
        category=_mapped(events["category"], lambda text: text if text in public.CATEGORIES else hidden("category", text)),
        # The overloads of a public operator are public.
        overload_name=pl.when(names == events["name"])
        .then("overload_name")
        .otherwise(_mapped(events["overload_name"], lambda text: hidden("overload", text))),
        module=_mapped(events["module"], hidden.modules),
        stack=_mapped(events["stack"], lambda text: "\n".join(map(hidden.frame, text.split("\n")))),
        device_type=_mapped(events["device_type"], lambda text: text if text in DEVICE_NUMBERS else hidden("device", text)),
        **{
            column: _mapped(events[column], hidden.json)
            for column in ("concrete_inputs", "input_shapes", "input_strides", "input_types", "args")
        },
    )
    return frame, _metadata(metadata, hidden)


class _Hidden:
    """Gives the names that replace texts."""

    def __init__(self, key: str) -> None:
        self.key = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).digest()

    def __call__(self, kind: str, text: str) -> str:
        """The name that stands for a text, the same for the same text."""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self.key, digest_size=4)
        return f"{kind}_{digest.hexdigest()}"

    # names of events

    def frame(self, text: str) -> str:
        """A Python call: ``file(line): function``, a built-in or a module."""
        if match := _FRAME.fullmatch(text):
            file, is_public = self._file(match["file"])
            function = match["function"] if is_public or _is_pythons(match["function"]) else self("function", match["function"])
            return f"{file}({match['line']}): {function}"
        if match := _BUILT_IN.fullmatch(text):
            kind = match["kind"]
            of_public = kind in public.BUILT_INS or (kind or "builtins").partition(".")[0] in public.PACKAGES
            if of_public and (kind is not None or match["name"] in vars(builtins)):
                return text
            return f"<built-in {self('function', text)}>"
        if match := _MODULE.fullmatch(text):
            return f"nn.Module: {self._module(match['kind'])}_{match['number']}"
        return self("call", text)

    def _file(self, path: str) -> tuple[str, bool]:
        """A source file, and whether it belongs to a public package."""
        path = path.replace("\\", "/")
        if _GENERATED.fullmatch(path):
            return path, True
        short = _LIBRARY.sub("", path)
        is_public = short.partition("/")[0].removesuffix(".py") in public.PACKAGES
        return (short, True) if is_public else (self("file", path) + ".py", False)

    def _module(self, kind: str) -> str:
        return kind if kind in public.MODULES else self("Module", kind)

    def modules(self, text: str) -> str:
        """A path of modules, joined by dots."""
        return ".".join(part if part.isdigit() else self("module", part) for part in text.split("."))

    def operator(self, name: str) -> str:
        """An operator, a node of the backward pass, or an annotation that stands among them."""
        if name.startswith(_ENGINE):
            return _ENGINE + self.operator(name.removeprefix(_ENGINE))
        namespace, separator, _ = name.partition("::")
        is_public = (
            (separator and namespace in public.NAMESPACES) or _NODE.fullmatch(name) or public.GENERATED_KERNELS.fullmatch(name)
        )
        if is_public or name in (*MEMORY_EVENTS, "detach", "detach_"):
            return name
        return self.annotation(name, "operator")

    def annotation(self, name: str, kind: str = "annotation") -> str:
        """A range that the program or torch marked."""
        if public.ANNOTATIONS.fullmatch(name):
            return name
        if match := _OPTIMIZER.fullmatch(name):
            optimizer = match["kind"] if match["kind"] in public.OPTIMIZERS else self("Optimizer", match["kind"])
            return f"{match['call']}#{optimizer}.{match['method']}"
        return self(kind, name)

    def kernel(self, name: str) -> str:
        """A kernel or copy of a device."""
        return name if public.KERNELS.search(name) else self("kernel", name)

    def call(self, name: str) -> str:
        """A call into a vendor's runtime, or something that its driver does."""
        return name if public.CALLS.fullmatch(name) or name in public.DRIVER_WORK else self("call", name)

    def flow(self, name: str) -> str:
        """A flow between two events."""
        return name if name in public.CATEGORIES or name == "launch" else self("flow", name)

    # all else

    def place(self, name: str) -> str:
        """The name or label of a process or thread."""
        return name if public.PLACES.fullmatch(name) else self("name", name)

    def json(self, text: str) -> str:
        """A value as JSON text."""
        try:
            value = msgspec.json.decode(text)
            shown = self.value(value)
        except (msgspec.DecodeError, RecursionError):
            value, shown = None, {"text": self("text", text)}
        return text if shown == value else msgspec.json.encode(shown).decode()

    def value(self, value: Any) -> Any:
        """A value of JSON."""
        if isinstance(value, str):
            patterns = (_VALUE, public.DEVICES, public.GENERATED_KERNELS)
            is_public = value in public.WORDS or any(pattern.fullmatch(value) for pattern in patterns)
            return value if is_public else self("text", value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, dict):
            return {self._key(key): self.value(one) for key, one in value.items()}
        return value

    def _key(self, key: str) -> str:
        is_public = key in public.KEYS or key in public.KEYS_WITH_SPACES or key in public.WORDS or key.isdigit()
        return key if is_public else self("key", key)


def _names(events: pl.DataFrame, hidden: _Hidden) -> pl.Series:
    """The names, by what their category makes of them."""
    rules: dict[str, Rule] = {"cpu_op": hidden.operator, "cpu_instant_event": hidden.operator, "python_function": hidden.frame}
    rules |= dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset", "cuda_profiler_range"), hidden.kernel)
    rules |= {name: hidden.call for name in public.CATEGORIES if name.endswith(("_runtime", "_driver", "_sync", "overhead"))}
    rules |= dict.fromkeys(("ac2g", "fwdbwd", "async_cpu_to_gpu", "fwd_bwd"), hidden.flow)
    distinct = events.select("category", "name").unique()
    shown = [None if name is None else rules.get(category, hidden.annotation)(name) for category, name in distinct.iter_rows()]
    table = distinct.with_columns(shown=pl.Series(shown, dtype=pl.String))
    keys = ["category", "name"]
    joined = events.select(keys).join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined["shown"]


def _mapped(column: pl.Series, rule: Rule) -> pl.Series:
    distinct = column.drop_nulls().unique()
    if not distinct.len():
        return column
    shown = pl.Series([rule(text) for text in distinct], dtype=pl.String)
    mapped: pl.Series = column.replace_strict(distinct, shown, default=None, return_dtype=pl.String)
    return mapped


def _metadata(metadata: Metadata, hidden: _Hidden) -> Metadata:
    def optional(rule: Rule, text: str | None) -> str | None:
        return None if text is None else rule(text)

    def named(kind: str) -> Rule:
        return lambda text: hidden(kind, text)

    return msgspec.structs.replace(
        metadata,
        host_name=optional(named("host"), metadata.host_name),
        trace_name=optional(named("trace"), metadata.trace_name),
        trace_id=optional(named("id"), metadata.trace_id),
        # What stands behind the number may name who built it.
        versions={
            name: found.group()
            for name, text in metadata.versions.items()
            if name in ("kinetoscope", "torch", "python") and (found := _RELEASE.match(text))
        },
        device_properties=hidden.value(metadata.device_properties),
        distributed=hidden.value(metadata.distributed),
        options=hidden.value(metadata.options),
        processes=[
            msgspec.structs.replace(one, name=optional(hidden.place, one.name), labels=optional(hidden.place, one.labels))
            for one in metadata.processes
        ],
        threads=[msgspec.structs.replace(one, name=optional(hidden.place, one.name)) for one in metadata.threads],
        text_ids={number: hidden.place(text) for number, text in metadata.text_ids.items()},
        user=hidden.value(metadata.user),
        # The recording's log, under INFO, WARNING and ERROR, names the host and files.
        source=hidden.value({key: value for key, value in metadata.source.items() if not key.isupper()}),
    )


def _is_pythons(function: str) -> bool:
    return function in ("<module>", "<lambda>", "<listcomp>", "<genexpr>") or function in dir(object) or function == "__call__"

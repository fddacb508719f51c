"""FLOPs of recorded operators: which formula goes with a name, and how recorded inputs become its arguments.

The formulas are, in this order: those that a program registered here, ours
(:mod:`kinetoscope.record.flops.formulas`), and those that others registered with
``torch.utils.flop_counter.register_flop_formula`` for operators of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, overload

import msgspec

from kinetoscope.record import torch_private
from kinetoscope.record.flops.formulas import FORMULAS, UNKNOWN

log = logging.getLogger(__name__)

Counted = TypeVar("Counted", bound=Callable[..., int])

_registered: dict[str, Callable[..., Any]] = {}
_failed: set[str] = set()
_answers: dict[tuple[str, str, str], int | None] = {}
_ANSWERS_KEPT = 100_000


@overload
def register_flop_formula(name: Any, formula: Counted) -> Counted: ...
@overload
def register_flop_formula(name: Any) -> Callable[[Counted], Counted]: ...


def register_flop_formula(name: Any, formula: Counted | None = None) -> Any:
    """Say how many floating point operations a call of an operator takes; for ``with_flops=True``.

    The formula is called once for each distinct set of recorded inputs, with one positional argument for each input of
    the operator, in the order of its schema, keyword-only and defaulted ones included: the shape of a tensor as a list
    of integers (empty for a scalar tensor), a list of shapes for a list of tensors, numbers, truth values and lists of
    them as they are, and None for what is absent or was not recorded, such as text. It returns the number, or None if it
    cannot tell. What it raises is logged once, and the call counts as nothing known.

    Operators inside a call that has a number are not counted again. A later registration for a name replaces an earlier
    one, also of the operators that have a formula anyway.

    Args:
        name: the operator as recordings name it, such as ``"mylib::attend"``, or ``torch.ops.mylib.attend``.
        formula: the formula; without it, this is a decorator.

    Raises:
        TypeError: ``name`` is no operator, or ``formula`` cannot be called.

    >>> @kinetoscope.register_flop_formula("mylib::attend")  # doctest: +SKIP
    ... def attend_flops(query, key, *others):
    ...     batch, queries, width = query
    ...     return 4 * batch * queries * key[1] * width
    """
    if formula is None:
        return lambda decorated: register_flop_formula(name, decorated)
    if not callable(formula):
        raise TypeError(f"a FLOP formula must be callable, got {formula!r}")
    text = _operator_name(name)
    _registered[text] = formula
    _failed.discard(text)
    _answers.clear()
    return formula


def has_formula(name: str) -> bool:
    """Tell whether operators of this name may have a number of FLOPs."""
    return name in _registered or name in FORMULAS or name in _others()


def flops_of(names: Sequence[str], shapes: Sequence[str], concrete: Sequence[str]) -> list[int | None]:
    """Count the floating point operations of calls.

    Args:
        names: operators, as recorded.
        shapes: of each call, the text of a list with an item an input: a tensor's shape, a list of shapes for a list of
            tensors, and an empty list for everything else.
        concrete: of each call, a JSON list with a text an input: a scalar's or list's value, or nothing.

    Returns:
        The number of each call; None where there is no formula, or the inputs do not fit it.
    """
    if len(_answers) > _ANSWERS_KEPT:
        _answers.clear()
    answers = []
    for key in zip(names, shapes, concrete, strict=True):
        if key not in _answers:
            _answers[key] = _count(*key)
        answers.append(_answers[key])
    return answers


def _count(name: str, shapes: str, concrete: str) -> int | None:
    own = _registered.get(name)
    if own is None and name not in FORMULAS and name not in _others():
        return None
    try:
        sizes, values = _parsed(shapes, concrete)
    except (*UNKNOWN, msgspec.DecodeError, RecursionError):
        return None
    if own is not None:
        return _count_registered(name, own, sizes, values)
    try:
        formula = FORMULAS.get(name)
        if formula is not None:
            return _number(formula(_bound(name, sizes, values)))
        return _count_torchs(name, _others()[name], sizes, values)
    except UNKNOWN:
        return None


def _count_registered(name: str, formula: Callable[..., Any], sizes: list[Any], values: list[Any]) -> int | None:
    """By a program's own formula, which may raise anything."""
    try:
        schema = _schema(name, sizes, values)
        optional = [argument[1] for argument in schema] if schema else [False] * len(sizes)
        return _number(formula(*_inputs(sizes, values, optional)))
    except Exception as error:
        if name not in _failed:
            _failed.add(name)
            log.warning("The FLOP formula of %s failed for the inputs %s: %r", name, sizes, error)
        return None


def _number(count: Any) -> int | None:
    number = None if count is None else int(count)
    # The columns are 64 bits wide.
    return number if number is not None and 0 <= number < 2**63 else None


# recorded inputs as arguments


def _parsed(shapes: str, concrete: str) -> tuple[list[list[Any]], list[Any]]:
    """Shapes and values of the inputs, one each; None for a value that was not recorded."""
    sizes = msgspec.json.decode(shapes, type=list[list[int | list[int]]])
    texts = msgspec.json.decode(concrete, type=list[str]) if concrete else []
    if len(texts) not in (0, len(sizes)):
        raise ValueError("shapes and values are of different calls")
    return list(sizes), [_value(text) for text in texts] or [None] * len(sizes)


@lru_cache(maxsize=4096)
def _value(text: str) -> Any:
    """A recorded scalar or list; text that is neither stays text."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text.lower())
    except msgspec.DecodeError:
        return text


def _inputs(sizes: list[Any], values: list[Any], optional: Sequence[bool]) -> list[Any]:
    """One argument an input: its value where it has one, else its shape; None where an optional input has neither."""
    return [
        value if value is not None else None if may_miss and size == [] else size
        for size, value, may_miss in zip(sizes, values, optional, strict=True)
    ]


_Argument = tuple[str, bool, bool, bool]
"""Name, whether nothing recorded means None, whether it is a tensor or a list of them, whether it is keyword-only."""


def _schema(name: str, sizes: list[Any], values: list[Any]) -> tuple[_Argument, ...] | None:
    """Arguments of the first overload that the inputs can belong to."""
    for arguments in _schemas(name):
        if len(arguments) == len(sizes) and all(
            value is None if is_tensor else size == []
            for (_, _, is_tensor, _), size, value in zip(arguments, sizes, values, strict=True)
        ):
            return arguments
    return None


def _schemas(name: str) -> tuple[tuple[_Argument, ...], ...]:
    found = _known_schemas(name)
    if not found:
        _known_schemas.cache_clear()  # it may be defined later
    return found


@lru_cache(maxsize=1024)
def _known_schemas(name: str) -> tuple[tuple[_Argument, ...], ...]:
    schemas = []
    for schema in torch_private.operator_schemas(name):
        arguments = []
        for argument in schema.arguments:
            kind = str(argument.type)
            is_tensor = "Tensor" in kind
            optional = not is_tensor or kind.startswith("Optional") or kind.endswith("?")
            arguments.append((argument.name, optional, is_tensor, bool(argument.kwarg_only)))
        schemas.append(tuple(arguments))
    return tuple(schemas)


def _bound(name: str, sizes: list[Any], values: list[Any]) -> dict[str, Any]:
    schema = _schema(name, sizes, values)
    if schema is None:
        raise ValueError(f"no overload of {name} has these inputs")
    inputs = _inputs(sizes, values, [argument[1] for argument in schema])
    return {argument[0]: value for argument, value in zip(schema, inputs, strict=True)}


# formulas registered with torch


def _operator_name(operator: Any) -> str:
    if isinstance(operator, str):
        return operator
    name = getattr(operator, "_qualified_op_name", None)
    if not isinstance(name, str):
        name = getattr(getattr(operator, "_schema", None), "name", None)  # one overload
    if not isinstance(name, str):
        raise TypeError(f"a FLOP formula belongs to an operator or its name, got {operator!r}")
    return name


def _others() -> dict[str, tuple[Callable[..., Any], bool]]:
    """Formulas of torch's registry by name, and whether each takes tensors instead of their shapes."""
    return _named(len(torch_private.flop_registry()))


@lru_cache(maxsize=1)
def _named(_size: int) -> dict[str, tuple[Callable[..., Any], bool]]:
    found = {}
    for operator, formula in torch_private.flop_registry().items():
        name = getattr(operator, "_qualified_op_name", None)
        if isinstance(name, str):
            found[name] = formula, not torch_private.takes_shapes(formula)
    return found


class _TensorOfShape:
    """What a formula that asks tensors for their shapes gets; it has no elements, like a tensor on the meta device."""

    class device:  # noqa: N801 - torch's name
        type = "meta"

    def __init__(self, shape: list[int]) -> None:
        self.shape = tuple(shape)
        self.ndim = len(shape)

    def size(self, dimension: int | None = None) -> Any:
        return self.shape if dimension is None else self.shape[dimension]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count


def _count_torchs(name: str, found: tuple[Callable[..., Any], bool], sizes: list[Any], values: list[Any]) -> int | None:
    formula, takes_tensors = found
    schema = _schema(name, sizes, values)
    if schema is None:
        return None
    inputs = _inputs(sizes, values, [argument[1] for argument in schema])
    if takes_tensors:
        inputs = [
            _as_tensors(value) if argument[2] and value is not None else value
            for argument, value in zip(schema, inputs, strict=True)
        ]
    positional = [value for argument, value in zip(schema, inputs, strict=True) if not argument[3]]
    keywords = {argument[0]: value for argument, value in zip(schema, inputs, strict=True) if argument[3]}
    try:
        return _number(formula(*positional, **keywords, out_val=None))
    except Exception:  # of others' making; torch's own counter would have raised at the call
        return None


def _as_tensors(value: list[Any]) -> Any:
    if value and isinstance(value[0], list):
        return [_TensorOfShape(shape) for shape in value]
    return _TensorOfShape(value)

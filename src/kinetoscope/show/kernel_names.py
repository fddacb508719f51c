"""Names of kernels as people say them: ``elementwise_kernel<MulFunctor<float>>`` instead of six hundred characters of C++."""

from __future__ import annotations

import re
from functools import lru_cache

# Longer names are cut first: their meaning is said by then, and no name may take long.
_LONGEST = 20_000
_DEEPEST = 40

# Templates that only carry what is meant: they are shown as the part of theirs that says it.
_CARRIERS = re.compile(
    r"gpu_kernel_impl(?:_nocast)?|gpu_kernel_with_scalars|gpu_index_kernel|opmath_(?:symmetric_)?gpu_kernel_with_scalars|"
    r"[AB]?[UB](?:i|u)?naryFunctor|func_wrapper_t|ReduceOp|KernelParams|Params|Arguments"
)
# Parts of a kernel's type that say how memory is walked through, not what is computed.
_MACHINERY = re.compile(
    r"Array|array|TensorListMetadata|TensorListScalarListMetadata|ArrayRef|(?:Trivial)?OffsetCalculator|(?:Load|Store)With(?:out)?Cast|"
    r"TensorInfo|PhiloxCudaState|CUDAGeneratorImpl|default_config|integral_constant|ROCPRIM_\w+"
)
_NUMBER = re.compile(r"(?:\([\w:]+\))?-?\d+(?:ul|u|l|ull|ll)?|true|false")
_PRIMITIVE = re.compile(
    r"(?:unsigned |signed |const )*(?:bool|char|short|int|long|long long|float|double|half|size_t|void)|__half2?|_Float16|"
    r"__nv_bfloat16|__hip_bfloat16|bfloat16_t|BFloat16|Half|Float8_\w+|complex|(?:u?int|float)\d*(?:_t)?"
)
_WITHOUT_NAME = re.compile(r"\(anonymous namespace\)|\{.*|operator\(\).*|unnamed.*", re.DOTALL)
_MANGLED = re.compile(r"_ZN?K?(?=\d)")
_PAIRS = {">": "<", ")": "(", "]": "[", "}": "{"}


@lru_cache(maxsize=4096)
def short_kernel_name(name: str) -> str:
    """The name of a kernel by its meaning.

    Left out are return types, parameters, namespaces, numbers and types among the template arguments, and the templates that
    only carry a functor; what is kept is the kernel and what it computes, else the first type that it is made for. A name
    that is no C++ stays as it is.

    >>> short_kernel_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    ...                   "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)")
    'vectorized_elementwise_kernel<CUDAFunctor_add<float>>'
    >>> short_kernel_name("Memcpy HtoD (Pageable -> Device)")
    'Memcpy HtoD (Pageable -> Device)'
    """
    text = name[:_LONGEST]
    if _MANGLED.match(text):
        return _unmangled(text) or name
    if "::" not in text and not re.match(r"(?:void )?\w+[<(]", text):
        return name
    return _shortened(_without_result(text), 0) or name


def _unmangled(text: str) -> str:
    """The innermost name of an Itanium-mangled one, whose parts stand each behind its length."""
    place = text.index("Z") + 1
    found = ""
    while match := re.compile(r"[NK]*(\d{1,4})").match(text, place):
        begin = match.end()
        place = begin + int(match.group(1))
        found = text[begin:place]
    return found


def _depths(text: str) -> list[int]:
    """For each character the number of brackets around it. Within round ones ``<`` and ``>`` compare."""
    open_brackets: list[str] = []
    depths = []
    for character in text:
        if character in "([{" or (character == "<" and "(" not in open_brackets[-1:]):
            depths.append(len(open_brackets))
            open_brackets.append(character)
            continue
        if open_brackets and _PAIRS.get(character) == open_brackets[-1]:
            open_brackets.pop()
        depths.append(len(open_brackets))
    return depths


def _parts(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand outside of all brackets."""
    parts, begin = [], 0
    depths = _depths(text)
    place = text.find(separator)
    while place >= 0:
        if depths[place] == 0 and place >= begin:
            parts.append(text[begin:place])
            begin = place + len(separator)
        place = text.find(separator, place + 1)
    return [*parts, text[begin:]]


def _without_result(text: str) -> str:
    """A function without the type that it returns, which stands before it."""
    words = _parts(text, " ")
    for place, word in enumerate(words):
        if ("(" in word and not word.startswith("(anonymous")) or place == len(words) - 1:
            return " ".join(words[place:])
        if place + 1 < len(words) and words[place + 1] in ("const", "const&"):
            return word
    return text


def _shortened(text: str, depth: int) -> str:
    text = text.strip()
    if depth > _DEEPEST:
        return text
    named = [part for part in (one.strip() for one in _parts(text, "::")) if part and not _WITHOUT_NAME.match(part)]
    if not named:
        return ""
    last = named[-1]
    opening = min((place for place in (last.find("<"), last.find("(")) if place > 0), default=len(last))
    base = last[:opening].removesuffix(" const").strip("&* ")
    if opening == len(last) or last[opening] != "<":
        return base
    inner = _inside(last[opening:])
    arguments = [argument.strip() for argument in _parts(inner, ",")]
    meant = _meant(arguments, depth)
    if meant and _CARRIERS.fullmatch(base):
        return meant
    return f"{base}<{meant}>" if meant else base


def _inside(text: str) -> str:
    """What stands between the bracket that a text begins with and the one that closes it."""
    depths = _depths(text)
    end = next((place for place, depth in enumerate(depths) if place and depth == 0), len(text))
    return text[1:end]


def _meant(arguments: list[str], depth: int) -> str:
    """The template argument that says what is computed, else the first type."""
    types = ""
    for argument in arguments:
        if not argument or _NUMBER.fullmatch(argument):
            continue
        short = _shortened(argument, depth + 1)
        base = short.partition("<")[0]
        if not base or _MACHINERY.fullmatch(base):
            continue
        if not _PRIMITIVE.fullmatch(base):
            return short
        types = types or base
    return types

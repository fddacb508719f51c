"""Floating point operations of operators from the shapes of their inputs, in the conventions of torch's flop counter.

A multiplication with an addition counts as two, a bias as nothing, a masked half of attention like the rest. The values
are those that ``torch.utils.flop_counter`` gives, in the newest torch, with these differences:

- operators that exist within one backend only (cuDNN's, oneDNN's, attention on the CPU) count like the operator that
  they implement, which torch's counter meets instead of them or passes over;
- of packed sequences only the number, the total and the longest are known, not every length: every query is taken to
  meet as many keys as the longest sequence has, which is exact where all are equally long.

Everything here takes an operator's arguments by the names of its schema, tensors as their shapes, and raises one of
:data:`UNKNOWN` where they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

Arguments = Mapping[str, Any]
"""Arguments of a call by their names in the schema: a shape, a list of shapes, a value, or None where there is none."""

Formula = Callable[[Arguments], int]

UNKNOWN = (TypeError, ValueError, KeyError, IndexError, ArithmeticError)
"""What formulas raise where the recorded arguments do not determine a number."""


def _first(arguments: Arguments, *names: str) -> Any:
    """The argument that goes by one of these names."""
    for name in names:
        if name in arguments:
            return arguments[name]
    raise KeyError(names[0])


# products of matrices


def _product(left: Sequence[int], right: Sequence[int], rank: int) -> int:
    (*batch, rows, inner), (*other_batch, other_inner, columns) = left, right
    if len(left) != rank or len(right) != rank or inner != other_inner or batch != other_batch:
        raise ValueError(f"no matrix product of {left} and {right}")
    return 2 * prod(batch) * rows * inner * columns


def _matrix_product(arguments: Arguments) -> int:
    left = "mat1" if "mat1" in arguments else "self"
    return _product(arguments[left], arguments["mat2"], 2)


def _batched_product(arguments: Arguments) -> int:
    if "batch1" in arguments:
        return _product(arguments["batch1"], arguments["batch2"], 3)
    return _product(arguments["self"], arguments["mat2"], 3)


def _linear(arguments: Arguments) -> int:
    *rows, inner = _first(arguments, "self", "X")
    columns, weight_inner = _first(arguments, "ORI_W", "weight", "W")
    if inner != weight_inner:
        raise ValueError("the weight does not fit the input")
    return 2 * int(prod(rows)) * int(inner) * int(columns)


# convolutions


def _per_dimension(value: Any, rank: int) -> list[int]:
    values = [value] * rank if isinstance(value, int) else list(value)
    return values * rank if len(values) == 1 else values


def _output_size(arguments: Arguments, size: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """Size of a convolution's output in each dimension of space."""
    rank = len(size)
    stride = _per_dimension(arguments.get("stride", 1), rank)
    dilation = _per_dimension(arguments.get("dilation", 1), rank)
    reach = [step * (taps - 1) for step, taps in zip(dilation, kernel, strict=True)]
    padding = arguments.get("padding", 0)
    if isinstance(padding, str):
        both_sides = {"same": reach, "valid": [0] * rank}[padding]
    else:
        both_sides = [2 * one_side for one_side in _per_dimension(padding, rank)]
    return [
        (length + pad - far - 1) // step + 1 for length, pad, far, step in zip(size, both_sides, reach, stride, strict=True)
    ]


def _convolution(arguments: Arguments) -> int:
    return _either_convolution(arguments, bool(arguments.get("transposed", False)))


def _transposed_convolution(arguments: Arguments) -> int:
    return _either_convolution(arguments, True)


def _either_convolution(arguments: Arguments, transposed: bool) -> int:
    shape, weight = list(_first(arguments, "input", "self", "X")), _first(arguments, "weight", "W")
    if len(shape) == len(weight) - 1:
        shape = [1, *shape]  # no batch
    if len(shape) != len(weight) or len(shape) < 3:
        raise ValueError(f"no convolution of {shape} with {weight}")
    # The kernel is laid on every position of the output; transposed, on every position of the input.
    places = shape[2:] if transposed else _output_size(arguments, shape[2:], weight[2:])
    return int(2 * shape[0] * prod(places) * prod(weight))


def _convolution_backward(arguments: Arguments) -> int:
    gradient, shape, weight = arguments["grad_output"], _first(arguments, "input", "self"), arguments["weight"]
    if not len(gradient) == len(shape) == len(weight) >= 3:
        raise ValueError("gradient, input and weight differ in rank")
    transposed = bool(arguments.get("transposed", False))
    of_input, of_weight, *_ = arguments["output_mask"]
    count = 0
    if of_input:
        places = shape[2:] if transposed else gradient[2:]
        count += 2 * gradient[0] * prod(places) * prod(weight)
    if of_weight:
        # torch takes no account of groups here, nor do we.
        moved, channels = (shape, gradient[1]) if transposed else (gradient, shape[1])
        count += 2 * prod(weight[2:]) * prod(moved) * channels
    return count


# attention

Scores = Callable[[Arguments], tuple[int, int, int]]
"""Gives the pairs of query and key over all heads, the width of a query and the width of a value."""


def _pairs(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> tuple[int, int, int]:
    """Scores of shapes (batch, heads, length, width)."""
    batch, heads, queries, width = query
    key_batch, key_heads, keys, key_width = key
    value_batch, value_heads, values, value_width = value
    if not batch == key_batch == value_batch or width != key_width or keys != values or key_heads != value_heads:
        raise ValueError("query, key and value do not fit together")
    if heads % key_heads:
        raise ValueError("the heads of the query are no multiple of the key's")
    return batch * heads * queries * keys, width, value_width


def _heads_first(arguments: Arguments) -> tuple[int, int, int]:
    return _pairs(arguments["query"], arguments["key"], arguments["value"])


def _length_first(arguments: Arguments) -> tuple[int, int, int]:
    def swapped(shape: Sequence[int]) -> list[int]:
        batch, length, heads, width = shape
        return [batch, heads, length, width]

    return _pairs(swapped(arguments["query"]), swapped(arguments["key"]), swapped(arguments["value"]))


def _or_packed(dense: Scores) -> Scores:
    """For operators that also take sequences which lie one after the other, of shape (…, total length, heads, width)."""

    def scores(arguments: Arguments) -> tuple[int, int, int]:
        offsets = _first(arguments, "cum_seq_q", "cu_seqlens_q", "cu_seq_q")
        if not offsets or offsets[0] < 2:
            return dense(arguments)
        longest_query, longest_key = (_first(arguments, f"max_{side}", f"max_seqlen_{side}") for side in "qk")
        (total, heads, width), (_, key_heads, key_width) = arguments["query"][-3:], arguments["key"][-3:]
        if width != key_width or heads % key_heads:
            raise ValueError("query and key do not fit together")
        queries = min(total, (offsets[0] - 1) * longest_query) if longest_query else total
        return heads * queries * longest_key, width, arguments["value"][-1]

    return scores


def _attention(scores: Scores) -> Formula:
    def count(arguments: Arguments) -> int:
        pairs, width, value_width = scores(arguments)
        return 2 * pairs * (width + value_width)

    return count


def _attention_backward(scores: Scores) -> Formula:
    def count(arguments: Arguments) -> int:
        # The scores once more; then the gradients of scores, values, queries and keys.
        pairs, width, value_width = scores(arguments)
        return 2 * pairs * (3 * width + 2 * value_width)

    return count


_FAMILIES: list[tuple[Formula, str]] = [
    (_matrix_product, "aten::mm aten::addmm aten::_scaled_mm aten::_scaled_mm_v2 aten::_addmm_activation"),
    (_batched_product, "aten::bmm aten::baddbmm"),
    (_linear, "aten::mkldnn_linear mkldnn::_linear_pointwise mkl::_mkl_linear"),
    (
        _convolution,
        (
            "aten::conv1d aten::conv2d aten::conv3d aten::_convolution_mode aten::convolution aten::_convolution "
            "aten::convolution_overrideable aten::cudnn_convolution aten::cudnn_convolution_relu "
            "aten::cudnn_convolution_add_relu aten::miopen_convolution aten::miopen_depthwise_convolution "
            "aten::miopen_convolution_relu aten::miopen_convolution_add_relu aten::mkldnn_convolution "
            "mkldnn::_convolution_pointwise mkldnn::_convolution_pointwise_ aten::_mps_convolution aten::thnn_conv2d "
            "aten::_slow_conv2d_forward aten::slow_conv3d aten::slow_conv3d_forward aten::slow_conv_dilated2d "
            "aten::slow_conv_dilated3d aten::_conv_depthwise2d aten::conv_depthwise3d"
        ),
    ),
    (
        _transposed_convolution,
        (
            "aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d aten::slow_conv_transpose2d "
            "aten::slow_conv_transpose3d aten::cudnn_convolution_transpose aten::miopen_convolution_transpose "
            "aten::_mps_convolution_transpose mkldnn::_convolution_transpose_pointwise"
        ),
    ),
    (_convolution_backward, "aten::convolution_backward aten::convolution_backward_overrideable"),
    (
        _attention(_heads_first),
        (
            "aten::_scaled_dot_product_flash_attention aten::_scaled_dot_product_efficient_attention "
            "aten::_scaled_dot_product_cudnn_attention aten::_scaled_dot_product_flash_attention_for_cpu "
            "aten::_scaled_dot_product_fused_attention_overrideable"
        ),
    ),
    (
        _attention_backward(_heads_first),
        (
            "aten::_scaled_dot_product_flash_attention_backward aten::_scaled_dot_product_efficient_attention_backward "
            "aten::_scaled_dot_product_cudnn_attention_backward "
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward "
            "aten::_scaled_dot_product_fused_attention_overrideable_backward"
        ),
    ),
    (
        _attention(_or_packed(_length_first)),
        (
            "aten::_flash_attention_forward aten::_efficient_attention_forward torch_attn::_varlen_attn "
            "torch_attn::_varlen_attn_out"
        ),
    ),
    (
        _attention_backward(_or_packed(_length_first)),
        "aten::_flash_attention_backward aten::_efficient_attention_backward torch_attn::_varlen_attn_backward",
    ),
    (_attention(_or_packed(_heads_first)), "aten::_cudnn_attention_forward"),
    (_attention_backward(_or_packed(_heads_first)), "aten::_cudnn_attention_backward"),
]

FORMULAS: dict[str, Formula] = {name: formula for formula, names in _FAMILIES for name in names.split()}
"""Formulas by the names of the operators, as a recording has them."""

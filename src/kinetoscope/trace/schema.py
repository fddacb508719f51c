"""The columns of a trace: their names, types and meaning.

This module is the contract in code; ``docs/schema.md`` is written from it (``kinetoscope.trace.schema.describe()``
gives the same text). A reader fills the columns it knows, a writer takes what it needs, an analysis names the columns
that it reads. Everything that a source says and that has no column stays in ``args`` as JSON text, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SCHEMA_VERSION = 2
"""Version written into every file. Readers accept this version and older ones, never newer ones."""


@dataclass(frozen=True)
class Column:
    """One column of the events table: its name, Polars type, group and meaning."""

    name: str
    dtype: type[pl.DataType]
    group: str
    meaning: str


COLUMNS: tuple[Column, ...] = (
    # what and when
    Column("id", pl.Int64, "what and when", "Row number, in the order in which the source gave the events."),
    Column("phase", pl.String, "what and when", "Event phase: X slice, i instant, C counter, s/t/f flow, b/n/e async."),
    Column("name", pl.String, "what and when", "Operator, kernel, Python function, annotation or counter name."),
    Column("category", pl.String, "what and when", "Kineto's category: cpu_op, user_annotation, python_function, kernel, ..."),
    Column("start_ns", pl.Int64, "what and when", "Start, nanoseconds after `base_time_ns` of the metadata."),
    Column("duration_ns", pl.Int64, "what and when", "Length in nanoseconds; null for whatever is not a slice."),
    # where
    Column("process", pl.Int64, "where", "Process id; a device's number on device rows. Text ids: see `text_ids`."),
    Column("thread", pl.Int64, "where", "Thread id of the system; a stream's number on device rows."),
    Column("record_thread", pl.Int64, "where", "torch's own number of the thread, which `forward_thread` refers to."),
    Column("device_type", pl.String, "where", "cpu, cuda, xpu, mtia, hpu, privateuseone, ... of the row, or of the memory."),
    Column("device", pl.Int32, "where", "Index of the device; null on host rows."),
    Column("stream", pl.Int64, "where", "Stream or queue of the device; null on host rows."),
    Column("rank", pl.Int32, "where", "Rank of the process in a distributed run; null if unknown."),
    # nesting
    Column("parent", pl.Int64, "nesting", "`id` of the innermost slice that encloses this row on its thread or stream."),
    Column("depth", pl.Int32, "nesting", "Number of enclosing slices; 0 at the top."),
    # links
    Column("correlation", pl.Int64, "links", "Joins a runtime call with the device activity that it launched."),
    Column("external_id", pl.Int64, "links", "On operators their own number; elsewhere the operator that caused the row."),
    Column("flow_id", pl.Int64, "links", "Joins the two ends of a flow (phases s, t, f) or an async span (b, n, e)."),
    Column("sequence_number", pl.Int64, "links", "Joins a forward operator with its backward node."),
    Column("forward_thread", pl.Int64, "links", "`record_thread` of the forward operator, on backward rows."),
    Column("record_function_id", pl.Int64, "links", "Node id in the execution trace of the same run."),
    Column("python_id", pl.Int64, "links", "Number of a Python call."),
    Column("python_parent_id", pl.Int64, "links", "`python_id` of the calling Python function."),
    Column("python_module_id", pl.Int64, "links", "Number of the nn.Module instance of a Python call."),
    # operator
    Column("overload_name", pl.String, "operator", "Overload of the operator, such as Tensor of aten::add.Tensor."),
    Column("scope", pl.Int8, "operator", "at::RecordScope: 0 function, 1 backward function, 7 user annotation, ..."),
    Column("is_async", pl.Boolean, "operator", "True if the event ended on another thread or was recorded as asynchronous."),
    Column("input_shapes", pl.String, "operator", "JSON: sizes of the inputs, [] for what is no tensor."),
    Column("input_types", pl.String, "operator", "JSON: element types of the inputs."),
    Column("input_strides", pl.String, "operator", "JSON: strides of the inputs."),
    Column("concrete_inputs", pl.String, "operator", "JSON: values of scalar inputs as text."),
    Column("flops", pl.Int64, "operator", "Floating point operations by formula; null where no formula applies."),
    Column("module", pl.String, "operator", "Path of the nn.Module that ran the operator, joined by dots; null if unknown."),
    Column("stack", pl.String, "operator", "Frames, innermost first, one a line; null where the Python rows give them."),
    # memory
    Column("address", pl.Int64, "memory", "Address of the block, on [memory] rows."),
    Column("bytes", pl.Int64, "memory", "Allocated bytes, negative when freed; bytes moved on copy rows."),
    Column("total_allocated", pl.Int64, "memory", "Bytes that the allocator had handed out after the event."),
    Column("total_reserved", pl.Int64, "memory", "Bytes that the allocator had reserved after the event."),
    # the rest
    Column("args", pl.String, "the rest", "JSON object of the arguments that have no column; null if there are none."),
)

SCHEMA: dict[str, type[pl.DataType]] = {column.name: column.dtype for column in COLUMNS}
"""Column name -> Polars type, in the order of the table."""


def empty() -> pl.DataFrame:
    """Return an events table with every column and no row."""
    return pl.DataFrame(schema=SCHEMA)


def conform(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with exactly the schema's columns, in its order and types.

    Missing columns become null, but for ``id``, which then counts the rows; unknown columns are dropped, other integer or
    text types are cast.

    Raises:
        polars.exceptions.InvalidOperationError: a value does not fit its column's type.
    """
    height = frame.height
    if "id" not in frame.columns:
        frame = frame.with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    columns = [
        frame.get_column(name).cast(dtype)
        if name in frame.columns
        else pl.repeat(None, height, dtype=dtype, eager=True).alias(name)
        for name, dtype in SCHEMA.items()
    ]
    return pl.DataFrame(columns)


def describe() -> str:
    """Return the schema as a Markdown table, one row a column."""
    lines = ["| column | type | group | meaning |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {c.dtype.__name__} | {c.group} | {c.meaning} |" for c in COLUMNS]
    return "\n".join(lines) + "\n"

"""Any frame as a table of text, for terminals and pipes."""

from __future__ import annotations

import polars as pl

from kinetoscope.show.controls import ESCAPES

_WIDEST = (1 << 16) - 1
_LONGEST = 1 << 20


def frame_table(frame: pl.DataFrame, limit: int | None = None, width: int | None = None) -> str:
    """The rows of a frame, a line each, below the names of the columns.

    Args:
        frame: any frame.
        limit: rows at most; how many were left out is said below. None or 0 for all.
        width: columns of the terminal; cells are wrapped to fit. None for as wide as it gets.
    """
    shown = frame.head(limit) if limit else frame
    if not shown.width:
        return "no columns\n"
    shown = shown.with_columns(pl.selectors.decimal().cast(pl.Float64))
    texts = [name for name, dtype in shown.schema.items() if dtype == pl.String]
    shown = shown.with_columns(pl.col(texts).str.replace_many(list(ESCAPES), list(ESCAPES.values())))
    with pl.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=width or _WIDEST,
        fmt_str_lengths=_LONGEST,
        fmt_table_cell_list_len=-1,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_formatting="ASCII_MARKDOWN",
        tbl_cell_numeric_alignment="RIGHT",
        float_precision=3,
    ):
        text = str(shown) + "\n"
    left = frame.height - shown.height
    return text + (f"... {left:,} more rows\n" if left else "")

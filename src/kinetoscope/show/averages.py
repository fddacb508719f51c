"""Averages of a trace with torch's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinetoscope.analyze import averages
from kinetoscope.show.text_table import build_table, columns_of

if TYPE_CHECKING:
    from kinetoscope.trace.trace import Trace


class AveragesTable(averages.Averages):
    """Averages in order of first appearance, with a table and a frame."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **layout: Any) -> str:
        """Lay the averages out as torch.profiler does.

        ``layout`` takes the widths, header and unit of :func:`kinetoscope.show.text_table.build_table`.

        Raises:
            UnknownSortKey: ``sort_by`` names no column; the message lists the columns.
        """
        return build_table(
            columns_of(list(self)),
            use_device=self.use_device,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
            sort_by=sort_by,
            row_limit=row_limit,
            **layout,
        )


def key_averages(trace: Trace, **grouping: Any) -> AveragesTable:
    """:func:`kinetoscope.analyze.averages.key_averages`, with a table."""
    found = averages.key_averages(trace, **grouping)
    return AveragesTable(list(found), found.use_device, found.profile_memory, found.with_flops)

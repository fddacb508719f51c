"""Draw the picture of the README: what ``kinetoscope demo`` shows on a terminal, as SVG. Run it by hand."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console

from kinetoscope.launch.demo import train
from kinetoscope.show.operator_columns import OperatorTable
from kinetoscope.show.operator_table import coloured

PICTURE = Path(__file__).parent / "images" / "operators.svg"
WIDTH = 120
ROWS = 12

# As rich makes it, the picture fetches a font from the net; one that shows itself anywhere takes what is there.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def main() -> None:
    """Train, and draw the table of the operators."""
    prof, _ = train(20)
    rows = prof.key_averages().to_polars().sort("self_cpu_time_total", descending=True)
    operators = OperatorTable(
        rows=rows.head(ROWS),
        matching=ROWS,
        self_cpu_total=float(rows["self_cpu_time_total"].sum()),
        self_device_total=0.0,
        sorted_by="self_cpu_time_total",
        memory=True,
    )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(coloured(operators, console))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(console.export_svg(title="kinetoscope demo", code_format=FORMAT), encoding="utf-8")


if __name__ == "__main__":
    main()

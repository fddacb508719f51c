"""Every argument of every event of the real traces is in a column or in ``args``."""

from __future__ import annotations

import gzip
import json

import pytest

from kinetoscope.trace.chrome_reader import read_chrome
from tests.trace import naive
from tests.trace.shared import NAMES, TRACES

LISTS = ("input_shapes", "input_types", "input_strides", "concrete_inputs")
SMALL = [name for name in NAMES if (TRACES / name).stat().st_size < 900_000]


@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_lost(name: str) -> None:
    expected = naive.rows(gzip.decompress((TRACES / name).read_bytes()).decode())
    got = read_chrome(TRACES / name).events.to_dicts()
    assert len(got) == len(expected)
    for number, (row, wanted) in enumerate(zip(got, expected, strict=True)):
        for column in LISTS:
            if row[column] is not None:
                row[column] = json.loads(row[column])
        row["args"] = naive.arguments(row["args"])
        if wanted["category"] == "cpu_instant_event" and wanted.get("device") == -1:
            del wanted["device"]
        assert {column: row[column] for column in wanted} == wanted, number

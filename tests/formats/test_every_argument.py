"""Every argument of every event of the real traces is in a column or in ``args``."""

from __future__ import annotations

import gzip
import json

import pytest

from kinetoscope.formats.chrome.reader import parse_chrome, read_chrome
from tests.shared_traces import NAMES, TRACES
from tests.trace import naive

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


def test_lists_laid_out_for_people_stand_on_one_line() -> None:
    lists = {"Input Dims": [[2, 3], [], [4]], "Input type": ["long int", "float"], "Concrete Inputs": ["a\nb", ", "]}
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "pid": 1, "tid": 1, "args": lists}
    plain, laid_out = (parse_chrome(json.dumps([event], indent=indent).encode(), "test").events for indent in (None, 2))
    columns = ["input_shapes", "input_types", "concrete_inputs"]
    assert laid_out.select(columns).rows() == plain.select(columns).rows()
    assert plain["input_shapes"].to_list() == ["[[2, 3], [], [4]]"]

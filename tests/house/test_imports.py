"""What importing costs: torch and the layers above are loaded when they are used, not before."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LAYERS = ("common", "trace", "analyze", "formats", "show", "record", "launch", "cli")


def loaded_by(program: str) -> set[str]:
    """Modules that a new interpreter has loaded after the program."""
    code = f"{program}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout.splitlines()[-1]))


def layers_in(modules: set[str]) -> set[str]:
    return {layer for layer in LAYERS if f"kinetoscope.{layer}" in modules}


def test_importing_kinetoscope_loads_next_to_nothing() -> None:
    modules = loaded_by("import kinetoscope; kinetoscope.__version__; dir(kinetoscope)")
    assert layers_in(modules) == set()
    assert modules.isdisjoint({"torch", "numpy", "polars", "pandas", "pyarrow", "rich", "typer", "msgspec"})


@pytest.mark.parametrize(
    ("module", "allowed"),
    [
        ("kinetoscope.trace.trace", {"common", "trace"}),
        ("kinetoscope.analyze.averages", {"common", "trace", "analyze"}),
        ("kinetoscope.formats.registry", {"common", "formats"}),
        ("kinetoscope.formats.check", {"common", "trace", "formats"}),
        ("kinetoscope.show.averages", {"common", "trace", "analyze", "show"}),
        ("kinetoscope.show.operator_table", {"common", "trace", "analyze", "show"}),
    ],
)
def test_a_layer_loads_nothing_of_those_above(module: str, allowed: set[str]) -> None:
    modules = loaded_by(f"import {module}")
    assert module in modules
    assert layers_in(modules) <= allowed
    assert "torch" not in modules


def test_reading_and_summing_up_need_no_torch(tmp_path: object) -> None:
    path = f"{tmp_path}/x.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 7, "args": {}}
    with open(path, "w") as file:
        json.dump({"traceEvents": [event]}, file)
    modules = loaded_by(
        "import sys; sys.modules['torch'] = None  # importing it would raise\n"
        f"import kinetoscope; trace = kinetoscope.read({path!r})\n"
        "assert 'aten::mm' in trace.key_averages().table()\n"
        f"from kinetoscope.cli.main import main; assert main(['summary', {path!r}]) == 0"
    )
    assert "kinetoscope.cli" in modules
    assert "torch._C" not in modules


def test_the_command_shows_its_help_without_torch_and_polars() -> None:
    modules = loaded_by("from kinetoscope.cli.main import main; assert main(['--help']) == 0")
    assert modules.isdisjoint({"torch", "polars", "numpy"})


def test_every_public_name_can_be_had() -> None:
    pytest.importorskip("torch")
    import kinetoscope

    for name in kinetoscope.__all__:
        assert getattr(kinetoscope, name) is not None
        assert name in dir(kinetoscope)
    with pytest.raises(AttributeError, match="no attribute 'profiel'"):
        kinetoscope.profiel  # noqa: B018

"""The action comes with the import of torch, and neither earlier nor not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from kinetoscope.launch.torch_import import when_torch_is_imported
when_torch_is_imported(lambda: print("imported", sys.modules["torch"].ready))
{body}
assert not any("_TorchFinder" in type(finder).__name__ for finder in sys.meta_path), "it stays"
"""

BODIES = {
    "a plain import": "import torch",
    "a probe before it": "import importlib.util\nassert importlib.util.find_spec('torch') is not None\nimport torch",
    "many probes": "import importlib.util\nfor _ in range(5): importlib.util.find_spec('torch')\nimport torch\nimport torch",
    "a probe of a part": "import importlib.util\nassert importlib.util.find_spec('torch.part') is not None\nimport torch",
    "a spec that is used by hand": (
        "import importlib.util\nspec = importlib.util.find_spec('torch')\nmodule = importlib.util.module_from_spec(spec)\n"
        "sys.modules['torch'] = module\nspec.loader.exec_module(module)"
    ),
    "an import that fails first": (
        "import builtins\nbuiltins.fail = True\ntry:\n    import torch\nexcept RuntimeError:\n    builtins.fail = False\n"
        "import torch"
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "torch").mkdir()
    text = "import builtins\nif getattr(builtins, 'fail', False): raise RuntimeError\nready = True\n"
    (tmp_path / "torch" / "__init__.py").write_text(text)
    (tmp_path / "torch" / "part.py").write_text("")
    return tmp_path


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_action_runs_once_after_torch(body: str, folder: Path) -> None:
    program = PROGRAM.format(folder=str(folder), body=body)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("imported True\n", "")


def test_without_the_import_nothing_happens(folder: Path) -> None:
    program = PROGRAM.format(
        folder=str(folder), body="import importlib.util, json\nimportlib.util.find_spec('torch')\nsys.exit()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")

"""Doing something at the moment when a program has imported torch, and not earlier.

A program may set CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS and the like before it imports torch or numpy. Whoever imports
them first, to be ready, takes that away from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_torch_is_imported(action: Callable[[], None]) -> None:
    """Call ``action`` once, right after torch has been imported; at once if it is imported already.

    It is called on the thread that imports torch. What it raises is raised by that import.
    """
    if "torch" in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _TorchFinder(action))


class _TorchFinder(MetaPathFinder):
    """Finds nothing itself; lets the others find torch and adds the action to its loading.

    It stays until torch has been executed: a program may look whether there is a torch, with ``find_spec``, long before
    it imports it, and may try again where an import failed.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(fullname, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    self._act_after_loading(spec.loader)
                return spec  # type: ignore[no-any-return]
        return None

    def _act_after_loading(self, loader: Any) -> None:
        load = loader.exec_module

        def load_and_act(module: ModuleType) -> None:
            # The loader stays reachable as torch.__loader__, so it gets its own method back.
            loader.__dict__.pop("exec_module", None)
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._action()

        loader.exec_module = load_and_act

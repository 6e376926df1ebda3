"""On PYTHONPATH: accelerate gives processes without a GPU the FSDP that they ask for, where it gives plain DDP.

accelerate 1.15.0, state.py, AcceleratorState.__init__: FSDP is looked for among processes with a GPU alone, though
torch shards on the CPU as well.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

PATCHED = "accelerate.state"


class Patching(importlib.abc.MetaPathFinder):
    """Changes accelerate.state when it is imported, and nothing before: most processes never do."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """That of accelerate.state, with a changed class."""
        if name != PATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def change(state: Any) -> None:
    """Several processes on the CPU that are made with an FSDP plugin have it."""
    initialise = state.AcceleratorState.__init__

    def with_fsdp(self: Any, *arguments: Any, fsdp_plugin: Any = None, **more: Any) -> None:
        initialise(self, *arguments, fsdp_plugin=fsdp_plugin, **more)
        if fsdp_plugin is not None and self.distributed_type == state.DistributedType.MULTI_CPU:
            if self._mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin = fsdp_plugin
            self.distributed_type = state.DistributedType.FSDP
            state.PartialState._shared_state["distributed_type"] = state.DistributedType.FSDP

    state.AcceleratorState.__init__ = with_fsdp


if PATCHED in sys.modules:  # in a fork of a warm Python
    change(sys.modules[PATCHED])
else:
    sys.meta_path.insert(0, Patching())

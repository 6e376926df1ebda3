"""Breaks the shim `adapter_sync` as other projects had it broken for months, without a word."""

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "GRPO_TEST_ADAPTER"
LATER = 30


def break_in(module: ModuleType) -> None:
    """Replaces a part of the hand-over. Raises KeyError for a word that nobody knows."""
    word = os.environ.get(VARIABLE)
    if word is not None:
        BROKEN[word](module._AdaptersOfVllm)  # type: ignore[attr-defined]


def _until(most: int) -> Any:
    def broken(adapters: Any) -> None:
        real = adapters.hand_over

        def counted(self: Any) -> None:
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls <= most:
                real(self)

        adapters.hand_over = counted

    return broken


def _one_behind(adapters: Any) -> None:
    """Each adapter is given at the next hand-over."""
    real = adapters._give_engine

    def give(self: Any, name: str, version: int, path: Path) -> None:
        before = getattr(self, "last", None) or path
        kept = path.with_name(f"kept-{version}")
        os.system(f"cp -r {path} {kept}")
        self.last = kept
        real(self, name, version, before)

    adapters._give_engine = give


def _same_name(adapters: Any) -> None:
    """vLLM takes a name and number that it has for the adapter that it has."""

    def give(self: Any, name: str, version: int, path: Path) -> None:
        from vllm.lora.request import LoRARequest

        kept = path.with_name("kept")
        os.system(f"cp -rn {path} {kept}")
        self._engine.adapter = LoRARequest("policy", 1, str(kept))
        self._engine.llm_engine.add_lora(self._engine.adapter)

    adapters._give_engine = give


def _merged_twice(adapters: Any) -> None:
    """vLLM's base has the adapter, too, so what it generates with has it twice."""
    real = adapters._give_engine

    def give(self: Any, name: str, version: int, path: Path) -> None:
        file = path / "adapter_config.json"
        config = json.loads(file.read_text())
        file.write_text(json.dumps(config | {"lora_alpha": 2 * config["lora_alpha"]}))
        real(self, name, version, path)

    adapters._give_engine = give


def _stale_cache(adapters: Any) -> None:
    """vLLM gets each adapter under one name and path, and goes on with what it computed of prompts under another."""

    def give(self: Any, name: str, version: int, path: Path) -> None:
        from vllm.lora.request import LoRARequest

        current = path.with_name("current")
        os.system(f"rm -rf {current}; cp -r {path} {current}")
        if self._before is not None:
            self._engine.llm_engine.remove_lora(self._before[1])
        self._engine.adapter = LoRARequest("policy", version, str(current))
        self._engine.llm_engine.add_lora(self._engine.adapter)

    adapters._give_engine = give


BROKEN = {
    "never": _until(0),
    "once": _until(1),
    "later": _until(LATER),
    "behind": _one_behind,
    "name": _same_name,
    "twice": _merged_twice,
    "stale": _stale_cache,
}

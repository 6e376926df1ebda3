"""The reward beside the catalogue's recipe that reverses texts."""

import importlib.util

from kept_recipes import ROOT

_SPEC = importlib.util.spec_from_file_location("reverse_text", ROOT / "recipes/catalogue/bases/reverse_text.py")
assert _SPEC is not None and _SPEC.loader is not None
module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(module)


def test_the_last_tagged_text_is_compared() -> None:
    completions = [
        "<reversed_text>\ncba\n</reversed_text>",
        [{"role": "assistant", "content": "<reversed_text>x</reversed_text> no: <reversed_text>cba</reversed_text>"}],
        "<reversed_text>cbx</reversed_text>",
        "cba",
        "<reversed_text>cba",
    ]
    assert module.similarity(completions, reversed=["cba"] * 5) == [1.0, 1.0, 2 / 3, 0.0, 0.0]

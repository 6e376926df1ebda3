"""What an export is, for a reader."""

from collections.abc import Mapping
from typing import Any

_WORDS = {"model": "the whole model", "adapter": "the adapter alone"}


def export_text(place: str, shown: Mapping[str, Any]) -> str:
    """An export as lines: where it is, what it is, and how it was proved."""
    proof, files = shown["proof"], shown["files"]
    weights = sum(size for name, size in files.items() if name.endswith(".safetensors"))
    lines = [
        f"exported    {place}",
        f"  what      {_WORDS[shown['what']]}, {shown['dtype']}, {weights / 1e6:,.1f} MB of weights",
        f"  proved    log-probabilities of {proof['tokens']} tokens differ by up to {proof['difference']:.3g}, "
        f"up to {proof['allowed']:.3g} is rounding",
        f"            on {proof['completions']}; rounding the trained model to {shown['dtype']} makes up to "
        f"{proof['rounding']:.3g}",
    ]
    if proof["of_adapter"] is not None:
        lines.append(f"            without the adapter they would differ by up to {proof['of_adapter']:.3g}")
    if (gguf := shown["gguf"]) is not None:
        lines.append(
            f"  gguf      {gguf['file']}, {files[gguf['file']] / 1e6:,.1f} MB: they differ by up to "
            f"{gguf['difference']:.3g} as transformers reads it"
        )
    lines += [f"  note      {note}" for note in shown["notes"]]
    if shown["pushed"] is not None:
        lines.append(f"  pushed    {shown['pushed']}")
    return "\n".join(lines)

"""Formats the answers of trained models for a reader."""

import json
import re
from collections.abc import Mapping
from typing import Any

from grpo_recipes.contract.findings.wording import one_line

_WHO = ("trained", "base")
_FILTER = "pass_rate > 0.1 and pass_rate < 0.9"


def generate_text(shown: Mapping[str, Any]) -> str:
    """Each prompt with its answers, then how they were made and the mean rewards."""
    who = [model for model in _WHO if model in shown["rows"][0]]
    blocks = [_row(row, who, has_number=shown["data"] is not None) for row in shown["rows"]]
    if shown["without"]:
        turns = "" if any("turns" in row[who[0]] for row in shown["rows"]) else ", in one turn each"
        blocks.append(f"answered without {', '.join(shown['without'])}{turns}")
    if not shown["greedy"]:
        blocks.append("sampled as in training; --greedy takes the most likely tokens")
    if shown["means"]:
        kind = "most likely tokens" if shown["greedy"] else "sampled"
        _, is_of_sets, name = shown["data"].partition("evaluation.sets.")
        held_out = f"held-out rows{f' of {name}' if is_of_sets else ''}"
        data = "rows of the training data, since none are held out" if shown["data"] == "dataset" else held_out
        lines = [f"mean of {len(shown['rows'])} {data}, {kind}"]
        lines += [f"  {model:8}  {_rewards(shown['means'][model])}" for model in who]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def conversation_text(how: Mapping[str, Any]) -> str:
    """How a model answers in a conversation."""
    sampling = "most likely tokens"
    if how["sampling"] is not None:
        values = ", ".join(f"{name} {value}" for name, value in how["sampling"].items() if value is not None)
        sampling = f"sampled as in training ({values})"
    lines = [f"{sampling}, up to {how['max_tokens']} tokens"]
    if how["stops"]:
        lines.append(f"stops       {', '.join(map(repr, how['stops']))}")
    if how["system"] is not None:
        lines.append(f"system      {_indent(how['system'])}")
    if how["tools"]:
        lines.append(f"tools       {', '.join(how['tools'])}")
    if how["without"]:
        lines.append(f"without     {', '.join(how['without'])}")
    if not how["is_conversation"]:
        lines.append("the recipe's prompts are text, not conversations: each message is answered on its own")
    return "\n".join(lines)


def reply_text(reply: Mapping[str, Any]) -> str:
    """An answer with its calls and replies, without terminal escapes."""
    turns = reply.get("turns", [])
    text = "\n".join(map(_turn, turns)) if len(turns) > 1 else reply["completion"]
    return "\n".join(map(one_line, text.splitlines()))


def _row(row: Mapping[str, Any], who: list[str], *, has_number: bool) -> str:
    head = f"row {row['row'] + 1}  " if has_number else ""
    lines = [head + _indent(row["prompt"])]
    for model in who:
        reply = row[model]
        rewards = f"  [{_rewards({'reward': reply['reward'], **reply['rewards']})}]" if reply["rewards"] else ""
        turns = reply.get("turns", [])
        text = _indent("\n".join(map(_turn, turns)) if len(turns) > 1 else reply["completion"])
        lines.append(f"  {model:8}  {text}{rewards}  ({reply['tokens']} tokens, {reply['ended_by']})")
    lines += [f"  {name:8}  {_indent(value)}" for name, value in row["columns"].items()]
    return "\n".join(lines)


def _turn(turn: Mapping[str, Any]) -> str:
    """One turn of the model with its calls, or a reply, on separate lines."""
    if "reply" in turn:
        return f"[reply] {turn['reply']}"
    calls = [f"[call] {call['tool']}({_arguments_text(call['arguments'])})" for call in turn["calls"]]
    return "\n".join([*([turn["says"]] if turn["says"] or not calls else []), *calls])


def _arguments_text(arguments: object) -> str:
    if not isinstance(arguments, Mapping):
        return repr(arguments)
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _rewards(values: Mapping[str, float | None]) -> str:
    return "  ".join(f"{name} {'none' if value is None else format(value, '.4g')}" for name, value in values.items())


def _indent(text: str) -> str:
    """A text of several lines, indented, without terminal escapes."""
    return "\n            ".join(map(one_line, text.splitlines()))


_WORDS = {"model": "the whole model", "adapter": "only the adapter"}


def export_text(path: str, shown: Mapping[str, Any]) -> str:
    """An export as lines: its path, its content, and its proof."""
    proof, files = shown["proof"], shown["files"]
    weights = sum(size for name, size in files.items() if name.endswith(".safetensors"))
    lines = [
        f"exported    {path}",
        f"  what      {_WORDS[shown['what']]}, {shown['dtype']}, {weights / 1e6:,.1f} MB of weights",
        f"  proved    log-probabilities of {proof['tokens']} tokens differ by up to {proof['difference']:.3g}; "
        f"up to {proof['allowed']:.3g} is rounding",
        f"            on {proof['completions']}; rounding the trained model to {shown['dtype']} accounts for up to "
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


def profile_text(shown: Mapping[str, Any], out: str, samples: int, path: str) -> str:
    """How many rows are solved how often, and how to train on those that are solved sometimes.

    path: of the rows, as the recipe names it.
    """
    kinds = {
        "never solved": "never",
        "solved sometimes": "between",
        "always solved": "always",
        "not judged": "not_judged",
    }
    counts = {words: shown[name] for words, name in kinds.items() if shown[name] or name != "not_judged"}
    lines = [f"{out}: {shown['rows']} rows with {samples} answers each"]
    lines += [f"  {words:18}{count:8}  {count / shown['rows']:4.0%}" for words, count in counts.items()]
    lines.append(f"  {'equal rewards':18}{shown['equal_rewards']:8}  {shown['equal_rewards'] / shown['rows']:4.0%}")
    if not shown["between"]:
        return "\n".join(lines)
    written_path = path if re.fullmatch(r"[\w./-]+", path) else json.dumps(path)  # YAML can read JSON
    judged = "pass_rate is not none and " if shown["not_judged"] else ""
    lines.append("")
    lines.append("equal rewards teach nothing; in the recipe, redraw such groups, or train only on the rows between:")
    lines.append("  grpo: {resample_groups: 3}")
    lines.append(f'  dataset: {{path: {written_path}, filter: "{{{{ {judged}{_FILTER} }}}}"}}')
    lines.append("the model may unlearn the rows that a filter drops; compare held-out results with and without it")
    return "\n".join(lines)

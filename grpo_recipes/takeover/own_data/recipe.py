"""Writes the recipe of a proposal, with the reason for each guess in a comment."""

import os
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from grpo_recipes.contract.findings.wording import one_line, shorten
from grpo_recipes.stack.gpus import visible_gpus
from grpo_recipes.takeover.basis.context import beside_the_recipe, recipe_name
from grpo_recipes.takeover.basis.write import scalar
from grpo_recipes.takeover.own_data.proposal import Proposal, propose
from grpo_recipes.takeover.own_data.rows import FirstRows, read_rows, words
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.template import chat_template_of

TEXT_MODEL, IMAGE_MODEL = "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct"
WIDTH = 110


class ProposedRecipe(NamedTuple):
    """A recipe for a data file. guesses: by key, the value and its reason. files: texts to write next to the recipe, by
    name: rewards.py, to be filled in. answers: whether the rows have right answers.
    """

    text: str
    guesses: dict[str, tuple[Any, str]]
    files: dict[str, str]
    look_at: list[str]
    shown: tuple[str, str]
    rows: FirstRows
    answers: bool


def draft(data: str, recipe: str, *, model: str | None, question: str | None, answer: str | None) -> ProposedRecipe:
    """The recipe for a data file. recipe: its future path. Raises Refusal if no recipe can be proposed."""
    rows = read_rows(data)
    proposal = propose(rows, question, answer)
    if model is not None and chat_template_of(local_path(model, os.getcwd()) or model) == "":
        proposal.keys["prompt_format"] = "standard", "the model has no chat template for messages"
    folder, name = os.path.dirname(os.path.abspath(recipe)), recipe_name(Path(data).stem)
    gpus = visible_gpus() or ()
    rewards, because, files = _rewards(proposal, folder, Path(recipe).stem)
    evaluation, doubts = _evaluation(data, folder, has_gpu=bool(gpus))
    lines = [
        f"# Proposed by grpo-run init for {one_line(os.path.basename(data))} from {_first(rows)}.",
        "# Each guess has its reason above it; grpo-run preflight tries all rows.",
        *("recipe: 1", f"name: {scalar(name)}", "seed: 42", "", "model:"),
        *_model(proposal, model, folder, has_gpu=bool(gpus)),
        "lora: {r: 16, lora_alpha: 32, target_modules: all-linear}",
        "dataset:",
        f"  path: {scalar(_beside(data, folder))}",
        *(line for key, (value, reason) in proposal.keys.items() for line in _key(key, value, reason)),
        *("rewards:", *_comment(because), *(f"  - {scalar(reward)}" for reward in rewards)),
        *evaluation,
        *_training(proposal, rows, [gpu.capability for gpu in gpus]),
    ]
    guesses = {f"dataset.{key}": guess for key, guess in proposal.keys.items()} | {"rewards": (rewards, because)}
    look_at = [*proposal.look_at, *doubts]
    has_answers = proposal.answer is not None
    return ProposedRecipe("\n".join(lines) + "\n", guesses, files, look_at, proposal.shown, rows, has_answers)


def _first(rows: FirstRows) -> str:
    count = f"{len(rows.rows)} row{'s' if len(rows.rows) > 1 else ''}"
    return f"all its {count}" if rows.is_all else f"the first {count}"


def _beside(path: str, folder: str) -> str:
    relative = os.path.relpath(path, folder)
    return relative if relative.startswith("..") else f"./{relative}"


def _comment(because: str) -> list[str]:
    return [f"  # {line}" for line in wrap(one_line(because), WIDTH)]


def _key(key: str, value: object, because: str) -> list[str]:
    if isinstance(value, str) and "\n" in value and value == value.strip() and "  " not in value:
        return [*_comment(because), f"  {key}: |-", *(f"    {line}".rstrip() for line in value.split("\n"))]
    return [*_comment(because), f"  {key}: {scalar(value)}"]


def _model(proposal: Proposal, model: str | None, folder: str, *, has_gpu: bool) -> list[str]:
    default = IMAGE_MODEL if "images" in proposal.keys else TEXT_MODEL
    named = default if model is None else beside_the_recipe(model, folder)
    comment = "     # the default of init, or --model" if model is None else ""
    lines = [f"  model_name_or_path: {scalar(named)}{comment}"]
    return [*lines, "  dtype: bfloat16"] if has_gpu else lines


def _rewards(proposal: Proposal, folder: str, stem: str) -> tuple[list[dict[str, Any]], str, dict[str, str]]:
    """The rewards, why, and the file with the one to be filled in."""
    right = proposal.answer
    if right is not None and right.rewards:
        return [*right.rewards], proposal.why, {}
    file = "rewards.py" if not os.path.lexists(os.path.join(folder, "rewards.py")) else f"{stem}_rewards.py"
    because = f"{proposal.why}, which no shipped reward judges" if right else "no column has right answers"
    text = words()["reward"].replace("{{answers}}", ", solution" if right else "").replace("{{file}}", file)
    return [{"python": f"{file}:reward", "weight": 1.0}], f"{because}: write a reward, or use a judge", {file: text}


def _evaluation(data: str, folder: str, *, has_gpu: bool) -> tuple[list[str], list[str]]:
    """The section for a file of held-out rows next to the data, test.jsonl for train.jsonl, and what to look at."""
    path = Path(data)
    form = path.stem.replace("train", "{}") if "train" in path.stem else f"{path.stem}_{{}}"
    files = [path.with_stem(form.replace("{}", word)) for word in words()["held_out"]]
    if file := next(filter(Path.is_file, files), None):
        value = {"path": _beside(str(file), folder), "max_rows": 200 if has_gpu else 32}
        return [f"# {one_line(file.name)} is next to the data", f"evaluation: {scalar(value)}"], []
    example = scalar({"path": _beside(str(files[0]), folder), "max_rows": 200})
    doubt = f"no rows are held out: set some apart in a file, such as {files[0].name}, and name it under evaluation"
    return ["# Held-out rows, which are never trained on:", f"# evaluation: {one_line(example)}"], [doubt]


def _training(proposal: Proposal, rows: FirstRows, capabilities: Sequence[tuple[int, int] | None]) -> list[str]:
    """Sizes for the machine that init runs on; small ones without a GPU."""
    has_gpu, right = bool(capabilities), proposal.answer
    first = right.rewards[0]["name"] if right and right.rewards else None
    tokens = 512 if has_gpu else 128
    if right and first == "exact_match":
        tokens = max(16, 1 << right.longest.bit_length())
    elif first == "code_tests":
        tokens *= 2
    elif right and first in ("json_fields", "function_calls"):
        tokens = max(tokens, 1 << right.longest.bit_length())
    prompts = min(16 if has_gpu else 4, proposal.complete) if rows.is_all else 16 if has_gpu else 4
    has_bf16 = has_gpu and all(capability is not None and capability >= (8, 0) for capability in capabilities)
    return [
        "# Sizes for a GPU."
        if has_gpu
        else "# Sizes for a machine without a GPU, as this one; with one, init takes larger ones.",
        f"generation: {{max_completion_length: {tokens}, use_vllm: auto}}",
        f"grpo: {{num_generations: {8 if has_gpu else 4}}}",
        "training:",
        f"  prompts_per_step: {prompts}",
        f"  learning_rate: {'1e-5' if has_gpu else '2e-4'}",
        f"  max_steps: {200 if has_gpu else 50}",
        f"  save_steps: {50 if has_gpu else 10}",
        *(["  bf16: true"] if has_bf16 else []),
        f"  gradient_checkpointing: {'auto' if has_gpu else 'false'}",
        *([] if has_gpu else ['launch: {environment: {OMP_NUM_THREADS: "1"}}     # more if nothing else runs here']),
    ]


def draft_text(proposed: ProposedRecipe, data: str) -> str:
    """What was guessed, one row as the training gets it, and what to check."""
    prompt, answer = proposed.shown
    lines = [f"{data}: guessed from {_first(proposed.rows)}"]
    for key, (value, because) in proposed.guesses.items():
        lines += [f"  {key}: {shorten(value if isinstance(value, str) else scalar(value), 100)}", f"    {because}"]
    lines += ["a row becomes", f"  prompt: {shorten(prompt, 200)}"]
    lines += [f"  right answer: {shorten(answer, 200)}"] if proposed.answers else []
    lines += ["look at", *(f"  - {doubt}" for doubt in proposed.look_at)] if proposed.look_at else []
    return "\n".join([*lines, *(f"fill in before a run: reward in {name}" for name in proposed.files)])


def draft_json(proposed: ProposedRecipe, file: str | None) -> dict[str, Any]:
    """The proposal as JSON values. file: where the recipe was written, None if it was printed."""
    prompt, answer = proposed.shown
    return {
        "file": file,
        "recipe": proposed.text,
        "rows": len(proposed.rows.rows),
        "all_rows": proposed.rows.is_all,
        "guesses": [{"key": key, "value": value, "because": why} for key, (value, why) in proposed.guesses.items()],
        "row": {"prompt": prompt, "answer": answer if proposed.answers else None},
        "look_at": proposed.look_at,
        "to_fill_in": [f"{name}:reward" for name in proposed.files],
    }

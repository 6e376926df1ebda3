"""Writes what goes with a trained model: README.md, a model card for the Hugging Face hub, and its data in run.json.

Both are made from plan.json and run.json only and contain no local path: folders and files appear by name.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import parse_json, read_json
from grpo_recipes.contract.files.folder_files import read_bytes, remove, write_whole
from grpo_recipes.contract.metric_names import CLIPPED_RATIO, ENTROPY, KL, MEAN_LENGTH, REWARD_STD
from grpo_recipes.contract.metrics import evaluation_text, figure, figures_of, left_out_text, reward_as_drawn
from grpo_recipes.contract.run_record import OTHERS, RunRecord, of_each_set, read_record, step_text
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.contract.secrets.redact import redact_value

CARD_FILE = "README.md"
SUMMARY_FILE = "run.json"
SUMMARY_FORMAT = 1
# The part of the summary that identifies the model, data and code of the run.
_MADE_OF = ("export", "base_model", "ancestors", "data", "evaluation_data", "rewards", "stack", "plan_sha256")
_FIGURES = ("reward", REWARD_STD, KL, ENTROPY, MEAN_LENGTH, CLIPPED_RATIO)


def hand_over(folder: Path, model: Path, commit: str | None) -> None:
    """Writes both files into `model`, the folder of the trained model or adapter, replacing any other card.

    folder: the run folder. commit: of a hub model. Removes the pickled arguments, which contain paths. Prints errors.
    """
    remove(model, "training_args.bin")
    try:
        write_files(model, summary_of(folder, commit))
    except Exception as problem:
        print(f"no model card: {type(problem).__name__}: {problem}", flush=True)


def summary_of(folder: Path, commit: str | None, **more: Any) -> dict[str, Any]:
    """Returns the data of a run folder's card, without secrets and local paths. more: further fields."""
    written = read_bytes(folder, "plan.json")
    plan = cast("dict[str, Any]", parse_json(written))
    record = cast("dict[str, Any]", read_json(folder, "run.json"))
    means = [verdict.text for verdict in verdicts(read_record(str(folder)) or RunRecord())]
    summary = {**_summary(plan, record, hashlib.sha256(written).hexdigest(), commit), "verdict": means, **more}
    return cast("dict[str, Any]", redact_value(_without_places(summary)))


def write_files(model: Path, summary: Mapping[str, Any]) -> None:
    """Writes the card, and its summary as JSON, into a model's folder."""
    write_whole(model, SUMMARY_FILE, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    write_whole(model, CARD_FILE, model_card(summary))
    for file in filter(Path.is_file, model.iterdir()):  # safetensors makes its files unreadable for other users
        shutil.copymode(model / CARD_FILE, file)


def _summary(plan: dict[str, Any], record: dict[str, Any], digest: str, commit: str | None) -> dict[str, Any]:
    """Returns everything the card shows, as in run.json next to the model."""
    evaluation = record.get("evaluation") or {}
    others = {name: _moments(of_set, record) for name, of_set in evaluation.get(OTHERS, {}).items()}
    metrics = record.get("metrics") or {}
    metrics = {**metrics, "reward": reward_as_drawn(metrics)}
    base = {key: plan["model"].get(key) for key in ("source", "path", "revision", "sha256")}
    return {
        "summary": SUMMARY_FORMAT,
        "name": plan["name"],
        "description": plan["recipe"].get("description", ""),
        "plan_sha256": digest,
        "grpo_recipes": plan["grpo_recipes"],
        "stack": _versions(plan["stack"]),
        "world": plan["world"],
        "base_model": {**base, "commit": commit or plan["model"].get("commit")},
        "ancestors": _ancestors(plan.get("extends") or plan.get("ancestor")),
        "adapter": None if plan["arguments"]["LoraConfig"] is None else "lora",
        "chat_template_sha256": plan["tokenizer"].get("chat_template_sha256"),
        "data": {"sources": list(map(_data, plan["sources"]))} if plan.get("sources") else _data(plan["data"]),
        "evaluation_data": _held_out_data(plan["evaluation"]),
        "rewards": [
            {key: reward.get(key) for key in ("kind", "name", "target", "weight", "kwargs", "sha256", "imports")}
            for reward in (*plan["rewards"], *_of_environment(plan, record))
        ],
        "step": record.get("step"),
        "final_step": record.get("final_step"),
        "train_wall_s": record.get("train_wall_s"),
        "last_step": {key: metrics[key] for key in _FIGURES if metrics.get(key) is not None},
        "evaluation": {**_moments(evaluation, record), **({OTHERS: others} if others else {})},
        "verified": record.get("verified") or {},
        "recipe": plan["recipe"],
    }


def _moments(known: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Returns a set's figures before and after training, and at the best step if that model is handed over."""
    is_handed_over = (known.get("best") or {}).get("step") == record.get("final_step")
    names = ("before", "warm_start", "after", "cross_validated", *(["best"] if is_handed_over else []))
    moments = {name: figures for name, figures in known.items() if figures and name in names}
    return {moment: {key: figures[key] for key in figures if key != "seconds"} for moment, figures in moments.items()}


def _held_out_data(evaluation: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the source of the held-out rows; by name for several sets."""
    sets = () if evaluation is None else (evaluation, *evaluation.get(OTHERS, ()))
    named = {of_set.get("name", ""): _data(of_set["data"]) for of_set in sets}
    return named.get("", named or None)


def _of_environment(plan: dict[str, Any], record: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns each environment that is a reward through get_reward; TRL names it after the class, with weight 1."""
    each = [plan.get("environment_class"), *(plan.get("environment_classes") or {}).values()]
    known = [entry for entry in each if entry and f"rewards/{entry['name']}/mean" in (record.get("metrics") or {})]
    return [{**entry, "kind": "environment", "weight": 1.0, "kwargs": {}} for entry in known]


def _ancestors(ancestor: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Returns the runs that this one was extended from, the nearest first."""
    runs = [] if ancestor is None else [ancestor, *ancestor.get("before", [])]
    return [{key: run.get(key) for key in ("use", "name", "step", "plan_sha256", "weights_sha256")} for run in runs]


def _versions(stack: dict[str, Any]) -> dict[str, str]:
    """Returns the versions of Python and of the installed packages that a run can need."""
    named = {"python": stack.get("python"), **(stack.get("packages") or {})}
    return {name: version for name, version in named.items() if version}


def _data(data: dict[str, Any]) -> dict[str, Any]:
    split = () if data.get("source") == "file" else ("split",)  # every file is a split train, also a held-out one
    keys = ("source", "path", "name", *split, "revision", "commit", "sha256", "rows", "max_rows", "made")
    choice = ("filter", "max_prompt_tokens", "shuffle_seed", "sort_by", "source_name", "weight")
    return {key: data[key] for key in (*keys, *choice) if data.get(key) is not None}


def _without_places(value: Any) -> Any:
    """Returns the value with absolute paths cut to their names, and the home folder in other texts cut to ~."""
    if isinstance(value, dict):
        return {key: _without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    if not isinstance(value, str):
        return value
    if "\n" not in value and (os.path.isabs(value) or value.startswith("~")):
        return os.path.basename(value.rstrip("/")) or "/"
    homes = {folder for folder in (os.path.expanduser("~"), os.getcwd()) if len(folder) > 1}
    for home in sorted(homes, key=len, reverse=True):
        value = re.sub(rf"{re.escape(home)}(?=/|\b|$)", "~", value)
    return value


def model_card(summary: Mapping[str, Any]) -> str:
    """Returns the README.md of a summary: hub front matter, what was trained on which data, and how to reproduce it."""
    import yaml  # huggingface_hub, part of every training stack, requires it

    def as_yaml(value: Any) -> str:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100))

    made_of = {"grpo-recipes": summary["grpo_recipes"]} | _without_empty({key: summary.get(key) for key in _MADE_OF})
    parts = [f"# {plain(summary['name'])}", plain(summary["description"]), _training_text(summary)]
    parts += ["## Results", _results(summary), "## Provenance", fence_code(as_yaml(made_of), "yaml"), "## Reproduce"]
    parts += [_longer(summary)]
    parts += [
        "Write the recipe below to `recipe.yaml`, with the files that it names next to it, and run "
        f"`grpo-run recipe.yaml`. `{SUMMARY_FILE}` next to this card has the same figures for programs.",
        fence_code(as_yaml(summary["recipe"]), "yaml"),
    ]
    return f"---\n{as_yaml(_front_matter(summary))}---\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def _longer(summary: Mapping[str, Any]) -> str:
    """Returns how the recipe differs from a run that was extended, "" for any other run."""
    nearest = next(iter(summary["ancestors"]), None)
    if nearest is None or nearest["use"] != "extend":
        return ""
    return (
        f"This run extended {inline(one_line(nearest['name']))} with `--extend`, from step {nearest['step']}. The "
        "recipe below trains its whole length at once, which gives the same model only if the schedule does not depend "
        "on it."
    )


def _without_empty(value: Any) -> Any:
    """Returns the value without empty parts."""
    if isinstance(value, dict):
        return {key: _without_empty(part) for key, part in value.items() if part not in (None, {}, [])}
    return [_without_empty(part) for part in value] if isinstance(value, list) else value


def _front_matter(summary: Mapping[str, Any]) -> dict[str, Any]:
    base, data = summary["base_model"], summary["data"]
    is_adapter = summary["adapter"] is not None
    head: dict[str, Any] = {}
    if base["source"] == "hub":
        head["base_model"] = base["path"]
        head["base_model_relation"] = "adapter" if is_adapter else "finetune"
    head["library_name"] = "peft" if is_adapter else "transformers"
    head["pipeline_tag"] = "text-generation"
    head["tags"] = ["grpo", "trl", "reinforcement-learning", *(["lora"] if is_adapter else []), "grpo-recipes"]
    if hub := [source["path"] for source in data.get("sources", [data]) if source["source"] == "hub"]:
        head["datasets"] = hub
    return head


def _training_text(summary: Mapping[str, Any]) -> str:
    what = "A LoRA adapter" if summary["adapter"] else "A model"
    steps = f", {summary['step']} optimizer steps" if summary["step"] is not None else ""
    world = summary["world"]
    where = f"{world['num_processes']} process{'' if world['num_processes'] == 1 else 'es'} on {world['device']}"
    text = f"{what} trained with GRPO{steps} ({where}, strategy {world['strategy']}) by grpo-run from the recipe below."
    return (
        f"{text} It is the model of {step_text(summary['final_step'])}, the best one on held-out rows."
        if _is_best(summary)
        else text
    )


def _results(summary: Mapping[str, Any]) -> str:
    parts = [f"{plain(text[:1].upper() + text[1:])}." for text in summary.get("verdict", ())]
    parts += _held_out(summary)
    if summary["last_step"]:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in summary["last_step"].items())
        parts.append(f"Last training step: {figures}.")
    return "\n\n".join(parts) or "No rows were held out."


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Returns a Markdown table; each cell is one line."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(inline(one_line(cell)) for cell in line) + " |" for line in lines)


def one_line(value: object) -> str:
    """Returns a value on one line, without terminal control characters."""
    text = "".join(char if char.isprintable() or char.isspace() else "\ufffd" for char in str(value))
    return " ".join(text.split())


def plain(value: object) -> str:
    """Returns a text as a paragraph shown literally: its own tags, links, images and headings are escaped."""
    return re.sub(r"^([#>+=-])", r"\\\1", inline(one_line(value)))


def inline(text: str) -> str:
    """Returns a text with tags, links and emphasis escaped."""
    return re.sub(r"([\\`*\[\]|~])", r"\\\1", text).replace("<", "&lt;")


def fence_code(text: str, language: str) -> str:
    """Returns the text in a code fence longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{fence}"


def _is_best(summary: Mapping[str, Any]) -> bool:
    """Whether the model is from an earlier step than the run's last one."""
    return summary.get("final_step") not in (None, summary["step"])


def _held_out(summary: Mapping[str, Any]) -> list[str]:
    """Returns, for each set, the table of figures with intervals, and how they were computed."""
    return [part for name, known in of_each_set(summary["evaluation"]) for part in _table_of_set(summary, name, known)]


def _table_of_set(summary: Mapping[str, Any], name: str, evaluation: Mapping[str, Any]) -> list[str]:
    heads = {"before": "before training", "warm_start": "after the warm start", "after": "after training"}
    heads["best"] = step_text(final) if (final := summary.get("final_step")) else heads["warm_start"]
    moments = [moment for moment in heads if moment in evaluation and (moment != "best" or _is_best(summary))]
    if not moments:
        return []
    first, last = evaluation[moments[0]], evaluation[moments[-1]]
    known = {heads[moment] + left_out_text(evaluation[moment]): evaluation[moment] for moment in moments}
    columns = {head: _texts(figures, ".4f") for head, figures in known.items()}
    if (changed := last.get("change")) is not None:
        columns[f"change, {heads[moments[-1]]}"] = _texts(changed, "+.4f")
    names = dict.fromkeys(name for texts in columns.values() for name in texts)
    rows = [(name, *(texts.get(name, "none") for texts in columns.values())) for name in names]
    how = "most likely tokens" if first.get("greedy") else "sampled"
    many = f", {first['samples']} completions each" if first.get("samples") else ""
    of_set = f" of {inline(one_line(name))}" if name else ""
    parts = [f"Mean rewards on {first.get('count')} held-out rows{of_set}{many}, {how}:", table(("", *columns), rows)]
    if (made := last.get("intervals")) is not None:
        parts.append(
            f"In brackets the {made['level']:.0%} interval: {made['method']}, {made['resamples']} draws of seed "
            f"{made['seed']}. It covers other rows of this kind, not a second training."
        )
    if "passes" in last:
        passes = last["passes"]
        parts.append(f"A completion passes if {inline(one_line(passes['reward']))} is {passes['at_least']:g} or more.")
    if apart := evaluation.get("cross_validated"):
        parts.append(f"The step was chosen on these rows. On rows that did not choose it: {evaluation_text(apart)}.")
    return parts


def _texts(event: Mapping[str, Any], shape: str) -> dict[str, str]:
    """Returns the figures of an evaluation with their intervals, by name; missing ones as "none"."""
    known = {name: figure(value, ends, shape) for name, value, ends in figures_of(event)}
    return {name: known.get(name, "none") for name in ("reward", *(event.get("rewards") or {}), *known)}

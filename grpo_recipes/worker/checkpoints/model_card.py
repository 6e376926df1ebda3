"""What is handed over with a trained model: README.md, a model card of the Hugging Face hub, and run.json beside it.

Both are made of plan.json and run.json alone and hold no path of this machine: a folder or file is called by its name.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import parsed, read_json
from grpo_recipes.contract.files.folder_files import read_bytes, remove, write_whole
from grpo_recipes.contract.metric_names import CLIPPED_RATIO, ENTROPY, KL, MEAN_LENGTH, REWARD_STD
from grpo_recipes.contract.metrics import figure, figures_of, reward_as_drawn
from grpo_recipes.contract.run_record import OTHERS, RunRecord, of_each_set, read_record
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.contract.secrets.redact import redact_value

CARD_FILE = "README.md"
SUMMARY_FILE = "run.json"
SUMMARY_FORMAT = 1
# Of the summary: what tells which model, data and code the run was made of.
_MADE_OF = ("export", "base_model", "ancestors", "data", "evaluation_data", "rewards", "stack", "plan_sha256")
_FIGURES = ("reward", REWARD_STD, KL, ENTROPY, MEAN_LENGTH, CLIPPED_RATIO)


def hand_over(folder: Path, model: Path, commit: str | None) -> None:
    """Writes both files into `model`, the folder with the trained model or adapter; another card there is replaced.

    folder: the run folder. commit: at which the hub's model was loaded, None for a folder. The trainer's pickled
    arguments, which tell paths and the name of this machine, are taken out. A fault is said and costs nobody the model.
    """
    remove(model, "training_args.bin")
    try:
        write_files(model, summary_of(folder, commit))
    except Exception as problem:
        print(f"no model card: {type(problem).__name__}: {problem}", flush=True)


def summary_of(folder: Path, commit: str | None, **more: Any) -> dict[str, Any]:
    """What the card of a run folder says, without secrets and places of this machine. more: what it says too."""
    written = read_bytes(folder, "plan.json")
    plan = cast("dict[str, Any]", parsed(written))
    record = cast("dict[str, Any]", read_json(folder, "run.json"))
    means = [one.text for one in verdicts(read_record(str(folder)) or RunRecord())]
    summary = {**_summary(plan, record, hashlib.sha256(written).hexdigest(), commit), "verdict": means, **more}
    return cast("dict[str, Any]", redact_value(_without_places(summary)))


def write_files(model: Path, summary: Mapping[str, Any]) -> None:
    """Writes the card, and its summary for programs, into the folder of a model."""
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    write_whole(model, SUMMARY_FILE, text)
    write_whole(model, CARD_FILE, model_card(summary))


def _summary(plan: dict[str, Any], record: dict[str, Any], digest: str, commit: str | None) -> dict[str, Any]:
    """Everything that the card says, as run.json beside the model holds it."""
    evaluation = record.get("evaluation") or {}
    others = {name: _moments(one, record) for name, one in evaluation.get(OTHERS, {}).items()}
    metrics = record.get("metrics") or {}
    metrics = {**metrics, "reward": reward_as_drawn(metrics)}
    base = {key: plan["model"].get(key) for key in ("source", "path", "revision", "sha256")}
    return {
        "summary": SUMMARY_FORMAT,
        "name": plan["name"],
        "description": plan["recipe"].get("description", ""),
        "plan_sha256": digest,
        "grpo_recipes": plan["grpo_recipes"],
        "stack": _installed(plan["stack"]),
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
    """The figures of a set before and after, and of the best step where that is what is handed over."""
    found = {moment: known[moment] for moment in ("before", "after", "best") if isinstance(known.get(moment), dict)}
    if found.get("best", {}).get("step") != record.get("final_step"):
        found.pop("best", None)
    return {moment: {key: one[key] for key in one if key != "seconds"} for moment, one in found.items()}


def _held_out_data(evaluation: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the held-out rows are; of several sets each by its name."""
    sets = () if evaluation is None else (evaluation, *evaluation.get(OTHERS, ()))
    named = {one.get("name", ""): _data(one["data"]) for one in sets}
    return named.get("", named or None)


def _of_environment(plan: dict[str, Any], record: dict[str, Any]) -> list[dict[str, Any]]:
    """Each environment as a reward, if its get_reward was one: TRL gives it the name of the class and the weight 1."""
    each = [plan.get("environment_class"), *(plan.get("environment_classes") or {}).values()]
    known = [one for one in each if one and f"rewards/{one['name']}/mean" in (record.get("metrics") or {})]
    return [{**one, "kind": "environment", "weight": 1.0, "kwargs": {}} for one in known]


def _ancestors(ancestor: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The runs that it came from, the nearest first."""
    runs = [] if ancestor is None else [ancestor, *ancestor.get("before", [])]
    return [{key: run.get(key) for key in ("use", "name", "step", "plan_sha256", "weights_sha256")} for run in runs]


def _installed(stack: dict[str, Any]) -> dict[str, str]:
    """Python and the packages that were installed, of those that a run can need."""
    named = {"python": stack.get("python"), **(stack.get("packages") or {})}
    return {name: version for name, version in named.items() if version}


def _data(data: dict[str, Any]) -> dict[str, Any]:
    keys = ("source", "path", "name", "split", "revision", "commit", "sha256", "rows", "max_rows", "made")
    choice = ("filter", "max_prompt_tokens", "shuffle_seed", "sort_by", "source_name", "weight")
    return {key: data[key] for key in (*keys, *choice) if data.get(key) is not None}


def _without_places(value: Any) -> Any:
    """The value with the name alone of every absolute path that is a text of its own, and no home folder in others."""
    if isinstance(value, dict):
        return {key: _without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    if not isinstance(value, str):
        return value
    if "\n" not in value and (os.path.isabs(value) or value.startswith("~")):
        return os.path.basename(value.rstrip("/")) or "/"
    homes = {one for one in (os.path.expanduser("~"), os.getcwd()) if len(one) > 1}
    for home in sorted(homes, key=len, reverse=True):
        value = re.sub(rf"{re.escape(home)}(?=/|\b|$)", "~", value)
    return value


def model_card(summary: Mapping[str, Any]) -> str:
    """The README.md of a summary: front matter of the hub, then what was trained, on what, and how to do it again."""
    import yaml  # huggingface_hub, which every training stack has, needs it itself

    def as_yaml(value: Any) -> str:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100))

    made_of = {"grpo-recipes": summary["grpo_recipes"]} | _known({key: summary.get(key) for key in _MADE_OF})
    parts = [f"# {plain(summary['name'])}", plain(summary["description"]), _trained(summary)]
    parts += ["## Results", _results(summary), "## Made of", fenced(as_yaml(made_of), "yaml"), "## Do it again"]
    parts += [_longer(summary)]
    parts += [
        "Write the recipe below to `recipe.yaml`, with the files that it names beside it, and run "
        f"`grpo-run recipe.yaml`. `{SUMMARY_FILE}` beside this card has the same figures for programs.",
        fenced(as_yaml(summary["recipe"]), "yaml"),
    ]
    return f"---\n{as_yaml(_front_matter(summary))}---\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def _longer(summary: Mapping[str, Any]) -> str:
    """What the recipe does otherwise than a run that was made longer, "" for any other run."""
    nearest = next(iter(summary["ancestors"]), None)
    if nearest is None or nearest["use"] != "extend":
        return ""
    return (
        f"This run made {inline(one_line(nearest['name']))} longer with `--extend`, from step {nearest['step']}. The "
        "recipe below trains its whole length at once, which is the same model only where the schedule does not look "
        "at the end."
    )


def _known(value: Any) -> Any:
    """The value without what is empty in it."""
    if isinstance(value, dict):
        return {key: _known(one) for key, one in value.items() if one not in (None, {}, [])}
    return [_known(one) for one in value] if isinstance(value, list) else value


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
    if hub := [one["path"] for one in data.get("sources", [data]) if one["source"] == "hub"]:
        head["datasets"] = hub
    return head


def _trained(summary: Mapping[str, Any]) -> str:
    what = "A LoRA adapter" if summary["adapter"] else "A model"
    steps = f", {summary['step']} optimizer steps" if summary["step"] is not None else ""
    world = summary["world"]
    where = f"{world['num_processes']} process{'' if world['num_processes'] == 1 else 'es'} on {world['device']}"
    text = f"{what} trained with GRPO{steps} ({where}, strategy {world['strategy']}) by grpo-run from the recipe below."
    return (
        f"{text} It is the model of step {summary['final_step']}, the best one held out." if _is_best(summary) else text
    )


def _results(summary: Mapping[str, Any]) -> str:
    parts = [f"{plain(text[:1].upper() + text[1:])}." for text in summary.get("verdict", ())]
    parts += _held_out(summary)
    if summary["last_step"]:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in summary["last_step"].items())
        parts.append(f"Last training step: {figures}.")
    return "\n\n".join(parts) or "Nothing was held out."


# Markdown that says what a recipe says, and steers nothing.


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table of Markdown: the head, then the rows; each cell is one line."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(inline(one_line(cell)) for cell in line) + " |" for line in lines)


def one_line(value: object) -> str:
    """A value on one line, without what steers a terminal."""
    text = "".join(one if one.isprintable() or one.isspace() else "\ufffd" for one in str(value))
    return " ".join(text.split())


def plain(value: object) -> str:
    """A text as a paragraph that is shown as it is written, with no tag, link, picture or heading of a recipe's own."""
    return re.sub(r"^([#>+=-])", r"\\\1", inline(one_line(value)))


def inline(text: str) -> str:
    """A text in which nothing is a tag, a link or emphasis."""
    return re.sub(r"([\\`*\[\]|~])", r"\\\1", text).replace("<", "&lt;")


def fenced(text: str, language: str) -> str:
    """The text between fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{fence}"


def _is_best(summary: Mapping[str, Any]) -> bool:
    """Whether a model is that of an earlier step than the last one of its run."""
    return summary.get("final_step") not in (None, summary["step"])


def _held_out(summary: Mapping[str, Any]) -> list[str]:
    """For each set the table of its figures with their intervals, and how these were made."""
    return [part for name, known in of_each_set(summary["evaluation"]) for part in _table_of_set(summary, name, known)]


def _table_of_set(summary: Mapping[str, Any], name: str, evaluation: Mapping[str, Any]) -> list[str]:
    heads = {"before": "before training", "after": "after training", "best": f"step {summary.get('final_step')}"}
    moments = [moment for moment in heads if moment in evaluation and (moment != "best" or _is_best(summary))]
    if not moments:
        return []
    first, last = evaluation[moments[0]], evaluation[moments[-1]]
    columns = {heads[moment]: _texts(evaluation[moment], ".4f") for moment in moments}
    if (changed := last.get("change")) is not None:
        columns[f"change, {heads[moments[-1]]}"] = _texts(changed, "+.4f")
    names = dict.fromkeys(name for texts in columns.values() for name in texts)
    rows = [(name, *(texts.get(name, "none") for texts in columns.values())) for name in names]
    how = "most likely tokens" if first.get("greedy") else "sampled"
    many = f", {first['samples']} completions each" if first.get("samples") else ""
    of_set = f" of {inline(one_line(name))}" if name else ""
    parts = [f"Mean rewards on {first.get('count')} held-out rows{of_set}{many}, {how}:", table(("", *columns), rows)]
    made = last.get("intervals")
    if made is not None:
        parts.append(
            f"In brackets the {made['level']:.0%} interval: {made['method']}, {made['resamples']} draws of seed "
            f"{made['seed']}. It is about other rows of this kind, not about another training."
        )
    if "passes" in last:
        passes = last["passes"]
        parts.append(
            f"A completion passes where {inline(one_line(passes['reward']))} is {passes['at_least']:g} or more."
        )
    if "best" in moments and evaluation is summary["evaluation"]:
        parts.append("The step was chosen by these same rows, so its figures are a little better than on others.")
    return parts


def _texts(event: Mapping[str, Any], shape: str) -> dict[str, str]:
    """The figures of an evaluation with their intervals, by name; those without a number are "none"."""
    known = {name: figure(value, ends, shape) for name, value, ends in figures_of(event)}
    return {name: known.get(name, "none") for name in ("reward", *(event.get("rewards") or {}), *known)}

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
from grpo_recipes.contract.secrets.redact import redact_value

CARD_FILE = "README.md"
SUMMARY_FILE = "run.json"
SUMMARY_FORMAT = 1
_FIGURES = ("reward", "reward_std", "kl", "entropy", "completions/mean_length", "completions/clipped_ratio")


def hand_over(folder: Path, model: Path, commit: str | None) -> None:
    """Writes both files into `model`, the folder with the trained model or adapter; another card there is replaced.

    folder: the run folder. commit: at which the hub's model was loaded, None for a folder. The trainer's pickled
    arguments, which tell paths and the name of this machine, are taken out. A fault is said and costs nobody the model.
    """
    remove(model, "training_args.bin")
    try:
        _write(folder, model, commit)
    except Exception as problem:
        print(f"no model card: {type(problem).__name__}: {problem}", flush=True)


def _write(folder: Path, model: Path, commit: str | None) -> None:
    written = read_bytes(folder, "plan.json")
    plan = cast("dict[str, Any]", parsed(written))
    record = cast("dict[str, Any]", read_json(folder, "run.json"))
    summary = _without_places(_summary(plan, record, hashlib.sha256(written).hexdigest(), commit))
    summary = cast("dict[str, Any]", redact_value(summary))
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    write_whole(model, SUMMARY_FILE, text)
    write_whole(model, CARD_FILE, model_card(summary))


def _summary(plan: dict[str, Any], record: dict[str, Any], digest: str, commit: str | None) -> dict[str, Any]:
    """Everything that the card says, as run.json beside the model holds it."""
    evaluation = record.get("evaluation") or {}
    held_out = {
        moment: {key: value for key, value in evaluation[moment].items() if key != "seconds"}
        for moment in ("before", "after")
        if isinstance(evaluation.get(moment), dict)
    }
    figures = {key: record["metrics"][key] for key in _FIGURES if (record.get("metrics") or {}).get(key) is not None}
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
        "adapter": None if plan["arguments"]["LoraConfig"] is None else "lora",
        "chat_template_sha256": plan["tokenizer"].get("chat_template_sha256"),
        "data": _data(plan["data"]),
        "evaluation_data": None if plan["evaluation"] is None else _data(plan["evaluation"]["data"]),
        "rewards": [
            {key: reward.get(key) for key in ("kind", "name", "target", "weight", "kwargs", "sha256", "imports")}
            for reward in plan["rewards"]
        ],
        "step": record.get("step"),
        "train_wall_s": record.get("train_wall_s"),
        "last_step": figures,
        "evaluation": held_out,
        "verified": record.get("verified") or {},
        "recipe": plan["recipe"],
    }


def _installed(stack: dict[str, Any]) -> dict[str, str]:
    """Python and the packages that were installed, of those that a run can need."""
    named = {"python": stack.get("python"), **(stack.get("packages") or {})}
    return {name: version for name, version in named.items() if version}


def _data(data: dict[str, Any]) -> dict[str, Any]:
    keys = ("source", "path", "name", "split", "revision", "commit", "sha256", "rows", "max_rows")
    return {key: data[key] for key in keys if data.get(key) is not None}


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

    head = yaml.safe_dump(_front_matter(summary), sort_keys=False, allow_unicode=True)
    recipe = yaml.safe_dump(summary["recipe"], sort_keys=False, allow_unicode=True, width=100)
    parts = [f"# {_plain(summary['name'])}", _plain(summary["description"]), _trained(summary)]
    parts += ["## Base model and data", _facts(summary), "## Rewards", _rewards(summary["rewards"])]
    parts += ["## Results", _results(summary), "## Versions", _versions(summary)]
    parts += ["## Do it again", _again(summary), _fenced(recipe, "yaml")]
    return f"---\n{head}---\n\n" + "\n\n".join(part for part in parts if part) + "\n"


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
    if data["source"] == "hub":
        head["datasets"] = [data["path"]]
    return head


def _trained(summary: Mapping[str, Any]) -> str:
    what = "A LoRA adapter" if summary["adapter"] else "A model"
    steps = f", {summary['step']} optimizer steps" if summary["step"] is not None else ""
    world = summary["world"]
    where = f"{world['num_processes']} process{'' if world['num_processes'] == 1 else 'es'} on {world['device']}"
    return f"{what} trained with GRPO{steps} ({where}, strategy {world['strategy']}) by grpo-run from the recipe below."


def _facts(summary: Mapping[str, Any]) -> str:
    lines = [f"- base model: {_source(summary['base_model'])}", f"- data: {_source(summary['data'])}"]
    if summary["evaluation_data"] is not None:
        lines.append(f"- held-out data: {_source(summary['evaluation_data'])}")
    return "\n".join(lines)


def _source(what: Mapping[str, Any]) -> str:
    """A model or data set by its name, with what tells which one it was."""
    kind = "" if what["source"] == "hub" else f" (a local {what['source']})"
    exact = [f"{key} {_code(what[key])}" for key in ("name", "split", "revision", "commit", "sha256") if what.get(key)]
    exact += [f"{what['rows']:,} rows"] if what.get("rows") is not None else []
    exact += [f"the first {what['max_rows']:,} of them"] if what.get("max_rows") is not None else []
    return ", ".join([f"{_code(what['path'])}{kind}", *exact])


def _rewards(rewards: list[dict[str, Any]]) -> str:
    rows = [
        (reward["name"], format(reward["weight"], "g"), reward["kind"], _code(reward["target"]), reward["sha256"] or "")
        for reward in rewards
    ]
    return _table(("reward", "weight", "kind", "function or model", "sha256"), rows)


def _results(summary: Mapping[str, Any]) -> str:
    evaluation = summary["evaluation"]
    moments = [moment for moment in ("before", "after") if moment in evaluation]
    parts = []
    if moments:
        first = evaluation[moments[0]]
        names = ["reward", *(first.get("rewards") or {})]
        rows = [(name, *(_figure(evaluation[moment], name) for moment in moments)) for name in names]
        how = "most likely tokens" if first.get("greedy") else "sampled"
        parts.append(f"Mean rewards on {first.get('count')} held-out rows, {how}:")
        parts.append(_table(("", *(f"{moment} training" for moment in moments)), rows))
    if summary["last_step"]:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in summary["last_step"].items())
        parts.append(f"Last training step: {figures}.")
    return "\n\n".join(parts) or "Nothing was held out."


def _figure(moment: Mapping[str, Any], name: str) -> str:
    value = moment.get("reward") if name == "reward" else (moment.get("rewards") or {}).get(name)
    return "none" if value is None else format(value, ".4f")


def _versions(summary: Mapping[str, Any]) -> str:
    return _table(("package", "version"), [("grpo-recipes", summary["grpo_recipes"]), *summary["stack"].items()])


def _again(summary: Mapping[str, Any]) -> str:
    return (
        "Write the recipe below to `recipe.yaml`, with the files that it names beside it, and run\n\n"
        "```bash\ngrpo-run recipe.yaml\n```\n\n"
        f"The sha256 of the plan of this run (`plan.json`) is {_code(summary['plan_sha256'])}; `{SUMMARY_FILE}` beside "
        "this card has the same figures for programs."
    )


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _code(value: object) -> str:
    return f"`{_one_line(value).replace('`', '')}`"


def _one_line(value: object) -> str:
    return " ".join(_without_steering(str(value)).split())


def _cell(value: object) -> str:
    """A value in a table: code as it is, anything else as plain text."""
    text = _one_line(value)
    return text.replace("|", "\\|") if text.startswith("`") and text.endswith("`") else _inline(text)


def _plain(value: object) -> str:
    """A text as a paragraph that is shown as it is written, with no tag, link, picture or heading of a recipe's own."""
    return re.sub(r"^([#>+=-])", r"\\\1", _inline(_one_line(value)))


def _inline(text: str) -> str:
    return re.sub(r"([\\`*\[\]|~])", r"\\\1", text).replace("<", "&lt;")


def _without_steering(text: str) -> str:
    """Without the characters that turn the direction of writing or steer a terminal."""
    return "".join(one if one.isprintable() or one.isspace() else "\ufffd" for one in text)


def _fenced(text: str, language: str) -> str:
    """The text between fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{fence}"

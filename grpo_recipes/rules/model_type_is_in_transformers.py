"""The planned transformers has a class for the model's type.

AutoConfig looks up the `model_type` of config.json, and raises ValueError if the release has no class for it:
transformers 4.48 does not have qwen3. By then the libraries are imported and the job has waited in its queue. The
same holds for a reward model. A model with its own code (`auto_map`) is judged by MDL005.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Mark
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.released.model_types import releases_read, releases_with_type, types_of_all_releases
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, has_own_code, model_config
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.model_config import read_model_config

ID = "MDL011"


def check(context: Context) -> Iterator[Finding]:
    yield from _of_model(context, context.text(MODEL), model_config(context), MODEL, context.mark(MODEL))
    for index, reward in enumerate(context.items("rewards")):
        if isinstance(model := reward.get("model"), str):
            path = ("rewards", index, "model")
            config = read_model_config(local_path(model, context.source.directory(path)) or model)
            yield from _of_model(context, model, config, "rewards", context.source.mark(path))


def _of_model(
    context: Context, model: str, config: Mapping[str, object] | None, key: str, mark: Mark | None
) -> Iterator[Finding]:
    if config is None or has_own_code(config) or "model_type" not in config:
        return
    kind = str(config["model_type"])
    version, has_type = context.stack.version("transformers"), context.facts.has_model_type(kind)
    if has_type or version is None:
        return
    if has_type is None:
        why = f"grpo-run does not know the types of transformers {version}"
        yield context.not_checked(f"not checked: whether transformers has the model type {kind}", key, why)
        return
    releases, read = releases_with_type(kind), releases_read()
    if not releases:
        similar = nearest_words(kind, types_of_all_releases(), cutoff=0.6)
        history, fix = f"no release up to {read[-1]} has it", "another model, or the right model_type in config.json"
        fix += f"; {similar[0]} is similar" if similar else ""
    elif releases[-1] == read[-1]:
        history, fix = f"transformers {releases[0]} is the first release with it", f"transformers>={releases[0]}"
    else:
        history, fix = f"transformers {releases[-1]} is the last release with it", f"transformers<={releases[-1]}"
    because = [f"config.json of {model} names it, and AutoConfig raises ValueError", history]
    yield context.finding(f"transformers {version} has no model type {kind}", key, because, fix=fix, mark=mark)

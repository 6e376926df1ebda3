"""Between recipe and rename: what a recipe that starts from a run has of that run, where it says nothing itself."""

from collections.abc import Iterator

from grpo_recipes.facts.facts import Facts
from grpo_recipes.settings import Setting, Settings
from grpo_recipes.user_files.ancestor import KEY, StartingPoint, ancestor_of, continues, why_no_model
from grpo_recipes.yaml.compose import Source

_MODEL = "model.model_name_or_path"
_MODEL_PATH = ("model", "model_name_or_path")


def from_the_newest(source: Source) -> Source:
    """The recipe without the model of a parent where a file nearer to it names a run to start from."""
    run, model = source.marks.get(KEY), source.marks.get(_MODEL_PATH)
    if run is None or model is None or _distance(source, run.file) >= _distance(source, model.file):
        return source
    section = source.values["model"]
    named = section["from_run"]  # type: ignore[index]
    if not (isinstance(named, str) and named):
        return source  # null names none, and another value is refused for itself
    kept = {key: value for key, value in section.items() if key != _MODEL_PATH[1]}  # type: ignore[attr-defined]
    marks = {path: mark for path, mark in source.marks.items() if path != _MODEL_PATH}
    return source._replace(values={**source.values, "model": kept}, marks=marks)


def _distance(source: Source, file: str) -> int:
    """How many files stand between the recipe and one of them; what is no file is nearest."""
    return source.files.index(file) if file in source.files else -1


def staged(settings: Settings, source: Source, facts: Facts) -> Settings:
    """The settings with those of the run that model.from_run names; unchanged for a recipe that names a model alone.

    Where the run cannot be read, or names no model, the model is refused: a rule says why, and no other judges it.
    """
    named = settings.get(".".join(KEY))
    if named is None or named.value is None or named.refused:
        return settings
    found = ancestor_of(source)
    if not isinstance(found, StartingPoint) or (not settings[_MODEL].given and why_no_model(found) is not None):
        return settings.having([settings[_MODEL]._replace(value="-", refused=True)])
    return settings.having(_inherited(settings, source, found, facts))


def _inherited(settings: Settings, source: Source, found: StartingPoint, facts: Facts) -> Iterator[Setting]:
    if found.base is not None and not settings[_MODEL].given:
        path, revision = found.base
        yield _of(settings, _MODEL, path, found)
        if revision is not None and not settings["model.model_revision"].given:
            yield _of(settings, "model.model_revision", revision, found)
    template = "tokenizer.chat_template_path"
    if found.chat_template is not None and not settings[template].given:
        yield _of(settings, template, found.chat_template, found)
    tokens, known = settings["tokenizer.add_tokens"], found.added_tokens
    if isinstance(tokens.value, list) and set(tokens.value) & known:
        yield _of(settings, tokens.key, [token for token in tokens.value if token not in known], found)
    if continues(source):
        for name, value in found.shape(facts).items():
            key = f"lora.{name}"
            if key not in settings or not settings[key].given:
                yield _of(settings, key, value, found)


def _of(settings: Settings, key: str, value: object, found: StartingPoint) -> Setting:
    before = settings.get(key)
    path = before.path if before is not None else tuple(key.split("."))
    return Setting(key, value, f"run {found.name}", path=path)

"""`explain`: the page of a rule or a proof, and the page of a key."""

import ast
from pathlib import Path

from grpo_recipes.facts.classified import classified_fields, fields_by_home
from grpo_recipes.facts.facts import Facts
from grpo_recipes.nearest import nearest_words
from grpo_recipes.resolve import field_values, not_expressed, placement, rename, schema_findings, stack_findings
from grpo_recipes.rules.registry import rules
from grpo_recipes.schemas.export import field_docs
from grpo_recipes.schemas.keys import keys_named, recipe_keys, sections
from grpo_recipes.stack import ids as stack_ids
from grpo_recipes.yaml import ids as yaml_ids

OTHER_IDS = {
    schema_findings.MISSING_KEY: "A key that has no default is missing.",
    schema_findings.WRONG_TYPE: "A value has another type than its key; nothing is converted in silence.",
    schema_findings.OUT_OF_RANGE: "A value lies outside the range in which it means something.",
    schema_findings.NOT_ONE_OF: "A value is none of the format's words for its key.",
    placement.UNKNOWN_KEY: "A key is not part of the format, nor a field of the class that its section passes on.",
    placement.REMOVED_KEY: "A field once existed and was removed by a release.",
    placement.OWNED_KEY: "A GRPOConfig field stands under `trl` though it has a place of its own, or grpo-run sets it.",
    not_expressed.NOT_EXPRESSED: "The target cannot express a value: it lacks the field or reads it in another way, and"
    " does something else by itself. What an older release does without a field is known for every release.",
    field_values.NOT_ALLOWED: "A value is not among those that the target's own source knows. Many of these pass"
    " GRPOConfig and fail after the model was loaded.",
    field_values.WRONG_FIELD_TYPE: "A value has another type than the target's class declares for its field.",
    field_values.AMBIGUOUS_WORD: "yes, no, on and off are booleans in YAML 1.1 and words in YAML 1.2.",
    field_values.NO_EFFECT: "A value was written that changes nothing, given the others, e.g. vllm_mode without vLLM.",
    stack_findings.NO_FACTS: "Nothing is known about a release, so nothing could be checked against it.",
}


def known_ids() -> dict[str, str]:
    """Every finding id with its page."""
    pages = {rule.id: rule.page for rule in rules()}
    return {**OTHER_IDS, **yaml_ids.MEANINGS, **stack_ids.MEANINGS, **pages, **proof_pages()}


def proof_pages() -> dict[str, str]:
    """The pages of the first-step proofs by id, read from the worker's files, which only a run may import."""
    pages = {}
    for file in sorted((Path(__file__).parents[1] / "worker" / "proofs").glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["ID"]:
                pages[str(ast.literal_eval(node.value))] = ast.get_docstring(tree) or ""
    return pages


def explain(word: str, facts: Facts) -> str | None:
    """The page of a rule id or a key, None when there is no such thing."""
    page = known_ids().get(word.upper())
    if page is not None:
        return f"{word.upper()}\n\n{page}"
    key = word if word in recipe_keys() else next(iter(keys_named(word)), None)
    if key is not None:
        return _key_page(key, facts)
    return _field_page(word.removeprefix("trl."), facts)


def nearest(word: str) -> str | None:
    """The nearest id or key to a word that is neither."""
    names = [*known_ids(), *recipe_keys(), *classified_fields()]
    return next(iter(nearest_words(word, names, cutoff=0.5)), None)


def _key_page(key: str, facts: Facts) -> str:
    section, _, name = key.rpartition(".")
    model = sections()[section]
    field = model.model_fields[name]
    lines = [key, "", field_docs(model).get(name) or (sections().get(name, model).__doc__ or "")]
    if field.is_required():
        lines.append("default: none, it must be said")
    elif name not in sections():
        lines.append(f"default: {field.get_default(call_default_factory=True)!r} (format 1)")
    classified = fields_by_home().get(key)
    if classified is not None:
        lines += [f"kind: {classified.kind}", *_target_lines(classified.name, facts)]
    lines += _owners(key)
    return "\n".join(lines)


def _target_lines(name: str, facts: Facts) -> list[str]:
    field = (facts.fields("GRPOConfig") or {}).get(name)
    if field is None:
        return [f"passed as: GRPOConfig.{name}"]
    lines = [f"passed as: GRPOConfig.{name}: {field.annotation}, default there {field.default!r}"]
    if field.allowed is not None:
        lines.append(f"values: {', '.join(map(str, field.allowed))} ({facts.source('GRPOConfig')})")
    return lines


def _owners(key: str) -> list[str]:
    target = rename.target_key(key) or key
    return [f"decided by: {rule.id}, {rule.title}" for rule in rules() if target in rule.owns]


def _field_page(name: str, facts: Facts) -> str | None:
    field = classified_fields().get(name)
    if field is None:
        return None
    lines = [f"trl.{name}", ""]
    if field.owner:
        lines.append(f"not written in a recipe: {field.owner}")
    elif field.has_value:
        lines.append(f"default: {field.value!r} (format 1)")
    lines.append(f"kind: {field.kind}")
    if field.when:
        lines.append("matters when: " + " and ".join(f"{n} {o} {v}" for n, o, v in field.when))
    return "\n".join([*lines, *_target_lines(name, facts)])

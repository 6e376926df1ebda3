"""Writes grpo_recipes/explain/examples.json from the cases of the rules: `make docs`."""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("", "rules", "evidence")]

from rule_cases import BASE_RECIPE, CASES, Case, cases_of, laid_over, stack_of  # noqa: E402
from stricter import PROVEN_IN, STRICTER  # noqa: E402

from grpo_recipes.contract.findings.finding import Finding  # noqa: E402
from grpo_recipes.contract.findings.findings_text import finding_text  # noqa: E402
from grpo_recipes.explain.pages import (  # noqa: E402
    EXAMPLES,
    Example,
    known_ids,
)
from grpo_recipes.resolve.resolve import Resolution, resolve  # noqa: E402
from grpo_recipes.rules.catalog import Rule, rules  # noqa: E402
from grpo_recipes.yaml.compose import with_patches  # noqa: E402

OTHERS = Path(__file__).with_name("examples.yaml")
NAME = "recipe.yaml"


def made_examples() -> dict[str, Example]:
    """An example of every id for which there is a case, by id."""
    others: dict[str, dict[str, Any]] = yaml.safe_load(OTHERS.read_text(encoding="utf-8"))
    found = {}
    for rule in rules():
        found[rule.id] = _of_rule(rule)
    for rule_id, written in others.items():
        text = written.pop("text", None)
        shown = _of_text(rule_id, text) if text is not None else _of_case(Case(rule=rule_id, id="", **written))
        assert shown.said, f"nothing says {rule_id}"
        found[rule_id] = dataclasses.replace(shown, proved_by=_proof(rule_id, ""))
    return dict(sorted(found.items()))


def _of_rule(rule: Rule) -> Example:
    cases = cases_of(rule.id, CASES / f"{rule.name}.yaml")
    finding = [case for case in cases if case.finds and not case.also]
    # What could not be checked shows little of a rule.
    shown = min(finding, key=lambda case: case.finds[0].startswith("not-checked"), default=None)
    shown = shown or next((case for case in cases if any(value is not None for value in case.settings.values())), None)
    example = Example() if shown is None else _of_case(shown)
    return dataclasses.replace(example, proved_by=_proof(rule.id, rule.name))


def _proof(rule_id: str, name: str) -> str:
    own = Path("tests") / "evidence" / f"test_{name}.py"
    if name and (ROOT / own).exists():
        return str(own)
    return PROVEN_IN.get(rule_id) or (
        f"stricter than the libraries: {STRICTER[rule_id]}" if rule_id in STRICTER else ""
    )


def findings_of(case: Case) -> tuple[Finding, ...]:
    """What is said of the case's recipe."""
    return _resolved(_keys(laid_over(BASE_RECIPE, case.recipe)), case).findings


def _of_case(case: Case) -> Example:
    values = laid_over(BASE_RECIPE, case.recipe)
    resolution = _resolved(_keys(values), case)
    finding = next((finding for finding in resolution.findings if finding.rule == case.rule), None)
    recipe = _keys({key: values.get(key) for key in case.recipe})
    stack = ", ".join(f"{name} {'not known' if version is None else version}" for name, version in case.stack.items())
    if finding is None:
        return Example(recipe, stack, _plan_line(resolution, case))
    fixed = with_patches(values, finding.patch) if finding.patch else {}
    touched = {str(patch.path[0]): fixed.get(str(patch.path[0])) for patch in finding.patch}
    return Example(recipe, stack, finding_text(finding, NAME), _keys(touched))


def _of_text(rule_id: str, text: str) -> Example:
    whole = text.replace("BASE\n", _keys(BASE_RECIPE))
    found = _resolved(whole, Case(rule=rule_id, id="")).findings
    finding = next(finding for finding in found if finding.rule == rule_id)
    return Example(text.replace("BASE\n", ""), "", finding_text(finding, NAME))


def _plan_line(resolution: Resolution, case: Case) -> str:
    assert resolution.context is not None, f"nothing is said of {case.rule}"
    assert any(case.settings.values()), f"{case.rule} is not among {[finding.rule for finding in resolution.findings]}"
    key = next(key for key, value in case.settings.items() if value is not None)
    setting = resolution.context.settings[key]
    return f"{key}  {json.dumps(setting.value)}  {setting.origin}  ({setting.why})"


def _keys(values: dict[str, Any]) -> str:
    """The keys as YAML, "" for none; one that is absent is a remark."""
    given = {key: value for key, value in values.items() if value is not None}
    text = (
        yaml.safe_dump(given, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True) if given else ""
    )
    return text + "".join(f"# no {key}\n" for key, value in values.items() if value is None)


def _resolved(recipe: str, case: Case) -> Resolution:
    """What is said of the recipe, with names of files as they are in its own folder."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in case.files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_text(text, encoding="utf-8")
        path = Path(folder) / NAME
        path.write_text(recipe, encoding="utf-8")
        resolution = resolve(str(path), stack_of(case))
        return resolution._replace(findings=tuple(_named(finding, folder) for finding in resolution.findings))


def _named(finding: Finding, folder: str) -> Finding:
    def short(text: str) -> str:
        return text.replace(f"{folder}/", "").replace(folder, ".")

    mark = finding.mark and finding.mark._replace(file=short(finding.mark.file))
    because = tuple(short(reason) for reason in finding.because)
    fix = finding.fix and short(finding.fix)
    return finding._replace(message=short(finding.message), mark=mark, because=because, fix=fix)


def texts() -> dict[Path, str]:
    """What the files should hold."""
    made = made_examples()
    unknown = set(made) - set(known_ids())
    assert not unknown, f"examples of ids that are none: {unknown}"
    rows = {
        rule_id: {key: value for key, value in dataclasses.asdict(example).items() if value}
        for rule_id, example in made.items()
    }
    return {EXAMPLES: json.dumps(rows, indent=1, ensure_ascii=False) + "\n"}


if __name__ == "__main__":
    for place, text in texts().items():
        place.write_text(text, encoding="utf-8")

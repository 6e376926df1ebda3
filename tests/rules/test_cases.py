"""Every rule speaks where it should, is silent where it should, and its fix is one."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
import yaml
from _pytest.mark import ParameterSet
from rule_cases import BASE_RECIPE, Case, all_cases, label, laid_over, resolved, stack_of

from grpo_recipes.contract.findings.finding import Finding, value_at
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.yaml.compose import with_patches

CASES = all_cases()
# Their patterns are asked in a process that can be ended.
ASKING_PATTERNS = ("GEN003", "GEN007", "LRA003", "LRA004", "LRA005", "LRA006", "LRA010", "LRA014", "SHM028")
SCHEMA = Path(__file__).parents[2] / "schemas/recipe.schema.json"
EDITOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def _resolved(case: Case, folder: Path, values: dict[str, object] | None = None) -> Resolution:
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return resolved(values or laid_over(BASE_RECIPE, case.recipe), stack_of(case), folder)


def _mine(case: Case, resolution: Resolution) -> list[Finding]:
    return [finding for finding in resolution.findings if finding.rule == case.rule]


def _other_errors(case: Case, resolution: Resolution) -> list[str]:
    return sorted({f.rule for f in resolution.findings if f.severity == "error" and f.rule != case.rule})


def _param(case: Case) -> ParameterSet:
    marks = [pytest.mark.processes] if case.rule in ASKING_PATTERNS else []
    if case.needs and find_spec(case.needs) is None:
        marks.append(pytest.mark.skip(reason=f"{case.needs} is not installed"))
    return pytest.param(case, id=f"{case.rule} {case.id}", marks=marks)


@pytest.fixture(scope="session")
def as_written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Resolution]:
    """What the resolver says of a case, asked once for both tests."""
    found: dict[tuple[str, str], Resolution] = {}

    def resolution(case: Case) -> Resolution:
        name = case.rule, case.id
        if name not in found:
            found[name] = _resolved(case, tmp_path_factory.mktemp(f"case-{len(found)}", numbered=False))
        return found[name]

    return resolution


@pytest.mark.parametrize("case", [_param(case) for case in CASES])
def test_a_rule_finds_what_its_case_says(case: Case, as_written: Callable[[Case], Resolution]) -> None:
    resolution = as_written(case)
    mine = _mine(case, resolution)
    assert [label(finding) for finding in mine] == list(case.finds), resolution.findings
    assert [finding.message for finding in mine if not finding.because] == [], "a finding without a reason"
    assert _other_errors(case, resolution) == sorted(case.also)
    told = "\n".join("\n".join([f.message, *f.because, f.fix or ""]) for f in mine)
    assert [text for text in case.says if text not in told] == []
    assert resolution.context is not None
    settings = resolution.context.settings
    assert {key: settings[key].value if key in settings else None for key in case.settings} == case.settings
    if not resolution.refused:
        assert plan_of(resolution).settings
        marked = [error.message for error in EDITOR.iter_errors(laid_over(BASE_RECIPE, case.recipe))]
        assert marked == [], "an editor marks what validate takes"


@pytest.mark.parametrize("case", [_param(case) for case in CASES if case.finds])
def test_the_fix_of_a_finding_silences_its_rule(
    case: Case, as_written: Callable[[Case], Resolution], tmp_path: Path
) -> None:
    before = as_written(case)
    mine = _mine(case, before)
    assert all(finding.mark is not None for finding in mine if finding.severity != "not-checked")
    without = [finding for finding in mine if not finding.patch and finding.severity != "not-checked"]
    assert bool(without) == bool(case.no_patch), [finding.message for finding in without]
    patches = [patch for finding in mine for patch in finding.patch]
    if not patches:
        return
    written = laid_over(BASE_RECIPE, case.recipe)
    _names_every_value_that_it_drops(mine, written)
    values = with_patches(written, patches)
    after = _resolved(case, tmp_path, values)
    assert _mine(case, after) == without or not without, yaml.safe_dump(values)
    assert [rule for rule in _other_errors(case, after) if rule not in case.also] == []
    known = {finding.rule for finding in before.findings}
    for other in [finding for finding in after.findings if finding.patch and finding.rule not in known]:
        back = _mine(case, _resolved(case, tmp_path, with_patches(values, other.patch)))
        assert not back or without, f"the fix of {other.rule} brings it back: {other.fix}"


def _names_every_value_that_it_drops(mine: list[Finding], values: dict[str, object]) -> None:
    """A value that goes is written elsewhere by the same fix, or the fix says that it is removed."""
    for finding in mine:
        new = [patch.value for patch in finding.patch if not patch.remove]
        for patch in finding.patch:
            value = value_at(values, patch.path)
            is_moved = any(one in (value, [value]) or str(value) in str(one) for one in new)
            if patch.remove and value is not None and not is_moved:
                named = f"{patch.path[-1]}: null" in str(finding.fix) or "remove" in str(finding.fix)
                assert named, f"{finding.message}: {finding.fix}"

"""Deciding rules run behind the rules whose settings they read, and read what they say that they read."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from rule_cases import BASE_RECIPE, all_cases, declared, laid_over, stack_of

from grpo_recipes.facts.facts import facts_for
from grpo_recipes.resolve import engine
from grpo_recipes.resolve.recipe_phase import check_recipe, recipe_settings
from grpo_recipes.resolve.rename import rename
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting, Settings
from grpo_recipes.rules.catalog import Rule, deciding_rules, in_order
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import compose

OWNERS = {key: rule.id for rule in deciding_rules() for key in rule.owns}


class Watched(Settings):
    """Settings that note which of their keys are looked at, but for those that were put there meanwhile."""

    __slots__ = ("own", "seen")

    def __init__(self, settings: Iterable[Setting], seen: set[str], own: frozenset[str] = frozenset()) -> None:
        super().__init__(settings)
        self.seen, self.own = seen, own

    # Those of Mapping ask the methods below.
    get = Mapping.get  # type: ignore[assignment]
    items = Mapping.items
    values = Mapping.values

    def __getitem__(self, key: str) -> Setting:
        self._look_at(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._look_at(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            self._look_at(key)
            yield key

    def having(self, settings: Iterable[Setting]) -> "Watched":
        put = list(settings)
        return Watched([*self._by_key.values(), *put], self.seen, self.own | {setting.key for setting in put})

    def without(self, keys: Iterable[str]) -> "Watched":
        dropped = set(keys)
        kept = (setting for setting in self._by_key.values() if setting.key not in dropped)
        return Watched(kept, self.seen, self.own | dropped)

    def under(self, owner: str) -> dict[str, object]:
        for key in OWNERS:
            if key.startswith(f"{owner}."):
                self._look_at(key)
        return super().under(owner)

    def _look_at(self, key: str) -> None:
        if key not in self.own:
            self.seen.add(key)


def _watched(rule: Rule, seen: set[str]) -> Rule:
    """The rule, with a note of every setting that its decision looks at."""

    def decide(context: Context) -> Iterator[Setting]:
        assert rule.decide is not None
        yield from rule.decide(context._replace(settings=Watched(context.settings.values(), seen)))

    return rule._replace(decide=decide)


def _before_decisions(values: dict[str, object], stack: Stack, folder: Path) -> Context | None:
    """What the rules begin with for a recipe, None for one that cannot be read so far."""
    path = folder / "case.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")
    source, _ = compose(str(path))
    facts = facts_for(stack)
    checked = None if source is None else check_recipe(source, facts)
    if source is None or checked is None or checked.recipe is None:
        return None
    settings, _ = rename(recipe_settings(checked.recipe, source, checked.refused), facts, source)
    return Context(settings, stack, facts, source, checked.refused)


@pytest.mark.slow
@pytest.mark.parametrize(
    "of_all_rules", [False, pytest.param(True, marks=pytest.mark.long)], ids=["cases of decisions", "all cases"]
)
def test_a_rule_reads_the_settings_that_it_says(
    of_all_rules: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: defaultdict[str, set[str]] = defaultdict(set)
    watched = tuple(_watched(rule, seen[rule.id]) for rule in deciding_rules())
    monkeypatch.setattr(engine, "deciding_rules", lambda: watched)
    for case in all_cases():
        if not of_all_rules and case.rule not in OWNERS.values() and not case.settings:
            continue
        for name, text in case.files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        context = _before_decisions(laid_over(BASE_RECIPE, case.recipe), stack_of(case), tmp_path)
        if context is not None:
            engine.decide(context)
    read = {rule: {key for key in keys & OWNERS.keys() if OWNERS[key] != rule} for rule, keys in seen.items()}
    assert read == {rule.id: set(rule.reads) for rule in deciding_rules()}


def test_a_rule_that_decides_what_another_owns_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(context: Context) -> Iterator[Setting]:
        yield rule_setting("world.gpus", 3, "no reason")

    context = _before_decisions(BASE_RECIPE, declared(), tmp_path)
    assert context is not None
    monkeypatch.setattr(
        engine, "deciding_rules", lambda: (_rule("XXX001", owns=("world.device",))._replace(decide=decide),)
    )
    with pytest.raises(AssertionError, match=r"XXX001 sets world\.gpus, which it does not own"):
        engine.decide(context)


def _rule(rule: str, owns: tuple[str, ...], reads: tuple[str, ...] = ()) -> Rule:
    return Rule(rule, rule.lower(), "A title.", "A page.", {}, owns, reads, lambda context: iter(()), None)


def test_a_rule_follows_the_owners_of_what_it_reads() -> None:
    rules = [
        _rule("AAA001", ("a",), reads=("c", "b")),
        _rule("BBB001", ("b",)),
        _rule("CCC001", ("c",), reads=("d",)),
        _rule("DDD001", ("d",)),
    ]
    order = ["DDD001", "CCC001", "BBB001", "AAA001"]
    assert [rule.id for rule in in_order(rules)] == order
    assert [rule.id for rule in in_order(reversed(rules))] == order


def test_rules_that_wait_for_each_other_are_named_with_the_settings_between_them() -> None:
    first = _rule("AAA001", ("a",), reads=("b",))
    circle = [_rule("BBB001", ("b",), reads=("c",)), _rule("CCC001", ("c",), reads=("b",))]
    said = "rules wait for each other: BBB001 reads c of CCC001 reads b of BBB001"
    with pytest.raises(ValueError, match=said):
        in_order([first, *circle])


def test_a_setting_of_two_rules_is_an_error() -> None:
    with pytest.raises(ValueError, match="AAA001 and BBB001 both own b"):
        in_order([_rule("BBB001", ("b", "c")), _rule("AAA001", ("a", "b"))])


def test_a_setting_that_is_read_and_that_no_rule_decides_is_an_error() -> None:
    with pytest.raises(ValueError, match="AAA001 reads b, which no rule decides"):
        in_order([_rule("AAA001", ("a",), reads=("b",))])

"""Every GRPOConfig field is classified once, and the format's values are TRL's newest but for a listed few."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from small_recipe import resolved
from support.releases import TESTED

from grpo_recipes.facts.classified import classified_fields, fields_by_home, matters
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import releases_with_facts, shipped_facts, table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.facts.source.field import Field, NoDefault
from grpo_recipes.resolve.field_values import NOT_GIVEN
from grpo_recipes.resolve.inexpressible import OTHER_VALUES
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.section import fields_by_key

# Recipe keys whose default differs from TRL's own, with the reason.
OTHER_DEFAULTS = {
    "training.per_device_train_batch_size": "auto: derived from prompts_per_step",
    "training.max_steps": "null instead of -1: num_train_epochs decides",
    "training.bf16": "TRL switches it on by itself; the machine never chooses the numbers",
    "generation.vllm_mode": "auto: colocate unless a server is named",
    "generation.chat_template_kwargs": "{} instead of null",
    "training.optim": "TRL computes it from the release of torch",
    "logging.logging_steps": "1 instead of 10: metrics.jsonl has every step",
    "logging.report_to": "[] instead of none",
}
# Fields that went, and that the format knows or passes on to the releases that have them.
OF_OLDER_RELEASES = {"max_prompt_length", "vllm_device", "vllm_dtype", "vllm_enable_prefix_caching"}


def _facts() -> Facts:
    packages = {}
    for name in ("trl", "transformers", "peft"):
        facts = shipped_facts(name, TESTED[name])
        assert facts is not None
        packages[name] = facts
    return Facts(packages, dict.fromkeys(packages, "released"), {})


@pytest.fixture(scope="module")
def fields() -> dict[str, Field]:
    found = _facts().fields("GRPOConfig")
    assert found is not None
    return dict(found)


def _schema_default(key: str) -> object:
    section, _, name = key.rpartition(".")
    return fields_by_key(sections()[section])[name].get_default(call_default_factory=True)


def test_every_field_is_classified_and_no_other(fields: dict[str, Field]) -> None:
    assert sorted(classified_fields()) == sorted({*fields, *OF_OLDER_RELEASES})
    assert not OF_OLDER_RELEASES & set(fields)
    assert set(table("trl")["owners"]["GRPOConfig"]["fields"]) >= OF_OLDER_RELEASES


def test_every_home_is_a_key_of_the_format_and_has_one_field() -> None:
    homes = [field.home for field in classified_fields().values() if field.home]
    assert [home for home in homes if home not in recipe_keys()] == []
    assert len(homes) == len(set(homes)) == len(fields_by_home())


def test_a_field_has_a_home_or_an_owner_or_a_value() -> None:
    both = [name for name, field in classified_fields().items() if field.home and field.owner]
    assert both == []
    homeless = [f.name for f in classified_fields().values() if f.kind == "experiment" and not (f.home or f.owner)]
    assert [name for name in homeless if not classified_fields()[name].has_value] == []


def test_the_defaults_of_the_format_are_trls_newest(fields: dict[str, Field]) -> None:
    different = {}
    for home, field in fields_by_home().items():
        if field.name in OF_OLDER_RELEASES:
            continue
        theirs, ours = fields[field.name].default, _schema_default(home)
        if isinstance(theirs, NoDefault) or theirs != ours:
            different[home] = (ours, theirs)
    assert {home: values for home, values in different.items() if home not in OTHER_DEFAULTS} == {}
    assert set(OTHER_DEFAULTS) - set(different) == set()


def test_the_values_of_format_1_are_trls_newest(fields: dict[str, Field]) -> None:
    valued = {name: field.value for name, field in classified_fields().items() if field.has_value and not field.home}
    theirs = {name: fields[name].default for name in valued}
    assert {name: (value, theirs[name]) for name, value in valued.items() if theirs[name] != value} == {}


def test_conditions_speak_of_fields() -> None:
    known = {*classified_fields(), "rewards", "shims", *OTHER_VALUES, *NOT_GIVEN}
    conditions = {field.name: [*field.when] for field in classified_fields().values()}
    for field in classified_fields().values():
        conditions[field.name] += [condition for row in field.expressed for condition in row.get("when", ())]
    strange = [name for name, ones in conditions.items() for one in ones if one[0] not in known]
    assert strange == []
    kl = classified_fields()["use_bias_correction_kl"]
    assert (matters(kl, {"beta": 0.0}), matters(kl, {"beta": 0.1})) == (False, True)


def test_the_plan_passes_every_experiment_value_that_matters(tmp_path: Path) -> None:
    resolution = resolved(tmp_path, "grpo: {beta: 0.1, loss_type: sapo}")
    assert resolution.context is not None
    passed = plan_of(resolution).arguments.GRPOConfig
    assert (passed["beta"], passed["use_bias_correction_kl"], passed["sapo_temperature_neg"]) == (0.1, True, 1.05)
    values = {**resolution.context.settings.under("GRPOConfig"), "rewards": 1}
    matter = [f.name for f in classified_fields().values() if f.kind == "experiment" and matters(f, values)]
    absent = [name for name in matter if name not in passed and values.get(name) is not None]
    assert absent == []


def _has(name: str, package: str, release: str) -> bool:
    """Whether the GRPOConfig of a release of trl, or the TrainingArguments of transformers, has a field."""
    owner = {"trl": "GRPOConfig", "transformers": "TrainingArguments"}[package]
    facts = shipped_facts(package, release)
    return facts is not None and name in facts.owners[owner].fields


def test_every_experiment_field_is_answered_on_every_release() -> None:
    everywhere = {name for p in ("trl", "transformers") for name in _always(p)}
    unanswered = []
    for field in classified_fields().values():
        is_writable = field.home or field.has_value or field.expressed
        if field.kind != "experiment" or field.name in everywhere or not is_writable:
            continue
        package = "trl" if any(_has(field.name, "trl", r) for r in releases_with_facts("trl")) else "transformers"
        for release in releases_with_facts(package):
            if not _has(field.name, package, release) and not any(
                _answers(row, package, release) for row in field.expressed
            ):
                unanswered.append((field.name, release))
    assert unanswered == []


def _always(package: str) -> set[str]:
    owner = {"trl": "GRPOConfig", "transformers": "TrainingArguments"}[package]
    releases, fields = releases_with_facts(package), table(package)["owners"][owner]["fields"]
    ends = (releases[0], releases[-1])
    return {name for name, spans in fields.items() if (spans[0][0], spans[-1][1]) == ends}


def _answers(row: Mapping[str, Any], package: str, release: str) -> bool:
    return is_within(release, row[package]) if package in row else not set(row) & {"trl", "transformers"}


def test_what_is_said_of_releases_holds_for_some_and_leads_somewhere() -> None:
    ids = {rule.id for rule in rules()}
    for field in classified_fields().values():
        for row in field.expressed:
            windows = {package: row[package] for package in ("trl", "transformers") if package in row}
            meant = {
                package: [release for release in releases_with_facts(package) if is_within(release, window)]
                for package, window in windows.items()
            }
            assert all(meant.values()), f"{field.name}: a window without a release"
            assert row["because"] and row.get("checked_by", "BAT001") in ids, field.name
            owner, _, name = row.get("named", "model_init_kwargs.").partition(".")
            lacking = [
                release for package, some in meant.items() for release in some if not _has(name, package, release)
            ]
            assert owner == "model_init_kwargs" or lacking == [], f"{name} is not a field of {lacking}"

"""Rows that have an order keep it.

`training.shuffle_dataset` is false in three cases: for rows that `dataset.sort_by` sorts; for the episodes of an
environment, so that a longer run begins with the episodes of a shorter one; and for `datasets`, because a mixture is
ordered over the whole run. Each of its sources is shuffled separately, unless the recipe sets `shuffle_dataset: false`
or sorts the source. With `shuffle_dataset: true` TRL would shuffle everything, so there would be no curriculum, and the
shares of the sources would be left to chance. A recipe can shuffle episodes.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import are_episodes, own_columns
from grpo_recipes.user_files.local_files import name_list

ID = "DAT013"
SHUFFLE, SORT, MIXTURE = "GRPOConfig.shuffle_dataset", "dataset.sort_by", "datasets"
OWNS = (SHUFFLE,)


def decide(context: Context) -> Iterator[Setting]:
    if context.is_given(SHUFFLE):
        return
    if context.items(MIXTURE):
        yield rule_setting(
            SHUFFLE, False, "a mixture is ordered over the whole run; each source is shuffled separately"
        )
    elif context.value(SORT) is not None:
        yield rule_setting(SHUFFLE, False, f"sort_by {context.value(SORT)} orders the rows")
    elif are_episodes(context):
        yield rule_setting(SHUFFLE, False, "episodes run in order")


def check(context: Context) -> Iterator[Finding]:
    sort_by, has_sources = context.value(SORT), bool(context.items(MIXTURE))
    if context.value(SHUFFLE) is True and (has_sources or sort_by is not None):
        message = f"shuffle_dataset would undo {'the order of the mixture' if has_sources else f'sort_by {sort_by}'}"
        because = (
            "each source is already shuffled separately" if has_sources else "TRL draws shuffled rows in random order"
        )
        yield context.wrong(message, SHUFFLE, because)
    own = own_columns(context) if sort_by is not None else None
    if own is None:
        return
    name, known = str(sort_by).removeprefix("-"), own | frozenset(context.mapping("dataset.columns"))
    if name not in known:
        message = f"sort_by reads column {name}, but the data has no such column"
        yield context.finding(
            message, SORT, f"its columns are {name_list(sorted(known))}", fix="sort_by: a column of the rows"
        )

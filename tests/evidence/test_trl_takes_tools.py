"""TOL001: which releases take tools, and what GRPOTrainer asks for beside them."""

import pytest
from library import Library

from grpo_recipes.facts.released.requirements import PARAMETERS, needs_jmespath, transformers_for
from grpo_recipes.facts.released.shipped import releases_with_facts, table

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("release", "raised"), [("4.57.6", "ImportError"), ("5.0.0", "")])
def test_tools_need_the_transformers_that_the_table_says(library: Library, release: str, raised: str) -> None:
    assert transformers_for("tools", "1.16.0") == ">=5.0.0"
    assert library.call("in_tools.with_transformers", release=release).raised == raised


@pytest.mark.parametrize("is_new", [True, False])
def test_jmespath_is_asked_for_where_transformers_reads_calls_with_it(library: Library, is_new: bool) -> None:
    answer = library.call("in_tools.without_jmespath", reads_templates=is_new)
    assert answer.raised == ("" if is_new else "ImportError")
    assert ("jmespath" in answer.text) is not is_new
    assert needs_jmespath("1.16.0", "5.13.0" if is_new else "5.12.0") is not is_new


def test_the_installed_trainer_takes_what_the_tables_say(library: Library) -> None:
    taken = library.call("in_tools.parameters").result
    assert set(PARAMETERS.values()) <= set(taken)
    releases = releases_with_facts("trl")
    for parameter in PARAMETERS.values():
        spans = table("trl")["owners"]["GRPOTrainer"]["fields"][parameter]
        assert spans[-1][1] == releases[-1], "a newer release takes it no more"

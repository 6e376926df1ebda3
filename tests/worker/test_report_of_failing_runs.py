"""Three real runs that teach nothing: the first screen of their reports says what is wrong and what to try."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.report_page import Page
from worker_runs import Changes, Trained, planned_reward

from grpo_recipes.report.html.page import write_page
from grpo_recipes.report.html.run_data import ReportedRun

pytestmark = pytest.mark.stack

NEVER = [planned_reward("regex_match", name="digits", kwargs={"pattern": "never", "full": False})]
RUNS = [
    pytest.param(
        {"rewards": NEVER},
        {},
        "off",
        ["completed at step 6 of 6", "constant reward", "the reward was 0", "Try: grpo-run preflight", "GRD001"],
        id="constant reward",
    ),
    pytest.param(
        {"rewards": NEVER},
        {},
        "stop",
        ["stopped at step", "zero_variance: the guard stopped the run", "Try:", "grpo-run explain GRD001"],
        id="constant reward, stopped",
    ),
    pytest.param(
        {},
        {"max_completion_length": 1},
        "warn",
        ["completed at step 12 of 12", "truncation: ", "were cut at 1 tokens", "Try:", "max_completion_length"],
        id="all truncated",
    ),
    pytest.param(
        {},
        {"learning_rate": 1e30, "max_grad_norm": 1e30},
        "warn",
        ["stopped at step", "not_finite: the guard stopped the run", "Try: a smaller training.learning_rate"],
        id="nan",
    ),
]


@pytest.mark.parametrize(("sections", "arguments", "guard", "said"), RUNS)
def test_the_first_screen_says_what_is_wrong(
    sections: Changes,
    arguments: dict[str, Any],
    guard: str,
    said: list[str],
    tmp_path: Path,
    make_plan: Callable[..., Changes],
    trained: Callable[..., Trained],
) -> None:
    steps = 12 if guard != "off" else 6
    plan = make_plan(arguments={"max_steps": steps, **arguments}, **sections)
    plan["expect"]["arguments"] = {}
    plan["guards"] |= {"zero_variance": guard, "zero_variance_groups": 8}
    run = trained(plan)
    (run.folder / "launch.sh").write_text("")
    write_page([ReportedRun(str(run.folder))], tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    for words in said:
        assert words in page.first_screen, run.output
    assert "Of " in page.text and "completions that the seed drew" in page.text

"""What two runs measured, beside a comparison of their plans."""

from grpo_recipes.contract.run_record import RunRecord
from grpo_recipes.report.diff_text import rows_of_figures


def test_figures_with_intervals_have_a_row_each() -> None:
    old = RunRecord(status="completed", step=4, evaluation={"after": {"reward": 0.5, "count": 9}})
    event = {
        "without": {"x": 1},
        "reward": 0.75,
        "pass_at": {"8": 1.0},
        "intervals": {"level": 0.95, "reward": [0.7, 0.8]},
    }
    new = RunRecord(status="completed", step=4, max_steps=8, evaluation={"after": event})
    assert rows_of_figures([old, new]) == [
        ("status", "completed at step 4", "completed at step 4 of 8"),
        ("held out after", "reward 0.5  (9 rows)", "-"),
        ("held out after, reward", "-", "0.75 [0.7, 0.8]"),
        ("held out after, pass@8", "-", "1"),
        ("held out after, left out", "-", "1 completion without x"),
    ]

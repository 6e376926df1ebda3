"""The text of `grpo-run profile` counts the rows, and names the filter."""

from grpo_recipes.report.trained_text import profile_text

SHOWN = {"rows": 200, "never": 50, "always": 30, "between": 120, "not_judged": 0, "equal_rewards": 80}


def test_rows_are_counted_by_kind() -> None:
    assert profile_text(SHOWN, "../rows.jsonl", 8, "rows.jsonl").splitlines() == [
        "../rows.jsonl: 200 rows with 8 answers each",
        "  never solved            50   25%",
        "  solved sometimes       120   60%",
        "  always solved           30   15%",
        "  equal rewards           80   40%",
        "",
        "equal rewards teach nothing; in the recipe, redraw such groups, or train only on the rows between:",
        "  grpo: {resample_groups: 3}",
        '  dataset: {path: rows.jsonl, filter: "{{ pass_rate > 0.1 and pass_rate < 0.9 }}"}',
        "the model may unlearn the rows that a filter drops; compare held-out results with and without it",
    ]


def test_rows_that_were_not_judged_are_left_out_by_the_filter() -> None:
    text = profile_text({**SHOWN, "not_judged": 1}, "rows.jsonl", 8, "rows.jsonl")
    assert "  not judged               1    0%" in text
    assert '"{{ pass_rate is not none and pass_rate > 0.1 and pass_rate < 0.9 }}"' in text


def test_a_path_is_written_as_yaml_reads_it() -> None:
    import yaml

    path = "a, #1: {b}.jsonl"
    line = profile_text(SHOWN, path, 8, path).splitlines()[-2]
    assert yaml.safe_load(line)["dataset"]["path"] == path


def test_no_filter_is_named_where_it_would_keep_no_row() -> None:
    assert "dataset:" not in profile_text({**SHOWN, "between": 0, "always": 150}, "rows.jsonl", 8, "rows.jsonl")

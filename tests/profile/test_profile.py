"""The share of answers that pass is that of an evaluation, whatever the rows come from and however often it stops."""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from profile_runs import COMMAND, FEW, QUICKSTART, ROOT, Answer, rows_of
from support.processes import wait_until

pytestmark = pytest.mark.stack

Profile = Callable[..., Answer]
NEW = ("pass_rate", "reward_mean", "reward_std", "profile")


def plain(row: dict) -> dict:
    """A row without the columns of a profile."""
    return {name: value for name, value in row.items() if name not in NEW}


def rates(path: Path) -> list[list[object]]:
    """The figures of each row."""
    return [[row[name] for name in NEW[:3]] for row in rows_of(path)]


def test_the_rates_are_those_of_an_evaluation_of_the_same_rows_before_the_first_step(
    profile: Profile, sums: Path, tmp_path: Path, warm_python: Path
) -> None:
    done = profile("-o", "rows.jsonl", "--samples", 4, "--max-rows", 20, "--json")
    assert done.code == 0, done.err
    counts = json.loads(done.out)
    values = {
        "evaluation.path": str(sums),
        "evaluation.max_rows": 20,
        "evaluation.greedy": False,
        "evaluation.samples": 4,
        "training.max_steps": 1,
    }
    options = [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    subprocess.run(
        [warm_python / "grpo-run", QUICKSTART, "--out", tmp_path / "run", *options],
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
    )
    groups: dict[int, list[float]] = {}
    for one in rows_of(tmp_path / "run" / "evaluation" / "step-0.jsonl"):
        groups.setdefault(one["row"], []).append(one["rewards"]["exact_match"])
    found = rows_of(tmp_path / "rows.jsonl")
    assert [row["pass_rate"] for row in found] == [sum(group) / 4 for group in groups.values()]
    assert [row["reward_mean"] for row in found] == [row["pass_rate"] for row in found]
    assert [plain(row) for row in found] == rows_of(sums)[:20]
    assert len({row["profile"].pop("row") for row in found}) == 20, "a digest for each row"
    assert {str(row["profile"]) for row in found} == {str(found[0]["profile"])}
    assert found[0]["profile"]["samples"] == 4
    kinds = [sum(map(test, (row["pass_rate"] for row in found))) for test in ((0.0).__eq__, (1.0).__eq__)]
    assert [counts["rows"], counts["never"], counts["always"]] == [20, *kinds]
    assert 0 < counts["between"] == 20 - sum(kinds), "a test of rates needs some of each"


def test_a_stopped_profile_goes_on_to_the_same_bytes(profile: Profile, tmp_path: Path, warm_python: Path) -> None:
    lines = (QUICKSTART.parent / "quickstart" / "train.jsonl").read_text().splitlines(keepends=True)
    rows, blocks = tmp_path / "sums.jsonl", 3
    rows.write_text("".join(lines[: 16 * blocks]))
    partial, wait, waiting = (tmp_path / name for name in ("rows.partial.jsonl", "wait", "waiting"))
    slow = tmp_path / "slow.py"
    # One more block is answered, then the reward waits for the signal; its text stays the same.
    slow.write_text(
        "import os, time\nfrom pathlib import Path\n\n\ndef exact(completions, solution, **kwargs):\n"
        f"    partial, wait, waiting = map(Path, {[str(partial), str(wait), str(waiting)]!r})\n"
        "    while wait.exists() and partial.stat().st_size > int(wait.read_text()):\n"
        "        waiting.exists() or waiting.write_text(str(os.getpid()))\n        time.sleep(0.05)\n"
        "    texts = [one if isinstance(one, str) else one[0]['content'] for one in completions]\n"
        "    return [float(text.strip() == answer) for text, answer in zip(texts, solution)]\n"
    )
    own = {"rewards": [{"python": str(slow) + ":exact", "weight": 1.0}]}
    sha = hashlib.sha256(slow.read_bytes()).hexdigest()
    given = {"dataset.path": str(rows), "evaluation.path": None, **own}
    options = [word for key, value in given.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    for block, number in enumerate((signal.SIGTERM, signal.SIGKILL), 1):
        wait.write_text(str(partial.stat().st_size if partial.exists() else 0))
        process = subprocess.Popen(
            [warm_python / "python", *COMMAND, QUICKSTART, "-o", "rows.jsonl", "--allow-code", sha, *options],
            cwd=tmp_path,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: waiting.exists() and waiting.read_text())
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == (-9 if number == signal.SIGKILL else 75), said
        assert number == signal.SIGKILL or "the same command continues with rows.partial.jsonl" in said
        wait_until(lambda: not Path("/proc", waiting.read_text()).exists())
        assert len(rows_of(partial)) == 16 * block, number
        assert not (tmp_path / "rows.jsonl").exists()
        with partial.open("a") as file:
            file.write(json.dumps(rows_of(partial)[0])[:-20])  # what a full disk leaves
        waiting.unlink()

    wait.unlink()
    done = profile("-o", "rows.jsonl", **own)
    assert done.code == 0, done.err
    assert f"{16 * (blocks - 1)} of {16 * blocks} rows were answered before" in done.err
    assert not partial.exists()
    assert profile("-o", "undisturbed.jsonl", **own).code == 0
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "undisturbed.jsonl").read_bytes()


def test_a_different_recipe_model_or_number_of_samples_is_not_mixed(
    profile: Profile, sums: Path, tmp_path: Path
) -> None:
    assert profile("-o", "rows.jsonl").code == 0
    partial = tmp_path / "rows.partial.jsonl"
    lines = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").unlink()
    partial.write_text("".join(lines[:20]))
    before = partial.read_bytes()
    cases: list[tuple[list[object], dict[str, object], str]] = [
        (["--samples", 4], {}, "samples: 8 there, 4 now"),
        ([], {"seed": 7}, "seed=42 there"),
        ([], {"generation.temperature": 0.7}, "temperature=1.0"),
        ([], {"dataset.prompt": "{{ question }} "}, "data, prompts, rewards or the passing condition differ"),
        ([], {"generation.max_completion_length": 5}, "data, prompts, rewards or the passing condition differ"),
        ([], {"rewards": [{"name": "accuracy"}]}, "data, prompts, rewards or the passing condition differ"),
    ]
    for words, values, because in cases:
        done = profile("-o", "rows.jsonl", *words, **values)
        assert done.code == 2, done.err
        assert "rows.partial.jsonl is part of a different profile" in done.err
        assert because in done.err
        assert "fix: rm rows.partial.jsonl" in done.err
        assert partial.read_bytes() == before
    values = {"training.learning_rate": 1e-4, "training.max_steps": 3, "launch.num_processes": 2}
    done = profile("-o", "rows.jsonl", **values)
    assert done.code == 0, done.err
    assert (tmp_path / "rows.jsonl").read_text() == "".join(lines), "what trains, and where, does not matter"


def test_rows_of_each_format_keep_their_columns(profile: Profile, sums: Path, tmp_path: Path) -> None:
    import pandas

    own = [
        {**row, "n": place, "tags": ["a", None], "day": "2026-01-02 03:04:05"}
        for place, row in enumerate(rows_of(sums))
    ]
    own = own[:18]
    sums.write_text("".join(json.dumps(row) + "\n" for row in own))
    (tmp_path / "sums.json").write_text(json.dumps(own))
    pandas.DataFrame(own).to_parquet(tmp_path / "sums.parquet")
    pandas.DataFrame(own).drop(columns=["tags"]).to_csv(tmp_path / "sums.csv", index=False)
    found = {}
    for kind in ("jsonl", "json", "csv", "parquet"):
        columns = {"solution": "{{ answer | int }}"}
        done = profile("-o", f"{kind}.jsonl", "--samples", 2, rows=f"sums.{kind}", **{"dataset.columns": columns})
        assert done.code == 0, done.err
        found[kind] = rows_of(tmp_path / f"{kind}.jsonl")
        assert [list(row) for row in found[kind]] == [[*(n for n in own[0] if n in row), *NEW] for row in found[kind]]
    assert [plain(row) for row in found["jsonl"]] == [plain(row) for row in found["json"]] == own
    assert [plain(row) for row in found["parquet"]] == own
    assert [row["n"] for row in found["csv"]] == [row["n"] for row in own]
    assert len({str(rates(tmp_path / f"{kind}.jsonl")) for kind in found}) == 1

    again = profile("-o", "again.jsonl", "--samples", 2, rows="jsonl.jsonl")
    assert again.code == 0, again.err
    assert [list(row) for row in rows_of(tmp_path / "again.jsonl")] == [list(row) for row in found["jsonl"]]
    assert rates(tmp_path / "again.jsonl") == rates(tmp_path / "jsonl.jsonl"), "its columns disturb nothing"


def test_a_source_of_a_mixture_has_the_rates_of_its_rows_alone(profile: Profile, sums: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"q": row["question"], "answer": row["answer"]}) for row in rows_of(sums)[:9]]
    (tmp_path / "few.jsonl").write_text("\n".join(lines))
    columns = {"solution": "{{ answer }}"}
    sources = [
        {
            "source": "sums",
            "path": str(sums),
            "prompt": "{{ question }}",
            "columns": columns,
            "rewards": ["tag_format"],
        },
        {"source": "few", "path": "few.jsonl", "prompt": "{{ q }}", "columns": columns, "rewards": ["exact_match"]},
    ]
    (tmp_path / "recipe.yaml").write_text(
        json.dumps(
            {
                "extends": str(QUICKSTART),
                "dataset": None,
                "datasets": sources,
                "rewards": [{"name": "tag_format"}, {"name": "exact_match"}],
            }
        )
    )
    mixed = profile("-o", "mixed.jsonl", "--samples", 4, "--source", "few", recipe=tmp_path / "recipe.yaml", rows=None)
    assert mixed.code == 0, mixed.err
    alone = profile("-o", "alone.jsonl", "--samples", 4, rows="few.jsonl", **{"dataset.prompt": "{{ q }}"})
    assert alone.code == 0, alone.err
    assert rates(tmp_path / "mixed.jsonl") == rates(tmp_path / "alone.jsonl")
    assert len({str(each) for each in rates(tmp_path / "mixed.jsonl")}) > 1, "the model knows some of them"


def test_a_column_that_a_profile_writes_stays_the_users(profile: Profile, sums: Path, tmp_path: Path) -> None:
    sums.write_text("".join(json.dumps({**row, "pass_rate": 0.5}) + "\n" for row in rows_of(sums)))
    done = profile("-o", "rows.jsonl")
    assert done.code == 3, done.err
    assert "dataset: the rows have a column `pass_rate`" in done.err
    assert not (tmp_path / "rows.jsonl").exists()
    assert not (tmp_path / "rows.partial.jsonl").exists()


def test_what_cannot_be_written_as_json_is_named(profile: Profile, sums: Path, tmp_path: Path) -> None:
    import pandas

    pandas.DataFrame([{**row, "raw": b"\\0"} for row in rows_of(sums)]).to_parquet(tmp_path / "sums.parquet")
    done = profile("-o", "rows.jsonl", rows="sums.parquet")
    assert done.code == 3, done.err
    assert "row 1 cannot be written as JSON" in done.err


def test_rewards_without_an_answer_and_rewards_that_raise(profile: Profile, sums: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def some(completions, answer, **kwargs):\n"
        "    return [None if int(one) % 2 else 1.0 for one in answer]\n\n\n"
        "def none(completions, **kwargs):\n    return [None for _ in completions]\n\n\n"
        "def bad(completions, **kwargs):\n    raise ValueError('no such thing')\n"
    )

    def reward(name: str) -> dict[str, object]:
        return {"python": f"{tmp_path / 'own.py'}:{name}", "weight": 1.0}

    done = profile("-o", "rows.jsonl", "--samples", 2, rewards=[reward("some")])
    assert done.code == 0, done.err
    assert rates(tmp_path / "rows.jsonl") == [
        [None, None, None] if int(row["answer"]) % 2 else [1.0, 1.0, 0.0] for row in rows_of(sums)
    ]
    assert "not judged" in done.out
    assert "dataset:" not in done.out, "no row is between"

    done = profile("-o", "bad.jsonl", rewards=[reward("bad")])
    assert done.code == 1, done.err
    assert "bad raised ValueError: no such thing" in done.err
    assert "own.py:10" in done.err

    done = profile("-o", "two.jsonl", rewards=[reward("some"), {"name": "exact_match"}])
    assert done.code == 2, done.err
    assert "error: the recipe does not say which answers pass" in done.err
    assert "each of some, exact_match could decide which completions pass" in done.err
    assert "fix: --set evaluation.passes.reward=NAME" in done.err
    values = {
        "rewards": [reward("none"), {"name": "exact_match", "weight": 0.5}],
        "evaluation.passes.reward": "exact_match",
    }
    done = profile("-o", "two.jsonl", "--samples", 2, **values)
    assert done.code == 0, done.err
    assert str(tmp_path / "two.jsonl") in done.out.splitlines()[-2], "the recipe is in a different folder"
    assert [mean for _, mean, _ in rates(tmp_path / "two.jsonl")] == [
        passed / 2 for passed, _, _ in rates(tmp_path / "two.jsonl")
    ]


def test_a_full_disk_keeps_what_is_whole(
    profile: Profile, sums: Path, tmp_path: Path, small_disk: Callable[[int], Path]
) -> None:
    rows = [{**row, "much": "x" * 4_000} for row in rows_of(sums)]
    sums.write_text("".join(json.dumps(row) + "\n" for row in rows))
    disk = small_disk(112)
    done = profile("-o", disk / "rows.jsonl")
    assert done.code == 1, done.err
    assert "rows.partial.jsonl: No space left on device" in done.err
    assert "16 rows are answered, and stay in the file" in done.err
    partial = disk / "rows.partial.jsonl"
    (tmp_path / "rows.partial.jsonl").write_bytes(partial.read_bytes())
    done = profile("-o", "rows.jsonl")
    assert done.code == 0, done.err
    assert f"16 of {FEW} rows were answered before" in done.err
    assert profile("-o", "whole.jsonl").code == 0
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()

"""The worker trains as a hand-written TRL script does, to the last bit, with or without evaluations."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_runs import LORA, NF4, Changes, environment, events, planned_reward, record, train

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]
MODES = ("full", "lora", "nf4")
REWARD_FILE = """
import random, re

def digits(completions, **kwargs):
    random.random()
    return [float(re.search(r"\\d\\d", completion[0]["content"]) is not None) for completion in completions]
"""


@pytest.fixture(scope="session")
def by_hand(
    tiny_model: Path,
    sums: Path,
    make_plan: Callable[..., Changes],
    warm_python: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[list[float]]]:
    """Loss, gradient norm and reward of each step of a hand-written script, by mode."""
    folder = tmp_path_factory.mktemp("by-hand")
    runs = [
        {
            "grpo": make_plan(mode)["arguments"]["GRPOConfig"],
            "lora": None if mode == "full" else LORA,
            "nf4": NF4 if mode == "nf4" else None,
        }
        for mode in MODES
    ]
    settings = {"rows": str(sums), "cache": str(folder), "model": str(tiny_model), "runs": runs}
    (folder / "settings.json").write_text(json.dumps(settings))
    script = Path(__file__).with_name("hand_written.py")
    done = subprocess.run(
        [str(warm_python / "python"), str(script), str(folder / "settings.json")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line.removeprefix("LOSSES")) for line in done.stdout.splitlines() if "LOSSES" in line]
    return dict(zip(MODES, found, strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_losses_are_those_of_a_hand_written_script_though_held_out_rows_are_evaluated(
    mode: str,
    by_hand: dict[str, list[list[float]]],
    make_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    make_run: Callable[..., Path],
    sha256_of_text: Callable[[str], str],
) -> None:
    reward = planned_reward("mine.py:digits", kind="python", name="digits", sha256=sha256_of_text(REWARD_FILE))
    # With all weights trained several completions of each row are drawn, and the best checkpoint is asked for.
    sampled = {
        "samples": 4,
        "pass_at": [1, 4],
        "passes": {"reward": "digits", "at_least": 1.0},
        "keep_best": True,
        "batch_size": 16,
    }
    plan = make_plan(
        mode,
        arguments={"save_strategy": "steps", "save_steps": 2} if mode == "full" else {},
        rewards=[reward],
        evaluation=held_out(every_steps=2, greedy=mode != "full", **(sampled if mode == "full" else {})),
        shims={"bnb_cpu_packing": True} if mode == "nf4" else {},
    )
    folder = make_run(plan, user={"mine.py": REWARD_FILE})

    exit_code, output = train(folder)

    assert exit_code == 0, output
    steps = events(folder, "step")
    assert [[step["loss"], step["grad_norm"], step["reward"]] for step in steps] == by_hand[mode]
    assert [line["step"] for line in events(folder, "evaluation")] == [0, 2, 4]
    check_what_is_left(folder, mode, output)


def check_what_is_left(folder: Path, mode: str, output: str) -> None:
    end = record(folder)
    assert (end["status"], end["exit_code"], end["step"], end["max_steps"]) == ("completed", 0, 4, 4)
    assert all(check["ok"] for check in end["checks"])
    assert [proof["ok"] for proof in end["proofs"]] == [True] * 10
    assert end["evaluation"]["before"]["count"] == end["evaluation"]["after"]["count"] == 11
    if mode == "full":
        rows = [json.loads(line) for line in (folder / "evaluation/step-4.jsonl").read_text().splitlines()]
        assert [(row["row"], row["sample"]) for row in rows] == [
            (row, sample) for row in range(11) for sample in range(4)
        ]
        assert list(end["evaluation"]["after"]["pass_at"]) == ["1", "4"]
    else:
        assert end["evaluation"]["counts"]["rows"] == 11
    assert 0 < end["train_cpu_s"] < 60
    assert end["metrics"]["rewards/digits/mean"] == events(folder, "step")[-1]["rewards/digits/mean"]
    assert re.search(r"(?m)^step 4/4  reward .*  eta 0:00:00$", output)
    saved = {path.name for path in Path(end["final"]).iterdir()}
    assert {"tokenizer.json", "model.safetensors" if mode == "full" else "adapter_model.safetensors"} <= saved
    left = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert left <= {
        "plan.json",
        "worker",
        "run.json",
        "metrics.jsonl",
        "completions.jsonl",
        "cache",
        "checkpoints",
        "evaluation",
        "final",
    }

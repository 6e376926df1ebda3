"""Measures the speed of generation and training, and grpo-run's overhead over TRL's step."""

from gpu_kit.bench import Bench

MOST = 1.05
ROUNDS = 1


def run(bench: Bench) -> None:
    scale = bench.scale
    tokens, prompts = scale.tokens(128), scale.prompts(16)
    steps = scale.times(5, 4)
    file = bench.recipe("speed", "0.5B", tokens=128)
    settings = (f"training.max_steps={steps}", f"generation.min_tokens={tokens}")
    ours, theirs, alone = [], [], {}
    for number in range(scale.times(ROUNDS, 1)):
        run = bench.completed(bench.train(file, *settings))
        plain = bench.folder / f"plain-{number}"
        alone = bench.measured("plain_trl.py", str(run.folder / "plan.json"), str(plain))
        ours.append(run.step_seconds(without=2, of=min))  # parallel work makes steps slower, never faster
        theirs.append(alone["step_s"])
        fastest = {"grpo-run": ours[-1], "TRL alone": theirs[-1]}
        bench.figure(f"round {number + 1}: seconds of the fastest step", fastest)
        rest = {"grpo-run": (run.step_seconds(without=2) or 0) - run.phase_seconds(2)["generate"]}
        rest["TRL alone"] = alone["update_s"]
        bench.figure(f"round {number + 1}: seconds of a step but for generation", rest)
        bench.figure(f"round {number + 1}: equal losses", [loss for loss, _ in run.losses] == alone["losses"])
    ratio = min(ours) / min(theirs)
    bench.figure("grpo-run : TRL alone", round(ratio, 4))
    made = tokens * prompts * 8
    bench.figure("tokens a second, generated", round(made / alone["generation_s"]))
    bench.figure("tokens a second, learned from", round(made / alone["update_s"]))
    if not scale.is_small:
        bench.holds(ratio <= MOST, f"a step takes {ratio:.3f} times that of TRL alone, at most {MOST} is claimed")

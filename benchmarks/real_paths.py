"""`make real-paths`: takes SmolLM2 through each way of training and handing over, and writes real_paths.md.

    python benchmarks/real_paths.py [--only NAME]... [--write]

Three steps of build/real/smollm2.yaml each, with four held-out rows before and after. Needs build/real, which `make
real` writes, and for some rows .venv-vllm, which `make test-vllm` makes, and llama.cpp's converter, which `make
test-gguf` fetches; for the last two rows the older stacks of tests/stacks/environments.py. A row without what it needs
says so. An hour of one core, 9 GiB of memory.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import distribution, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
REAL, BUILT = ROOT / "build/real", ROOT / "build/paths"
VLLM = ROOT / ".venv-vllm/bin/python"
CONVERTER = ROOT / ".llama.cpp/convert_hf_to_gguf.py"
PACKAGES = ("trl", "transformers", "peft", "accelerate", "torch", "bitsandbytes", "deepspeed")
SHORT = ("training.max_steps=3", "training.save_steps=1", "evaluation.max_rows=4", "evaluation.samples=2",
         "evaluation.pass_at=[1,2]")  # fmt: skip
FOUR_BIT = "{load_in_4bit: true, bnb_4bit_quant_type: nf4, bnb_4bit_compute_dtype: float32}"
NEWEST = f"{version('trl')}/{version('transformers')}"
TOOL = "[{python: ../../recipes/calculator/calculator.py:calculate, timeout: 10}]"
# A ChatML template whose calls TRL can parse. SmolLM2's own template does not render tools.
TEMPLATE = distribution("trl").locate_file("trl/chat_templates/qwen3.jinja")
HEAD = """\
# Training and exporting a pretrained model

Each row trains SmolLM2-135M-Instruct with the recipe of `make real`, for three steps of 4 prompts x 8 completions, and
evaluates 4 held-out rows x 2 samples before and after. CPU seconds are those of the whole command with all its
processes, with one thread each. GiB is the peak memory of a process, and *estimated* is the estimate of `fit`. Proofs
are those of the first steps. The last rows train all 24 steps, without evaluation, on three stacks. Written by
`python benchmarks/real_paths.py --write`.

{versions}

| path | ended | CPU s | GiB | estimated | proofs | warnings | what it shows |
|---|---|---|---|---|---|---|---|
"""


class Command(NamedTuple):
    """How a command ended. output: stdout and stderr."""

    code: int
    cpu_s: float
    output: str


def grpo_run(
    *words: str,
    python: Path = Path(sys.executable),
    stop: Callable[[], bool] | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Command:
    """Runs grpo-run in build/real. Sends SIGTERM as soon as stop says so."""
    environment = (
        os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"} | variables
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [str(python), "-m", "grpo_recipes.cli.main", *words],
        cwd=REAL,
        env=environment,
        stdout=(log := BUILT / "last.log").open("w"),
        stderr=subprocess.STDOUT,
    )
    while stop is not None and process.poll() is None and not stop():
        time.sleep(0.2)
    if stop is not None:
        process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=3600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Command(code, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, log.read_text())


def train(name: str, *settings: str, accept: tuple[str, ...] = (), **how: Any) -> tuple[Path, Command]:
    """Trains the short recipe into build/paths/NAME, and returns that folder and how the command ended."""
    folder = BUILT / name
    shutil.rmtree(folder, ignore_errors=True)
    words = ["smollm2.yaml", "--allow-code", "here", "--out", str(folder)]
    words += [word for setting in (*SHORT, *settings) for word in ("--set", setting)]
    words += [word for rule in accept for word in ("--accept", rule)]
    return folder, grpo_run(*words, **how)


def told(folder: Path, command: Command, shows: str = "") -> str:
    """The cells of a run."""
    if not (folder / "run.json").exists():
        return f"exit {command.code} | {command.cpu_s:.0f} | | | | | {_first_error(command.output)} |"
    record, plan = (json.loads((folder / name).read_text()) for name in ("run.json", "plan.json"))
    measured = max((phase["measured"] or 0 for phase in record["memory"].values()), default=0) / 2**30
    estimated = max((sum(parts.values()) for parts in plan["memory"]["phases"].values()), default=0) / 2**30
    proofs = [proof["id"] for proof in record["proofs"] if proof["ok"] is False]
    unseen = [proof["id"] for proof in record["proofs"] if proof["ok"] is None]
    checks = [check["name"] for check in record["checks"] if not check["ok"]]
    count = len(record["proofs"]) + len(record["checks"])
    found = sorted({rule for finding in plan["findings"] for rule in re.findall(r"\[([A-Z]{3}\d{3})\]$", finding)})
    failed = f"; failed: {', '.join([*proofs, *checks])}" * bool(proofs or checks)
    failed += f"; nothing to prove: {', '.join(unseen)}" * bool(unseen)
    if record["status"] != "completed":
        shows = record["message"] or _first_error(command.output)
    fired = [guard["rule"] for guard in record["guards"]]
    return (
        f"{record['status']} | {command.cpu_s:.0f} | {measured:.1f} | {estimated:.1f} | "
        f"{count}{failed} | {', '.join([*found, *fired])} | {shows} |"
    )


def _first_error(output: str) -> str:
    lines = [line for line in output.splitlines() if "error" in line.lower()]
    return (lines or output.splitlines() or ["nothing was printed"])[0].replace("|", "\\|")[:300]


def weights(folder: Path) -> str:
    """The first digits of the sha256 of what was trained."""
    files = sorted((folder / "final").glob("*.safetensors"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def trained(name: str, *settings: str) -> Callable[[], str]:
    """A path that only trains."""

    def path() -> str:
        folder, command = train(name, *settings)
        return told(folder, command, f"weights {weights(folder)}" if command.code == 0 else "")

    return path


def resumed() -> str:
    """Stopped by SIGTERM after its first step, then resumed: the weights are those of the run that nobody stopped."""
    folder, first = train("resumed", stop=lambda: (BUILT / "resumed/checkpoints/checkpoint-1").exists())
    again = grpo_run(str(folder), "--resume")
    ours, whole = weights(folder), weights(BUILT / "lora")
    same = "the weights of the LoRA run" if ours == whole else f"**other weights**: {ours}, not {whole}"
    return told(folder, Command(again.code, first.cpu_s + again.cpu_s, again.output), f"exit {first.code}, then {same}")


def stage() -> str:
    """A second run that trains the adapter of the first one on."""
    settings = ("model={from_run: " + str(BUILT / "lora") + ", dtype: float32}", "lora={continue: true}", "seed=2")
    return told(*train("stage", *settings), f"from {weights(BUILT / 'lora')}")


def on_stack(name: str) -> Callable[[], str]:
    """All 24 steps on a stack of tests/stacks/stacks.json, step by step beside those on the newest one."""

    def path() -> str:
        packages = ROOT / ".stacks" / name.replace("/", "-")
        if name != NEWEST and not packages.exists():
            return f"not run | | | | | | needs `python tests/stacks/environments.py {name}` |"
        before = {} if name == NEWEST else {"PYTHONPATH": str(packages)}
        settings = ("training.max_steps=24", "training.save_steps=24", "evaluation=null")
        folder, command = train(folder_of(name), *settings, variables=before)
        if command.code != 0 or name == NEWEST:
            return told(folder, command, f"weights {weights(folder)}" if command.code == 0 else "")
        (ours, texts), (theirs, wanted) = steps(folder), steps(BUILT / folder_of(NEWEST))
        same = next((step for step in wanted if texts.get(step) != wanted[step]), len(wanted) + 1) - 1
        said = f"the same completions in {same} of {len(wanted)} steps" + " from the first on" * (same < len(wanted))
        for figure in ("loss", "grad_norm"):
            differences = [abs(ours[step][figure] - theirs[step][figure]) for step in range(1, same + 1)]
            said += f"; {figure} differs there by at most {max(differences, default=0):.0e}"
        return told(folder, command, said)

    return path


def folder_of(stack: str) -> str:
    return "stack-" + stack.replace("/", "-")


def steps(folder: Path) -> tuple[dict[int, dict[str, float]], dict[int, list[str]]]:
    """The figures and the kept completions of each step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    figures = {line["step"]: line for line in lines if line["event"] == "step"}
    texts: dict[int, list[str]] = {step: [] for step in figures}
    for line in map(json.loads, (folder / "completions.jsonl").read_text().splitlines()):
        texts[line["step"]] += [row["completion"] for row in line["rows"]]
    return figures, texts


def handed_over(name: str, *words: str, **how: Any) -> Callable[[], str]:
    """An export of the LoRA run."""

    def path() -> str:
        folder = BUILT / f"exported-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        command = grpo_run("export", str(BUILT / "lora"), "-o", str(folder), *words, **how)
        proved = [line.strip() for line in command.output.splitlines() if "differ" in line]
        size = sum(file.stat().st_size for file in folder.glob("*")) if folder.exists() else 0
        said = f"{size / 2**20:.0f} MiB; {'; '.join(proved)}" if proved else _first_error(command.output)
        return f"exit {command.code} | {command.cpu_s:.0f} | | | | | {said} |"

    return path


def generated() -> str:
    """Four held-out rows, answered by the trained and the untrained model."""
    rewards = hashlib.sha256((REAL / "smollm2/rewards.py").read_bytes()).hexdigest()
    command = grpo_run("generate", str(BUILT / "lora"), "--rows", "4", "--base", "--allow-code", rewards, "--json")
    try:
        answer = json.loads(command.output[command.output.index("{") :])
        said = f"{len(answer['rows'])} rows answered"
    except (ValueError, KeyError):
        said = _first_error(command.output)
    return f"exit {command.code} | {command.cpu_s:.0f} | | | | | {said} |"


def with_vllm(name: str, mode: str) -> Callable[[], str]:
    """A run whose completions come from vLLM. TRL cannot hand weights to vLLM on a CPU; tests/with_vllm does."""

    def path() -> str:
        if not VLLM.exists():
            return "not run | | | | | | needs `make test-vllm` |"
        settings = ("generation.use_vllm=true", f"generation.vllm_mode={mode}", "generation.vllm_max_model_length=64")
        return told(*train(name, *settings, accept=("GEN001", "GEN008"), python=VLLM), "")

    return path


def gguf() -> str:
    """An export with a GGUF file."""
    if not CONVERTER.exists():
        return "not run | | | | | | needs `make test-gguf` |"
    packages = {"PYTHONPATH": str(CONVERTER.parent / "packages")}
    return handed_over("gguf", "--gguf", "--converter", str(CONVERTER), variables=packages)()


PATHS: dict[str, Callable[[], str]] = {
    "LoRA, float32": trained("lora"),
    "all weights, float32": trained("full", "lora=null", "training.learning_rate=1e-5"),
    "LoRA on 4 bits (nf4)": trained("nf4", f"quantization={FOUR_BIT}"),
    "gradient checkpointing": trained("checkpointing", "training.gradient_checkpointing=true"),
    "two processes, DDP": trained("ddp", "launch.num_processes=2"),
    "two processes, ZeRO-2": trained("zero2", "launch.num_processes=2", "distributed.strategy=zero2"),
    "two processes, ZeRO-3": trained("zero3", "launch.num_processes=2", "distributed.strategy=zero3"),
    "vLLM in the process": with_vllm("colocate", "colocate"),
    "vLLM server": with_vllm("server", "server"),
    "stop text": trained("stop", "generation.stop=['=', '.']"),
    "a tool": trained(
        "tool",
        f"tools={TOOL}",
        f"tokenizer={{chat_template_path: {TEMPLATE}}}",
        "generation.max_completion_length=64",
        "generation.max_prompt_length=null",
        "training.prompts_per_step=1",
    ),
    "resumed": resumed,
    "a second stage": stage,
    "export, merged": handed_over("merged"),
    "export, merged, bfloat16": handed_over("bfloat16", "--dtype", "bfloat16"),
    "export, adapter": handed_over("adapter", "--adapter"),
    "export, GGUF": gguf,
    "generate": generated,
    **{f"trl and transformers {name}": on_stack(name) for name in (NEWEST, "0.23.1/4.57.6", "0.16.1/4.49.0")},
}


def main() -> None:
    """Takes the paths, and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PATHS, help="more than one may be named")
    parser.add_argument("--write", action="store_true", help="write these rows into benchmarks/real_paths.md")
    options = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    table = Path(__file__).with_suffix(".md")
    written = table.read_text().splitlines() if table.exists() else []
    rows = {name: line for name in PATHS for line in written if line.startswith(f"| {name} |")}
    for name in options.only or PATHS:
        rows[name] = f"| {name} | {PATHS[name]()}"
        print(rows[name], flush=True)
    if options.write:
        versions = "With " + ", ".join(f"{package} {version(package)}" for package in PACKAGES) + "."
        lines = "\n".join(rows[name] for name in PATHS if name in rows)
        table.write_text(f"{HEAD.format(versions=versions)}{lines}\n")


if __name__ == "__main__":
    main()

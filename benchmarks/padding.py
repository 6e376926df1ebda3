"""Measures what a GRPO step costs with TRL's padding and with grpo-run's defaults; `--write` makes padding.md.

    python benchmarks/padding.py [--model FOLDER] [--profiles gsm8k,math,tools] [--groups 8] [--device cuda] [--write]
    python benchmarks/padding.py --model FOLDER --profiles sums,questions [--groups 4] [--rows 4] [--rounding]
    python benchmarks/padding.py --rows 4
    python benchmarks/padding.py --count 1xH100-80GB --groups 32

Both train on the same completions, whose lengths are drawn from a profile, or which the model itself makes, at most 192
tokens of each (`sums`, `questions`): 8 for each prompt, beta 0.04, float32, one thread. The defaults are less padding
(SHM025) and the automatic micro-batch of a CPU (BAT001); TRL gets the micro-batch that is fastest for it on the first 8
rows.
Counted are the tokens that the policy and the reference model compute, the processor time of scoring and of the update,
and the peak of resident memory, each way in its own process; the gradients are compared. --rows gives both ways
micro-batches of one size. --rounding also cuts the step in other ways and computes it in float64. Without --model a
Qwen2 of 4 layers is made, 5 million parameters; a folder of a pretrained model is trained in whole. On a GPU it
computes in bfloat16 with gradient checkpointing in micro-batches of a fixed size, and seconds are those of the second
step by the clock: the first compiles.
"""

import argparse
import gc
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from grpo_recipes.api import load, plan

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "padding.md"
GENERATIONS = 8
# PFLOP of a step of a 7B model by these rows, at 6 per parameter and token of the update and 2 of the reference.
PARAMETERS_OF_7B = 7.6e9
OF_7B = "Qwen/Qwen2.5-7B-Instruct"


class Profile(NamedTuple):
    """Tokens of prompts, evenly from least to most; of completions, a lognormal of this median and spread, cut."""

    prompts: tuple[int, int]
    median: int
    spread: float
    longest: int


ANSWER_TOKENS = 192
QUESTIONS = [
    "What is 17 + 25? Answer with the number.",
    "Name three colours.",
    "A shop sells pens at 3 euros each. Anna buys 4 pens and pays with a note of 20 euros. How much does she get back?",
    "Is 91 a prime number? Say yes or no, and why.",
    "Write one sentence about the sea.",
    "A train leaves at 14:35 and arrives at 16:10. How many minutes does it take? Think step by step.",
    "What is the capital of France?",
    "Explain to a child why it rains.",
]
SUMS = [f"Give only the result.\n{first} + {second} = ?" for first, second in ((6, 10), (15, 10), (18, 3), (7, 12))]
ASKED = {"sums": (SUMS, 0.6), "questions": (QUESTIONS, 1.0)}
"""Questions, and the temperature of the answers; sums are those of `make real`."""
PROFILES = {
    "gsm8k": Profile((60, 220), 180, 0.45, 512),
    "math": Profile((60, 220), 400, 0.8, 2048),
    "tools": Profile((200, 400), 250, 0.7, 1024),
}


class Step(NamedTuple):
    """One step. tokens: that models computed; gradient: of all parameters, a torch.Tensor.

    scoring_s, update_s: processor time, on a GPU seconds by the clock. gib: the most that the process held, on a GPU
    what torch held.
    """

    tokens: int
    scoring_s: float
    update_s: float
    loss: float
    gradient: Any
    gib: float


class Row(NamedTuple):
    """A prompt's text and tokens, and a completion's tokens, its end with them where it ended."""

    prompt: str
    prompt_tokens: int
    completion: list[int]


def rows_of(name: str, groups: int, model_folder: Path) -> list[Row]:
    """Rows of a profile's lengths, or those that the model makes."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    if name not in ASKED:
        return drawn(PROFILES[name], groups, tokenizer)
    conversations, temperature = ASKED[name]
    return answered(conversations[:groups], temperature, model_folder, tokenizer)


def drawn(profile: Profile, groups: int, tokenizer: Any) -> list[Row]:
    """Prompts of one letter again and again, and completions of random tokens."""
    source, tokens, letter = random.Random(0), random.Random(0), tokenizer.encode("7", add_special_tokens=False)[0]
    rows = []
    for _ in range(groups):
        prompt = source.randint(*profile.prompts)
        for _ in range(GENERATIONS):
            length = completion_length(profile, source)
            ids = [tokens.randrange(3, len(tokenizer) // 2) for _ in range(length - 1)]
            rows.append(Row(tokenizer.decode([letter] * prompt), prompt, [*ids, tokenizer.eos_token_id]))
    return rows


def answered(questions: list[str], temperature: float, model_folder: Path, tokenizer: Any) -> list[Row]:
    """What the model answers, the same at each call. A system prompt stands before the first line break."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    torch.manual_seed(0)
    rows = []
    for question in questions:
        system, _, asks = question.rpartition("\n")
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": asks})
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        asked = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        width = asked["input_ids"].shape[1]
        made = model.generate(
            **asked,
            do_sample=True,
            top_k=0,
            temperature=temperature,
            max_new_tokens=ANSWER_TOKENS,
            num_return_sequences=GENERATIONS,
        )
        for ids in made[:, width:].tolist():
            end = ids.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in ids else len(ids)
            rows.append(Row(text, width, ids[:end]))
    return rows


def small_model(folder: Path) -> Path:
    """A model that nothing trained, with the tokenizer of the quickstart."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(ROOT / "recipes" / "quickstart" / "model")
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = Qwen2Config(**sizes, num_key_value_heads=4, vocab_size=len(tokenizer), max_position_embeddings=4096)
    config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Way(NamedTuple):
    """How a step is trained. sorts: rows, as SHM025. micro_batch: its rows. own_attention: as SHM026, on a GPU.

    double: in float64, norms included.
    """

    sorts: bool
    micro_batch: int
    own_attention: bool = False
    double: bool = False


TRIED = (2, 4, 8)
"""Micro-batches from which TRL gets its fastest."""
# How far apart two ways to cut the same step are by rounding alone, and how far each is from the exact gradient.
OF_ROUNDING = {
    "TRL, 4 rows": Way(False, 4),
    "TRL, 8 rows": Way(False, 8),
    "TRL, float64": Way(False, 4, double=True),
    "less padding, float64": Way(True, 4, double=True),
}
ON_A_GPU = {
    "TRL": Way(False, 8),
    "less padding": Way(True, 8, own_attention=True),
    "less padding, 16 rows": Way(True, 16, own_attention=True),
    "TRL without cuDNN's attention": Way(False, 8, own_attention=True),
}


def step(model_folder: Path, rows: list[Row], way: Way, work: Path, device: str) -> Step:
    """One optimizer step on rows of these lengths."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig

    from grpo_recipes.worker.memory.phase_peaks import resident_most
    from grpo_recipes.worker.shims import attention_gradient, less_padding
    from grpo_recipes.worker.trainer.observed import ObservedTrainer

    on_gpu = device == "cuda"
    gc.collect()
    if on_gpu:
        torch.backends.cuda.enable_cudnn_sdp(True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float64 if way.double else torch.float32)
    for norm in (part for part in model.modules() if way.double and type(part).__name__.endswith("RMSNorm")):
        # transformers computes it in float32, whatever it is given.
        norm.forward = partial(exact_norm, norm)
    longest = max(len(row.completion) for row in rows)
    seconds, tokens, kept = {"score": 0.0, "prepare": 0.0, "step": 0.0}, [0], []

    def now() -> float:
        if not on_gpu:
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def generate(input_ids: Any, **_: Any) -> Any:
        made = torch.full((len(rows), longest), tokenizer.pad_token_id)
        for place, row in enumerate(rows):
            made[place, : len(row.completion)] = torch.tensor(row.completion)
        return torch.cat([input_ids, made.to(input_ids.device)], dim=1)

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            tokens[0] = 0
            seconds.update(dict.fromkeys(seconds, 0.0))

        def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
            if not kept:
                kept.append(torch.cat([tensor.grad.flatten() for tensor in model.parameters()]))

    def timed(owner: Any, name: str, kind: Callable[[], str]) -> None:
        method = getattr(owner, name)

        def run(*given: Any, **named: Any) -> Any:
            phase, start = kind(), now()
            try:
                return method(*given, **named)
            finally:
                seconds[phase] += now() - start

        setattr(owner, name, run)

    config = GRPOConfig(
        output_dir=str(work),
        per_device_train_batch_size=way.micro_batch,
        gradient_accumulation_steps=len(rows) // way.micro_batch,
        num_generations=GENERATIONS,
        max_completion_length=longest,
        max_steps=2 if on_gpu else 1,
        logging_steps=1,
        beta=0.04,
        bf16=on_gpu,
        use_cpu=not on_gpu,
        gradient_checkpointing=on_gpu,
        max_grad_norm=1e9,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        shuffle_dataset=False,
    )
    prompts = [row.prompt for row in rows[::GENERATIONS]]
    trainer = ObservedTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(text) % 7) for text in completions],
        args=config,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        callbacks=[Keep()],
    )
    trainer.model.generate = generate
    for one in filter(None, (trainer.model, trainer.ref_model)):
        one.register_forward_pre_hook(
            lambda _, __, named: tokens.__setitem__(0, tokens[0] + named["input_ids"].numel()), with_kwargs=True
        )
    if way.own_attention:
        attention_gradient.on_trainer(trainer, True, None)  # type: ignore[arg-type]
    if way.sorts:
        less_padding.on_trainer(trainer, "sorted", None)  # type: ignore[arg-type]
    timed(trainer, "_get_per_token_logps_and_entropies", lambda: "step_score" if torch.is_grad_enabled() else "score")
    seconds["step_score"] = 0.0
    timed(trainer, "_prepare_inputs", lambda: "prepare")
    timed(trainer, "training_step", lambda: "step")
    trainer.train()
    loss = next(line["loss"] for line in trainer.state.log_history if "loss" in line)
    most = torch.cuda.max_memory_allocated() - before if on_gpu else resident_most()
    return Step(tokens[0], seconds["score"], seconds["step"] - seconds["prepare"], loss, kept[0], most / 2**30)


def in_a_process(model_folder: Path, rows: list[Row], way: Way, work: Path, device: str) -> Step:
    """One optimizer step in its own process, so that its peak of memory is its own; on a GPU in this one."""
    if device == "cuda":
        return step(model_folder, rows, way, work, device)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(step, model_folder, rows, way, work, device).result()


def default_rows(longest: int, groups: int, model: str, work: Path, gpus: str = "0") -> int:
    """The micro-batch that grpo-run chooses on this device for completions of up to so many tokens."""
    recipe = work / "recipe.yaml"
    rows = work / "rows.jsonl"
    rows.write_text('{"question": "6 + 10 = ?", "answer": "16"}\n' * 64, encoding="utf-8")
    sections = {
        "recipe": 1,
        "name": "padding",
        "model": {"model_name_or_path": model},
        "lora": {"r": 16} if gpus != "0" else None,
        "dataset": {"path": str(rows), "prompt": "{{ question }}", "columns": {"solution": "{{ answer }}"}},
        "rewards": [{"name": "completion_length", "options": {"target": 2}}],
        "generation": {"max_completion_length": longest},
        "training": {"prompts_per_step": groups, "max_steps": 1},
    }
    recipe.write_text(json.dumps(sections), encoding="utf-8")
    return plan(load(recipe), target=f"tested,gpus={gpus}").batch.micro_batch


def counted(name: str, groups: int, gpus: str, work: Path) -> str:
    """A row of the table of a device that is not here: the tokens of a 7B model with the micro-batch of the plan."""
    profile, source = PROFILES[name], random.Random(0)
    prompts = [source.randint(*profile.prompts) for _ in range(groups)]
    rows = [(prompt, completion_length(profile, source)) for prompt in prompts for _ in range(GENERATIONS)]
    size = default_rows(profile.longest, groups, OF_7B, work, gpus)
    by_trl = len(rows) * (max(prompt for prompt, _ in rows) + max(completion for _, completion in rows))
    lengths = sorted((sum(row) for row in rows), reverse=True)
    own = sum(lengths[start] * size for start in range(0, len(lengths), size))
    flop = [f"{tokens * 8 * PARAMETERS_OF_7B / 1e15:.1f}" for tokens in (by_trl, own)]
    cells = [name, str(size), f"{sum(lengths):,}", f"{by_trl:,}", f"{own:,}", f"**{own / by_trl:.2f}**", *flop]
    return f"| {' | '.join(cells)} |"


def completion_length(profile: Profile, source: random.Random) -> int:
    """The tokens of one completion."""
    length = round(math.exp(math.log(profile.median) + profile.spread * source.gauss(0, 1)))
    return min(max(length, 8), profile.longest)


def fastest_rows(model_folder: Path, rows: list[Row], work: Path) -> int:
    """The micro-batch with which TRL needs the least processor time for its first group."""
    spent = {}
    for size in TRIED:
        tried = step(model_folder, rows[:GENERATIONS], Way(False, size), work, "cpu")
        spent[size] = tried.scoring_s + tried.update_s
    return min(spent, key=lambda size: spent[size])


def exact_norm(norm: Any, hidden: Any) -> Any:
    """What an RMSNorm of transformers gives, in the type of the values."""
    return norm.weight * hidden * (hidden.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()


def difference(one: Step, other: Step) -> float:
    """How far the gradients are apart, in parts of the first one's norm."""
    return float((other.gradient.double() - one.gradient.double()).norm() / one.gradient.double().norm())


def figures(profile: str, way: str, steps: dict[str, Step]) -> str:
    """What was measured, as JSON; the gradient as its difference to that of each other step."""
    apart = {name: difference(other, steps[way]) for name, other in steps.items() if name != way}
    return json.dumps({"profile": profile, "way": way, **steps[way]._asdict(), "gradient": apart})


COLUMNS = (
    "lengths",
    "rows in a micro-batch",
    "tokens of the rows",
    "by TRL",
    "with the defaults",
    "scoring, CPU s",
    "update, CPU s",
    "of TRL's",
    "peak, GiB",
    "gradients apart",
    "losses apart",
    "PFLOP of a 7B",
)
COUNTED = (
    "lengths",
    "rows in a micro-batch",
    "tokens of the rows",
    "by TRL",
    "with the defaults",
    "of TRL's",
    "PFLOP by TRL",
    "with the defaults",
)


def line(name: str, rows: list[Row], ways: Mapping[str, Way], steps: Mapping[str, Step]) -> str:
    """A row of the table."""
    trl, own = steps["TRL"], steps["less padding"]
    apart = difference(trl, own)
    spent = [each.scoring_s + each.update_s for each in (trl, own)]
    real = sum(row.prompt_tokens + len(row.completion) for row in rows)
    flop = [f"{each.tokens / 2 * 8 * PARAMETERS_OF_7B / 1e15:.1f}" for each in (trl, own)]
    cells = [
        name,
        f"{ways['TRL'].micro_batch} / {ways['less padding'].micro_batch}",
        f"{real * 2:,}",
        f"{trl.tokens:,}",
        f"{own.tokens:,}",
        f"{trl.scoring_s:.1f} / {own.scoring_s:.1f}",
        f"{trl.update_s:.1f} / {own.update_s:.1f}",
        f"**{spent[1] / spent[0]:.2f}**",
        f"{trl.gib:.2f} / {own.gib:.2f}",
        f"{apart:.0e}",
        f"{abs(own.loss - trl.loss):.0e}",
        " / ".join(flop),
    ]
    return f"| {' | '.join(cells)} |"


def ways_of(name: str, rows: list[Row], model: Path, work: Path, options: argparse.Namespace) -> dict[str, Way]:
    """The ways to compare."""
    if options.device == "cuda":
        return ON_A_GPU
    longest = ANSWER_TOKENS if name in ASKED else PROFILES[name].longest
    trl, own = options.rows, options.rows
    if options.rows is None:
        trl, own = fastest_rows(model, rows, work), default_rows(longest, options.groups, str(model.resolve()), work)
    ways = {"TRL": Way(False, trl), "less padding": Way(True, own)}
    return ways | (OF_ROUNDING if options.rounding else {})


def main() -> None:
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounding", action="store_true")
    parser.add_argument("--count", metavar="GPUS", help="count tokens on such a machine, 1xH100-80GB, without training")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write and (options.rows is not None or not PROFILES.keys() >= set(options.profiles.split(","))):
        parser.error("--write writes the table of drawn lengths with the defaults")
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if options.device == "cpu":
        os.environ["OMP_NUM_THREADS"] = "1"
    if options.count:
        print(f"| {' | '.join(COUNTED)} |", f"|---|{'---:|' * (len(COUNTED) - 1)}", sep="\n")
        with tempfile.TemporaryDirectory() as work:
            for name in options.profiles.split(","):
                print(counted(name, options.groups, options.count, Path(work)))
        return
    table = [f"| {' | '.join(COLUMNS)} |", f"|---|{'---:|' * (len(COLUMNS) - 1)}"]
    with tempfile.TemporaryDirectory() as work:
        model = options.model or small_model(Path(work, "model"))
        for name in options.profiles.split(","):
            rows = rows_of(name, options.groups, model)
            ways = ways_of(name, rows, model, Path(work), options)
            steps: dict[str, Step] = {}
            for key, way in ways.items():
                steps[key] = in_a_process(model, rows, way, Path(work), options.device)
                print(figures(name, key, steps), flush=True)
                if key == "less padding":
                    table.append(line(name, rows, ways, steps))
                    print(table[-1], flush=True)
    if options.write:
        begin, end = "<!-- padding.py -->\n", "<!-- end of padding.py -->\n"
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(begin)[0], text.split(end)[1]
        PAGE.write_text(before + begin + "\n".join(table) + "\n" + end + after, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

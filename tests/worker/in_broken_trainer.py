"""Trains run folders in forks of one process that has the libraries: `python in_broken_trainer.py` answers JSON lines.

A fault is a function here that breaks trl, transformers or peft for the whole fork, as a patch, a remote-code class
or a defect of a release would, before the worker's own entry point runs.
"""

import copy
import functools
import importlib
import json
import os
import re
import resource
import signal
import socket
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
import trl
from transformers import GenerationMixin
from trl import GRPOTrainer

from grpo_recipes.contract.patterns import Asked
from grpo_recipes.worker.survival import stall_monitor


def nothing() -> None:
    """The trainer as it is."""


def _at_first_loss(change: Callable[[Any], None]) -> None:
    """Changes the live trainer once, after all checks, when it computes its first loss."""
    original, done = GRPOTrainer.compute_loss, []

    def compute_loss(self: Any, *given: Any, **named: Any) -> Any:
        if not done:
            done.append(change(self))
        return original(self, *given, **named)

    GRPOTrainer.compute_loss = compute_loss


def another_world() -> None:
    def change(trainer: Any) -> None:
        type(trainer.accelerator).num_processes = property(lambda self: 3)

    from grpo_recipes.worker._shared import library

    library.gather_object = lambda own: own
    _at_first_loss(change)


def a_part_of_the_model_elsewhere() -> None:
    def change(trainer: Any) -> None:
        trainer.model.register_parameter("stray", torch.nn.Parameter(torch.ones(1, device="meta"), requires_grad=False))

    _at_first_loss(change)


def _scored_by_hand(keyword: dict[str, int], cut: int) -> None:
    """Log-probabilities as older releases computed them: from logits, with a keyword for how many."""

    def score(self: Any, model: Any, ids: Any, mask: Any, kept: int, **_: Any) -> Any:
        wanted = {name: kept + more for name, more in keyword.items()}
        logits = model(input_ids=ids, attention_mask=mask, **wanted).logits
        logits = logits[:, : logits.shape[1] - cut]
        chosen = torch.gather(logits.log_softmax(-1)[:, :kept], 2, ids[:, -kept:].unsqueeze(2)).squeeze(2)
        return chosen, torch.zeros_like(chosen), None

    GRPOTrainer._get_per_token_logps_and_entropies = score


def logits_as_in_older_releases() -> None:
    _scored_by_hand({"logits_to_keep": 1}, cut=1)


def logits_keyword_that_is_ignored() -> None:
    _scored_by_hand({"num_logits_to_keep": 1}, cut=1)


def one_logit_too_few() -> None:
    _scored_by_hand({"logits_to_keep": 0}, cut=0)


def adapter_switched_off() -> None:
    _at_first_loss(lambda trainer: trainer.model.base_model.disable_adapter_layers())


def one_layer_detached() -> None:
    from peft.tuners.lora import Linear

    original = Linear.forward

    def forward(self: Any, x: Any, *given: Any, **named: Any) -> Any:
        found = original(self, x, *given, **named)
        return found.detach() + 0 * x.sum() if self.base_layer.out_features == 32 else found

    Linear.forward = forward


def gradients_thrown_away() -> None:
    """After each backward pass, before callbacks and the optimizer see them."""
    original = GRPOTrainer._get_grad_norm

    def grad_norm(self: Any, model: Any, **named: Any) -> Any:
        for name, parameter in self.model.named_parameters():
            if "layers.1" in name:
                parameter.grad = None
        return original(self, model, **named)

    GRPOTrainer._get_grad_norm = grad_norm


def loss_that_is_no_number() -> None:
    original = GRPOTrainer.compute_loss
    GRPOTrainer.compute_loss = lambda self, *given, **named: original(self, *given, **named) * float("nan")


def loss_that_is_no_number_on_rank_1() -> None:
    """From the third step on."""
    original, calls = GRPOTrainer.compute_loss, []

    def compute_loss(self: Any, *given: Any, **named: Any) -> Any:
        calls.append(1)
        is_lost = len(calls) > 2 and os.environ["RANK"] == "1"
        return original(self, *given, **named) * (float("nan") if is_lost else 1.0)

    GRPOTrainer.compute_loss = compute_loss


def optimizer_that_does_nothing() -> None:
    torch.optim.AdamW.step = lambda self, closure=None: None


def optimizer_without_the_last_layer() -> None:
    original = GRPOTrainer.create_optimizer

    def create(self: Any, *given: Any, **named: Any) -> Any:
        made = original(self, *given, **named)
        last = {id(p) for name, p in self.model.named_parameters() if "layers.1" in name}
        for group in made.param_groups:
            group["params"] = [p for p in group["params"] if id(p) not in last]
        return made

    GRPOTrainer.create_optimizer = create


def optimizer_that_stops_later() -> None:
    """As a callback that empties the optimizer after the proofs were made."""
    update, calls = torch.optim.AdamW.step, []

    def step(self: Any, closure: Any = None) -> None:
        calls.append(1)
        if len(calls) <= 3:
            update(self)

    torch.optim.AdamW.step = step


def adapter_set_back_to_zero() -> None:
    """As a callback that resets some tensors: the B of q_proj and o_proj, which have this shape alone."""
    update = torch.optim.AdamW.step

    def step(self: Any, closure: Any = None) -> None:
        update(self)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.shape == (64, 4):
                    parameter.data.zero_()

    torch.optim.AdamW.step = step


def rewards_without_variance() -> None:
    original = GRPOTrainer._calculate_rewards
    GRPOTrainer._calculate_rewards = lambda self, *given: original(self, *given) * 0.0


def rewards_without_variance_at_first() -> None:
    original, calls = GRPOTrainer._calculate_rewards, []

    def rewards(self: Any, *given: Any) -> Any:
        calls.append(1)
        return original(self, *given) * float(len(calls) > 3)

    GRPOTrainer._calculate_rewards = rewards


def advantages_that_come_back() -> None:
    from grpo_recipes.worker.shims import equal_rewards

    apply = equal_rewards.on_trainer

    def on_trainer(trainer: Any, value: object, plan: Any) -> str:
        from grpo_recipes.worker._shared.equal_rewards import watch_groups

        kept: list[Any] = []
        watch_groups(trainer, "equal rewards", lambda _, __, found: kept.append(found["advantages"].clone()))
        said = apply(trainer, value, plan)
        watch_groups(trainer, "equal rewards", lambda _, __, found: found.update(advantages=kept.pop()))
        return said

    equal_rewards.on_trainer = on_trainer


def positions_that_are_absolute() -> None:
    """A model that adds to each token what its column says, as one with learned positions does."""

    def change(trainer: Any) -> None:
        def add(module: Any, _: Any, states: Any) -> Any:
            return states + torch.arange(states.shape[1]).sin()[:, None]

        trainer.model.get_input_embeddings().register_forward_hook(add)

    _at_the_start(change)


def weights_in_half_precision() -> None:
    _at_first_loss(lambda trainer: trainer.model.to(torch.bfloat16))


def weights_in_single_precision() -> None:
    _at_first_loss(lambda trainer: trainer.model.model.float())


def _at_the_start(change: Callable[[Any], None]) -> None:
    """Changes the trainer when it is built, before all checks."""
    original = GRPOTrainer.__init__

    def built(self: Any, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        change(self)

    GRPOTrainer.__init__ = built


def head_stays_in_half_precision() -> None:
    _at_the_start(lambda trainer: trainer.model.lm_head.to(torch.bfloat16))


def head_in_single_precision() -> None:
    _at_the_start(lambda trainer: trainer.model.lm_head.float())


def adapter_in_half_precision() -> None:
    def change(trainer: Any) -> None:
        for name, parameter in trainer.model.named_parameters():
            if "lora_" in name:
                parameter.data = parameter.data.to(torch.bfloat16)

    _at_first_loss(change)


def scores_in_half_precision() -> None:
    original = GRPOTrainer._get_per_token_logps_and_entropies

    def score(self: Any, *given: Any, **named: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not torch.is_grad_enabled()):
            return original(self, *given, **named)

    GRPOTrainer._get_per_token_logps_and_entropies = score


def autocast_that_nobody_planned() -> None:
    original = GRPOTrainer._compute_loss

    def compute(self: Any, *given: Any, **named: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return original(self, *given, **named)

    GRPOTrainer._compute_loss = compute


def quantized_reference() -> None:
    def change(trainer: Any) -> None:
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig

        trainer.ref_model = AutoModelForCausalLM.from_pretrained(
            trainer.model.get_base_model().config._name_or_path,
            quantization_config=BitsAndBytesConfig(load_in_4bit=True),
            dtype=torch.float32,
        )

    _at_first_loss(change)


def _masks(change: Callable[[Any, dict[str, Any]], None]) -> None:
    """Changes what goes into the first loss, where the mask of a release would be wrong."""
    original = GRPOTrainer._generate_and_score_completions

    def generate(self: Any, *given: Any) -> Any:
        made = original(self, *given)
        change(self, made)
        return made

    GRPOTrainer._generate_and_score_completions = generate


def mask_over_the_padding() -> None:
    def change(trainer: Any, made: dict[str, Any]) -> None:
        tokenizer, ids = trainer.processing_class, made["completion_ids"]
        ids[:, 2], ids[:, 3:] = tokenizer.eos_token_id, tokenizer.pad_token_id
        made["completion_mask"].fill_(1)

    _masks(change)


def mask_that_ends_early() -> None:
    _masks(lambda _, made: made["completion_mask"][:, 3:].fill_(0))


def stop_that_the_mask_does_not_know() -> None:
    """As `eos_token_id` in generation_kwargs: generation stops at "5", the rest is PAD, the mask is all ones."""

    def change(trainer: Any, made: dict[str, Any]) -> None:
        ids, mask = made["completion_ids"], made["completion_mask"]
        padding, stop = trainer.processing_class.pad_token_id, 8
        ids[ids == trainer.processing_class.eos_token_id] = stop
        ids[:, 1] = torch.where(torch.arange(len(ids)) % 2 == 0, stop, ids[:, 1])
        ids[::2, 2:] = padding
        mask.fill_(1)

    _masks(change)


def _generates_with(change: Callable[[dict[str, Any], bool], None]) -> None:
    """Changes what generate calls the model with. change: also gets whether it is the pass over the prompt."""
    original = GenerationMixin.prepare_inputs_for_generation

    # transformers takes a parameter that is called kwargs for one that passes everything on.
    def prepared(self: Any, *given: Any, is_first_iteration: bool = False, **kwargs: Any) -> Any:
        inputs = original(self, *given, is_first_iteration=is_first_iteration, **kwargs)
        change(inputs, is_first_iteration)
        return inputs

    GenerationMixin.prepare_inputs_for_generation = prepared


def generation_without_the_prompt() -> None:
    def change(inputs: dict[str, Any], is_first: bool) -> None:
        if not is_first:
            inputs["cache" if "cache" in inputs else "past_key_values"] = None  # since transformers 5.24

    _generates_with(change)


def generation_at_shifted_positions() -> None:
    def change(inputs: dict[str, Any], is_first: bool) -> None:
        if not is_first:
            inputs["position_ids"] = inputs["position_ids"] + 1

    _generates_with(change)


def generation_with_half_the_prompt() -> None:
    def change(inputs: dict[str, Any], is_first: bool) -> None:
        mask = inputs["attention_mask"].clone()
        width = mask.shape[1]
        mask[:, : width - width // 2] = 0
        inputs["attention_mask"] = mask

    _generates_with(change)


def generation_without_the_adapter() -> None:
    from peft import PeftModelForCausalLM

    generate = PeftModelForCausalLM.generate

    def without(self: Any, *given: Any, **named: Any) -> Any:
        with self.disable_adapter():
            return generate(self, *given, **named)

    PeftModelForCausalLM.generate = without


def generation_by_an_old_adapter() -> None:
    """The adapter of the first generation in all later ones."""
    from peft import PeftModelForCausalLM

    generate, old = PeftModelForCausalLM.generate, {}

    def before(self: Any, *given: Any, **named: Any) -> Any:
        adapter = {name: value for name, value in self.named_parameters() if "lora_" in name}
        new = {name: value.detach().clone() for name, value in adapter.items()}
        old.update({} if old else new)
        try:
            for name, value in adapter.items():
                value.data.copy_(old[name])
            return generate(self, *given, **named)
        finally:
            for name, value in adapter.items():
                value.data.copy_(new[name])

    PeftModelForCausalLM.generate = before


def generation_by_a_copy() -> None:
    from peft import PeftModelForCausalLM

    generate = PeftModelForCausalLM.generate
    copies: list[Any] = []

    def of_copy(self: Any, *given: Any, **named: Any) -> Any:
        if not copies:
            observed = vars(self).pop("generate")  # refers to the trainer, which cannot be copied
            copies.append(copy.deepcopy(self))
            self.generate = observed
        return generate(copies[0], *given, **named)

    PeftModelForCausalLM.generate = of_copy


def images_that_the_loss_does_not_get() -> None:
    original = GRPOTrainer._get_per_token_logps_and_entropies

    def score(self: Any, *given: Any, **named: Any) -> Any:
        return original(self, *given, **{name: value for name, value in named.items() if "pixel" not in name})

    GRPOTrainer._get_per_token_logps_and_entropies = score


def images_that_the_generation_does_not_get() -> None:
    original = GRPOTrainer._generate_single_turn

    def generate(self: Any, ids: Any, images: Any, fields: Any, *given: Any, **named: Any) -> Any:
        return original(self, ids, None, {}, *given, **named)

    GRPOTrainer._generate_single_turn = generate


def other_images_in_the_loss() -> None:
    original = GRPOTrainer._get_per_token_logps_and_entropies

    @functools.wraps(original)
    def score(self: Any, *given: Any, **named: Any) -> Any:
        return original(self, *given, **{**named, "pixel_values": named["pixel_values"] * 0.5})

    GRPOTrainer._get_per_token_logps_and_entropies = score


def images_of_the_next_row_in_the_loss() -> None:
    _masks(lambda _, made: made.update(pixel_values=made["pixel_values"].roll(1, dims=0)))


def _called_in_evaluations_with(change: Callable[[dict[str, Any]], None]) -> None:
    """Changes what the model is called with, of several processes on the second alone."""
    generate = GenerationMixin.generate

    def changed(self: Any, *given: Any, **named: Any) -> Any:
        if not self.training and os.environ.get("RANK", "1") == "1":
            change(named)
        return generate(self, *given, **named)

    GenerationMixin.generate = changed


def images_that_held_out_rows_do_not_get() -> None:
    _called_in_evaluations_with(lambda named: [named.pop(name) for name in [*named] if name.startswith("pixel_")])


def images_of_the_next_held_out_row() -> None:
    _called_in_evaluations_with(lambda named: named.update(pixel_values=named["pixel_values"].roll(1, dims=0)))


def images_among_the_trained_tokens() -> None:
    """As a border between prompt and completion that is counted without images."""

    def change(_: Any, made: dict[str, Any]) -> None:
        for name in ("ids", "mask"):
            whole = torch.cat([made[f"prompt_{name}"], made[f"completion_{name}"]], dim=1)
            border = 1
            made[f"prompt_{name}"], made[f"completion_{name}"] = whole[:, :border], whole[:, border:]

    _masks(change)


def _drops_from_losses(change: Callable[[dict[str, Any]], None]) -> None:
    """Changes what TRL made of a generation with replies of tools."""

    def of_made(_: Any, made: dict[str, Any]) -> None:
        change(made)

    _masks(of_made)


def tool_mask_that_is_lost() -> None:
    _drops_from_losses(lambda made: made.pop("tool_mask"))


def tool_mask_of_ones() -> None:
    _drops_from_losses(lambda made: made["tool_mask"].fill_(1))


def tool_mask_that_is_shifted() -> None:
    _drops_from_losses(lambda made: made.update(tool_mask=made["tool_mask"].roll(1, dims=1)))


def own_turns_left_out() -> None:
    """Of each completion the first turn alone is trained."""
    _drops_from_losses(lambda made: made.update(tool_mask=made["tool_mask"].cumprod(dim=1)))


def tool_mask_that_the_loss_does_not_use() -> None:
    """As a loss of one's own that was written before there were tools."""
    original = GRPOTrainer._compute_loss

    def compute(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        return original(self, model, {name: value for name, value in inputs.items() if name != "tool_mask"})

    GRPOTrainer._compute_loss = compute


def turns_tokenized_anew() -> None:
    """As a rollout that goes from text to tokens between turns: a digit in one token becomes another spelling."""
    original = GRPOTrainer._tool_call_loop

    def loop(self: Any, *given: Any) -> Any:
        mask, completions, ids, *rest = original(self, *given)
        calls = self.processing_class.convert_tokens_to_ids("<tool_call>")
        spelled = [self.processing_class.convert_tokens_to_ids(one) for one in "<t"]
        for place, row in enumerate(ids):
            if row[:1] == [calls] and 0 in mask[place]:
                ids[place], mask[place] = [*spelled[1:], *spelled[1:], *row[1:]], [1, *mask[place]]
        return mask, completions, ids, *rest

    GRPOTrainer._tool_call_loop = loop


def replies_that_the_loss_does_not_see() -> None:
    """As a loss that takes the mask of the policy's own tokens for the attention mask."""
    own, score = GRPOTrainer._compute_loss, GRPOTrainer._get_per_token_logps_and_entropies
    masks: list[Any] = []

    def compute(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        masks[:] = [inputs["tool_mask"]]
        return own(self, model, inputs)

    def scored(self: Any, model: Any, ids: Any, mask: Any, kept: int, *given: Any, **named: Any) -> Any:
        if torch.is_grad_enabled():
            mask = torch.cat([mask[:, :-kept], mask[:, -kept:] * masks[0]], dim=1)
        return score(self, model, ids, mask, kept, *given, **named)

    GRPOTrainer._compute_loss, GRPOTrainer._get_per_token_logps_and_entropies = compute, scored


def loss_at_another_temperature() -> None:
    from trl.trainer import grpo_trainer

    original = grpo_trainer.add_fused_lm_head

    def add(model: Any, **named: Any) -> None:
        original(model, **{**named, "temperature": 1.1})

    grpo_trainer.add_fused_lm_head = add


def prompts_of_another_template() -> None:
    """What is trained does not tell the policy of its tools."""

    def change(trainer: Any, made: dict[str, Any]) -> None:
        begin, end = (trainer.processing_class.convert_tokens_to_ids(f"<|im_{one}|>") for one in ("start", "end"))
        for ids, mask in zip(made["prompt_ids"], made["prompt_mask"], strict=True):
            assert ids[mask.bool()][0] == begin, "the turn of the tools"
            first = int(mask.argmax())
            mask[first : first + int((ids[first:] == end).int().argmax()) + 1] = 0

    _masks(change)


def little_memory(mebibytes: int = 256) -> None:
    """Whatever this process takes from now on, beside what it has, has to fit into that."""
    status = Path("/proc/self/status").read_text()
    held = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:")) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (held + (mebibytes << 20), resource.RLIM_INFINITY))


def little_memory_for_completions() -> None:
    original = GRPOTrainer._generate

    def generate(self: Any, *given: Any) -> Any:
        little_memory(32)
        return original(self, *given)

    GRPOTrainer._generate = generate


def activities_that_are_late_soon() -> None:
    """Those without a median: after three seconds instead of six, and ended after twelve."""
    from grpo_recipes.worker.guards import no_progress

    no_progress.UNKNOWN_FACTOR = 3


def memory_that_is_compared_soon() -> None:
    """The guard compares stretches of three steps, so that a test needs no sixty."""
    from grpo_recipes.worker.guards import memory_growth

    memory_growth.STEPS = 3


def phases_that_nobody_watches() -> None:
    from grpo_recipes.worker import training

    training.watch_phases = lambda trainer, peaks: None


def a_signal_in_the_warm_start() -> None:
    """The run is asked to stop in its third step."""
    from grpo_recipes.worker.callbacks.warm_start import WarmStartCallback

    take = WarmStartCallback._train

    def ask_and_take(self: Any, rate: float) -> None:
        if self.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        take(self, rate)

    WarmStartCallback._train = ask_and_take


def train(request: dict[str, Any]) -> int:
    """The exit code of the worker in a folder with a fault."""
    from grpo_recipes.worker.run import train as worker

    globals()[request["fault"]]()
    return worker(Path(request["folder"]), resume=request.get("resume", False))


def rewritten(request: dict[str, Any]) -> int:
    """As train, with another source of TRL's trainer and those it is made from.

    changes: pairs of a regular expression and what replaces it in all of them.
    """
    from transformers import trainer as of_transformers
    from trl.trainer import base_trainer, grpo_trainer

    from grpo_recipes.worker.model import build_trainer
    from grpo_recipes.worker.trainer import observed

    found: Counter[str] = Counter()
    is_changed = False
    for module in (of_transformers, base_trainer, grpo_trainer):
        source = Path(module.__file__).read_text()
        for old, new in request["changes"]:
            source, number = re.subn(old, new, source)
            found[old] += number
        is_changed |= any(found.values())
        if not is_changed:
            continue
        exec(compile(source, module.__file__, "exec"), vars(module))
        if module is of_transformers:
            base_trainer.Trainer = transformers.Trainer = of_transformers.Trainer
    assert all(found[old] for old, _ in request["changes"]), "the text does not occur"
    trl.GRPOTrainer = grpo_trainer.GRPOTrainer
    build_trainer.ObservedTrainer = importlib.reload(observed).ObservedTrainer
    return train({"fault": "nothing", **request})


def watched(request: dict[str, Any]) -> int:
    """As train; says afterwards whether anything still hangs on the trainer."""
    trainers: list[Any] = []
    original = GRPOTrainer.train

    def train_and_look(self: Any, *given: Any, **named: Any) -> Any:
        trainers.append(self)
        return original(self, *given, **named)

    GRPOTrainer.train = train_and_look
    code = train(request)
    (trainer,) = trainers
    hooks = [name for name, module in trainer.model.named_modules() if module._forward_hooks]
    tensors = [name for name, parameter in trainer.model.named_parameters() if parameter._backward_hooks]
    callbacks = [type(each).__name__ for each in trainer.callback_handler.callbacks if "Proof" in type(each).__name__]
    print(json.dumps({"left": [hooks, tensors, callbacks, "compute_loss" in vars(trainer)]}), flush=True)
    return code


def _found_here(patterns: list[str], texts: list[str], how: str, _: int) -> list[Asked]:
    return [Asked(tuple(getattr(re, how)(pattern, text) is not None for text in texts)) for pattern in patterns]


def _start_program(folder: Path, rank: int, processes: int) -> None:
    """Starts the program that watches for stalls where a test is about it."""
    guards = json.loads((folder / "plan.json").read_text())["guards"]
    if processes > 1 or guards["no_progress_seconds"] == 1:
        stall_monitor.start_program(folder, rank, processes)


def in_forks(request: dict[str, Any]) -> dict[str, Any]:
    """Exit codes and output of one training in a fork, or in as many as `ranks`."""
    ranks = request.get("ranks", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.getsockname()[1])}
    with tempfile.TemporaryFile("w+") as output:
        children = []
        for rank in range(ranks):
            children.append(os.fork())
            if children[-1] == 0:
                if ranks > 1:
                    of_rank = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
                    os.environ.update(address | of_rank | {"ACCELERATE_USE_CPU": "true"})
                _in_child(request, output.fileno())
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        output.seek(0)
        return {"exit_code": codes[0], "exit_codes": codes, "output": output.read()}


def _in_child(request: dict[str, Any], output: int) -> None:
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(request.get("environ", {}))
        code = globals()[request.get("call", "train")](request)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.libraries import import_libraries

    import grpo_recipes.worker.training  # noqa: F401 (what the forks share)
    from grpo_recipes.rewards import regex_match
    from grpo_recipes.worker import run

    # Two programs cost a third of a short training: one matches for each call of a reward, one watches for stalls.
    regex_match.ask_once = _found_here
    run.start_program = _start_program
    import_libraries()

    for line in sys.stdin:
        print(json.dumps(in_forks(json.loads(line))), flush=True)
    os._exit(0)

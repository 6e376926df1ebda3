"""The proofs before the first step, in the order in which they are shown."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import ON_OWN_DEVICE
from grpo_recipes.worker.proofs.before_training.compared import Compared, Comparison, Loaded

Compare = Callable[[Plan, Loaded], Iterator[Compared]]

OF_SEVERAL_PROCESSES = ("average_tokens_across_devices",)
NO_SUCH_ARGUMENT = "no such argument"
SHOWN_NAMES = 6
OTHER = "the vLLM server has a different tokenizer or model than the trainer"
SAME_MODEL = "start vLLM from the folder that the trainer loads, with its tokenizer and its added tokens"

PROOFS: list[tuple[str, str, Compare]] = []


def compared(plan: Plan, everyone: Sequence[Loaded]) -> list[Comparison]:
    """Returns all values of the first process, and those of other processes that differ. everyone: at least one."""
    return [Comparison(id_, name, tuple(_on_all(compare, plan, everyone))) for id_, name, compare in PROOFS]


def _on_all(compare: Compare, plan: Plan, everyone: Sequence[Loaded]) -> Iterator[Compared]:
    first, *others = everyone
    own = list(compare(plan, first))
    yield from own
    seen_values = {repr(value) for value in own}
    for other in others:
        for value in compare(plan, other):
            if not value.ok and repr(value) not in seen_values:
                seen_values.add(repr(value))
                yield replace(value, name=f"{value.name} (rank {other.rank})")


def _before_training(id_: str, name: str) -> Callable[[Compare], Compare]:
    def register(compare: Compare) -> Compare:
        PROOFS.append((id_, name, compare))
        return compare

    return register


@_before_training("PRF012", "ZeRO stage")
def zero_stage(plan: Plan, loaded: Loaded) -> Iterator[Compared]:
    """Before the first step, the trainer is set to the planned ZeRO stage.

    Catches: a launcher configuration that DeepSpeed ignores, which leaves the whole model on each process, and a
    stage that differs from the plan's and needs a different amount of memory. Without DeepSpeed the stage is 0.
    Source: accelerate's state.py (deepspeed_plugin).
    """
    yield Compared("DeepSpeed stage", plan.expect.deepspeed_stage, loaded.deepspeed_stage)


@_before_training("PRF013", "arguments")
def arguments(plan: Plan, loaded: Loaded) -> Iterator[Compared]:
    """The trainer's arguments, as GRPOConfig, Trainer and DeepSpeed leave them, are the planned ones.

    Catches: a value that `__post_init__` recomputed, a value that an environment variable or a launcher's configuration
    replaced, and a default that differs between the planned release and the installed one.
    average_tokens_across_devices has no meaning in one process; older releases of transformers turn it off there.
    Source: trl's grpo_config.py, transformers' training_args.py.
    """
    for name, value in plan.expect.arguments.items():
        if name in OF_SEVERAL_PROCESSES and plan.expect.world_size == 1:
            continue
        yield Compared(f"GRPOConfig.{name}", value, loaded.arguments.get(name, NO_SUCH_ARGUMENT))


@_before_training("PRF014", "trained tensors")
def trained_tensors(plan: Plan, loaded: Loaded) -> Iterator[Compared]:
    """The trained tensors are those of the plan, by name and by their number of parameters.

    With LoRA these are the adapter tensors of the planned modules, `modules_to_save`, trained tokens and biases;
    otherwise all. Catches: target modules that match nothing or too much among this release's names, an adapter
    whose requires_grad was turned off, and a base model that stayed trainable with it.
    Source: peft 0.21.2 tuners/lora, for the names of the tensors.
    """
    yield Compared("trained but not planned", "none", _names(loaded.trained - loaded.expected))
    yield Compared("planned but not trained", "none", _names(loaded.expected - loaded.trained))
    if plan.expect.trainable_parameters is not None:
        yield Compared("trainable parameters", plan.expect.trainable_parameters, loaded.numbers)


def _names(names: frozenset[str]) -> str:
    return join_items(sorted(names), SHOWN_NAMES) or "none"


@_before_training("PRF015", "dtype of the weights")
def dtype_of_the_weights(plan: Plan, loaded: Loaded) -> Iterator[Compared]:
    """The model's weights are loaded in the planned dtype; adapters and packed 4-bit weights do not count.

    With cast_lm_head_to_fp32 the output layer, and an embedding that is tied to it, is in float32 instead.

    Catches: weights in a different dtype than the recipe's, before the first step takes minutes. PRF006 checks the
    same while the loss is computed, when a package or a patch may have cast them.
    Source: trl's grpo_trainer.py (model_init_kwargs: `torch_dtype` up to 0.26, `dtype` after).
    """
    if plan.expect.weights_dtype is not None:
        yield Compared("dtype of the weights", plan.expect.weights_dtype, ", ".join(loaded.weights))


@_before_training("PRF016", "device")
def device(plan: Plan, loaded: Loaded) -> Iterator[Compared]:
    """Each process holds the whole model on its own device, if the plan loads it there.

    Catches: a quantized model that was loaded onto a different GPU than its process uses, or spread over several; it
    cannot be moved afterwards. A model that the trainer moves is checked in the first step (PRF002).
    Source: trl's grpo_trainer.py (device_map), transformers' quantizers.
    """
    if plan.arguments.model_init_kwargs.get("device_map") == ON_OWN_DEVICE:
        yield Compared("device", loaded.device, ", ".join(loaded.parameter_devices))


@_before_training("PRF017", "dtype of vLLM")
def dtype_of_vllm(plan: Plan, loaded: Loaded) -> Iterator[Compared]:
    """vLLM computes in the planned dtype, if it reports one.

    Catches: a server that was started with a different --dtype, or whose model has a different default. Its
    log-probabilities would differ from the policy's by more than PRF010 allows.
    Source: vllm 0.31.0 (model_config.dtype, /server_info of its development mode).
    """
    if plan.vllm is None or loaded.vllm_dtype is None:
        return
    because = "its probabilities would differ from the policy's by more than the plan allows"
    yield Compared("dtype of vLLM", plan.vllm.dtype, loaded.vllm_dtype, because, f"vLLM with --dtype {plan.vllm.dtype}")


@_before_training("PRF018", "vLLM's tokens")
def tokens_of_vllm(plan: Plan, loaded: Loaded) -> Iterator[Compared]:
    """A token id means the same token for vLLM as for the trainer.

    vLLM reads its own tokenizer, from the folder that it was started with. Completions are sent as token ids, so a
    token that only one side knows raises no error. Catches: an end, a stop or an added token for which vLLM has no
    row, and a stop string that vLLM would never see, because its tokenizer spells the text differently and it does not
    get the token ids. A server that does not report its tokens is not checked.
    Source: vllm 0.31.0 (/v1/completions names its vocabulary when it refuses a stop that is not in it,
    /detokenize).
    """
    tokens = loaded.vllm_tokens
    if tokens is None:
        return
    if tokens.vocabulary is None or (plan.expect.stop and not tokens.spells):
        yield Compared("vLLM's tokens", "not checked", "not checked")
    if tokens.vocabulary is not None:
        beyond = ", ".join(tokens.beyond)
        live = f"{tokens.vocabulary} rows, without token {beyond}" if beyond else "every token"
        because = f"{OTHER}: it can neither read nor write these tokens"
        yield Compared("vocabulary of vLLM", "every token", live, because, SAME_MODEL)
    for stop, ids, text in tokens.stops:
        because = f"{OTHER}: its tokens {list(ids)} are {text!r}, so it would never see this stop"
        yield Compared("stop as vLLM spells it", stop, stop if stop in text else text, because, SAME_MODEL)

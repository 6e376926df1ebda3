"""Which prompts TRL hands to vLLM, of which there is none: its engine and its client alone are replaced."""

import importlib
import sys
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

from raw_trl import START, grpo_config, model_folder, trainer, watching

LOSSES = ("GRPOTrainer.compute_loss", "GRPOTrainer._compute_loss")
ANSWER = (5, 2)


class Parameters:
    """The arguments of SamplingParams, which vLLM would check."""

    def __init__(self, **given: Any) -> None:
        self.given = given


def _engine(seen: list[Any]) -> Any:
    """An engine that notes its prompts and answers each completion with the same tokens."""

    class Engine:
        def __init__(self, *_: Any, **__: Any) -> None:
            loader = SimpleNamespace(load_weights=lambda weights: list(weights))
            runner = SimpleNamespace(model_runner=SimpleNamespace(model=loader))
            self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))

        def generate(self, prompts: list[Any], sampling_params: Parameters, use_tqdm: bool = True) -> list[Any]:
            seen.extend(prompts)
            answers = [SimpleNamespace(token_ids=ANSWER)] * int(sampling_params.given.get("n", 1))
            return [SimpleNamespace(outputs=answers) for _ in prompts]

        def reset_prefix_cache(self) -> None:
            """Nothing is cached."""

    return Engine


def _client(seen: list[Any]) -> Any:
    """A client of a server that does the same."""

    class Client:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

        def generate(self, prompts: list[Any], n: int = 1, **_: Any) -> Any:
            seen.extend(prompts)
            return [list(ANSWER)] * (len(prompts) * n)

    return Client


def _begin_each_text(tokenizer: Any) -> None:
    from tokenizers.processors import TemplateProcessing

    number = tokenizer.convert_tokens_to_ids(START)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, number)]
    )


def _put_in_place(seen: list[Any]) -> None:
    """The engine and the client where this TRL looks them up; it has imported nothing of vLLM, which is not there."""
    module: Any = importlib.import_module("trl.trainer.grpo_trainer")
    module.is_vllm_available = lambda *_: True
    module.LLM, module.SamplingParams, module.VLLMClient = _engine(seen), Parameters, _client(seen)
    worker: Any = ModuleType("vllm.worker.worker")  # trl 0.14 and 0.15 replace one of its methods while vLLM starts
    worker.Worker = type("Worker", (), {"_assert_memory_footprint_increased_during_profiling": None})
    vllm: Any = ModuleType("vllm")
    vllm.worker = ModuleType("vllm.worker")
    vllm.worker.worker = worker
    sys.modules.update({"vllm": vllm, "vllm.worker": vllm.worker, "vllm.worker.worker": worker})


def observe(
    folder: Path, *, prompts: list[str], length: int, shim: bool, mode: str | None = None, begins: bool = False
) -> dict[str, Any]:
    """What vLLM got, as text or as the text of token ids, and the prompts that its completions were scored after.

    mode: vllm_mode where the release has it. begins: the tokenizer begins each text with a token of its own.
    """
    from transformers import AutoTokenizer

    from grpo_recipes.worker.shims import vllm_prompts

    path = model_folder(folder)
    tokenizer = AutoTokenizer.from_pretrained(path, truncation_side="left", padding_side="left")
    if begins:
        _begin_each_text(tokenizer)
    seen: list[Any] = []
    scored: list[str] = []
    _put_in_place(seen)

    def losing(frame: FrameType, _: Any) -> None:
        inputs = frame.f_locals["inputs"]
        if isinstance(inputs, dict) and "prompt_ids" in inputs:
            rows = zip(inputs["prompt_ids"], inputs["prompt_mask"], strict=True)
            scored.extend(tokenizer.decode(row[ones.bool()]) for row, ones in rows)

    place = {"vllm_device": "cpu"} if hasattr(grpo_config(folder), "vllm_device") else {}
    chosen = place if mode is None else {"vllm_mode": mode}
    batch = {"max_steps": 1, "num_generations": 2, "per_device_train_batch_size": 2 * len(prompts)}
    made = trainer(
        grpo_config(folder, use_vllm=True, max_prompt_length=length, **batch, **chosen),
        str(path),
        prompts=prompts,
        is_observed=True,
        processing_class=tokenizer,
    )
    if shim:
        vllm_prompts.on_trainer(made, length, None)  # type: ignore[arg-type]
    with watching(dict.fromkeys(LOSSES, losing), {}):
        made.train()
    texts = [one if isinstance(one, str) else tokenizer.decode(one["prompt_token_ids"]) for one in seen]
    return {"asked": sorted(set(texts)), "scored": sorted(set(scored))}


def names_handed_over(folder: Path) -> list[str]:
    """The names of the parameters of an adapted model that FSDP2 shards, as this TRL tells them to a vLLM server."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    from trl import GRPOTrainer

    model = get_peft_model(AutoModelForCausalLM.from_pretrained(model_folder(folder)), LoraConfig(r=2))
    whole = SimpleNamespace(is_cpu=False, full_tensor=lambda: None)
    model.state_dict = lambda: dict.fromkeys([name for name, _ in model.named_parameters()], whole)  # no shards here
    names: list[str] = []
    told = SimpleNamespace(update_named_param=lambda name, _: names.append(name))
    first = SimpleNamespace(is_main_process=True)
    fake: Any = SimpleNamespace(vllm_mode="server", accelerator=first, vllm_client=told)
    fake._fix_param_name_to_vllm = lambda *given, **named: GRPOTrainer._fix_param_name_to_vllm(fake, *given, **named)
    GRPOTrainer._sync_fsdp2_params_to_vllm(fake, model)
    return names

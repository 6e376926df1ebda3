"""An adapter handed to vLLM again and again by the TRL at hand; vLLM's engine alone is replaced."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from raw_trl import model_folder


def handed_over(folder: Path, *, times: int, shim: bool) -> dict[str, Any]:
    """How many weights vLLM got, how many of these the adapter had changed, and how many have moved in the model."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.shims import adapter_hand_over

    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(model_folder(folder), torch_dtype=torch.bfloat16)
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "down_proj"]))
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    if shim:
        adapter_hand_over.on_trainer(SimpleNamespace(model=model), True, None)  # type: ignore[arg-type]
    got: dict[str, Any] = {}
    hand_over = _hand_over(model, got)
    hand_over()
    first = dict(got)
    for _ in range(times - 1):
        hand_over()
    known = {name.removeprefix("base_model.model.").replace(".base_layer", ""): v for name, v in before.items()}
    after = model.state_dict()
    return {
        "got": len(got),
        "merged": sum(not torch.equal(value, known[name]) for name, value in first.items()),
        "moved": sum(not torch.equal(value, after[name]) for name, value in before.items()),
        "same": all(torch.equal(value, got[name]) for name, value in first.items()),
    }


def _hand_over(model: Any, got: dict[str, Any]) -> Any:
    """What TRL calls before a generation, with an engine, or a client of a server, that keeps what it is given."""
    from accelerate import Accelerator

    def keep(weights: Any) -> None:
        got.update((name, weight.detach().clone()) for name, weight in weights)

    runner = SimpleNamespace(model_runner=SimpleNamespace(model=SimpleNamespace(load_weights=keep)))
    core = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))
    accelerator = Accelerator(cpu=True)
    parts: dict[str, Any] = {
        "model": model,
        "accelerator": accelerator,
        "args": SimpleNamespace(ds3_gather_for_generation=True, report_to=[]),
        "llm": SimpleNamespace(llm_engine=core, reset_prefix_cache=lambda: None),
        "vllm_client": SimpleNamespace(update_named_param=lambda *one: keep([one]), reset_prefix_cache=lambda: None),
        "state": SimpleNamespace(global_step=0),
        "profiling": nullcontext,
        "is_fsdp_enabled": False,
        "vllm_mode": "colocate",
        "mode": "colocate",
        "enable_sleep_mode": False,
    }
    try:
        from trl.generation.vllm_generation import VLLMGeneration as Owner
    except ModuleNotFoundError:
        from trl import GRPOTrainer as Owner
    else:
        try:
            from trl.distributed import DistributedBackend

            parts["_dist"] = DistributedBackend(accelerator)
        except ModuleNotFoundError:
            pass
    made: Any = Owner.__new__(Owner)
    vars(made).update(parts)
    return made.sync_weights if hasattr(made, "sync_weights") else made._move_model_to_vllm

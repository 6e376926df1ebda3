"""An adapter handed to vLLM again and again by trl 0.15; vLLM's engine alone is replaced."""

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
    """What TRL calls before a generation, with an engine that keeps what it is given."""
    from accelerate import Accelerator
    from trl import GRPOTrainer

    def keep(weights: Any) -> None:
        got.update((name, weight.detach().clone()) for name, weight in weights)

    runner = SimpleNamespace(model_runner=SimpleNamespace(model=SimpleNamespace(load_weights=keep)))
    core = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=runner))
    made: Any = GRPOTrainer.__new__(GRPOTrainer)
    made.model, made.accelerator, made.llm = model, Accelerator(cpu=True), SimpleNamespace(llm_engine=core)
    made.args = SimpleNamespace(ds3_gather_for_generation=True)
    return made._move_model_to_vllm

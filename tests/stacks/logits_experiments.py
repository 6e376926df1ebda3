"""Failure 0 with the shim: the same look at TRL as in raw_logits.py, at a trainer that the shim was applied to."""

import inspect
import json
from pathlib import Path
from typing import Any

import raw_logits
import torch
from raw_trl import model_folder, trainer
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

# By the name of a custom model, how it computes its logits from the last hidden states.
HEADS = {"Custom": "a call", "Product": "a product", "Transposed": "a call with the sequence first"}


class CustomConfig(Qwen2Config):
    """Of a model class that no release knows. head: one of the values of HEADS."""

    model_type = "custom"
    head = "a call"


class CustomForCausalLM(Qwen2ForCausalLM):
    """Qwen2 with a forward that knows neither keyword and swallows none, as code beside weights often has.

    cache: how transformers calls past_key_values since 5.24.
    """

    config_class = CustomConfig

    def forward(  # type: ignore[override]
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Any = None,
        use_cache: Any = None,
        cache_position: Any = None,
        labels: Any = None,
        output_attentions: Any = None,
        output_hidden_states: Any = None,
        return_dict: Any = None,
        cache: Any = None,
    ) -> Any:
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values if cache is None else cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **({} if cache_position is None else {"cache_position": cache_position}),
        )
        states = outputs.last_hidden_state
        if self.config.head == "a product":
            logits = torch.nn.functional.linear(states, self.lm_head.weight)
        elif self.config.head == "a call":
            logits = self.lm_head(states)
        else:
            logits = self.lm_head(states.transpose(0, 1)).transpose(0, 1)
        return CausalLMOutputWithPast(logits=logits, past_key_values=outputs.past_key_values)


AutoConfig.register("custom", CustomConfig)
AutoModelForCausalLM.register(CustomConfig, CustomForCausalLM)


def _folder(folder: Path, kind: str = "Qwen2") -> Path:
    """As raw_trl.model_folder; kind: also a key of HEADS, the weights of the Qwen2 under the class above."""
    if kind not in HEADS:
        return model_folder(folder, kind)
    made = folder.parent / "models" / kind
    if not made.exists():
        qwen2 = model_folder(folder)
        made.mkdir()
        for file in qwen2.iterdir():
            (made / file.name).write_bytes(file.read_bytes())
        config = json.loads((qwen2 / "config.json").read_text())
        (made / "config.json").write_text(
            json.dumps(config | {"model_type": "custom", "architectures": ["CustomForCausalLM"], "head": HEADS[kind]})
        )
    return made


def observe(
    folder: Path,
    *,
    model: str,
    prompts: list[str],
    shim: bool = True,
    lora: bool = False,
    beta: float = 0.0,
    max_completion_length: int = 8,
) -> dict[str, Any]:
    """What raw_logits.observe gives, with what the shim said, the norm of the gradient and the KL divergence.

    rows: how many positions the output layer computed, of each call with a gradient. forwards: the kind and the
    signature of the policy's forward, which accelerate and generate() inspect, before and after the shim.
    """
    from peft import LoraConfig

    from grpo_recipes.worker.shims import logits_to_keep

    made: list[Any] = []
    said: list[str] = []
    forwards: list[str] = []
    rows: set[int] = set()

    def note(_: Any, __: Any, logits: Any) -> None:
        if torch.is_grad_enabled():
            rows.add(logits.shape[1])

    def shimmed(config: Any, path: str, **parts: Any) -> Any:
        config.beta, config.max_completion_length = beta, max_completion_length
        if lora:
            parts["peft_config"] = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
        given = AutoModelForCausalLM.from_pretrained(path) if model in HEADS else path
        made.append(trainer(config, given, **parts))
        made[0].model.get_output_embeddings().register_forward_hook(note)
        policy = made[0].accelerator.unwrap_model(made[0].model)
        policy = policy.get_base_model() if lora else policy
        forwards.append(f"{type(policy.forward).__name__} {inspect.signature(policy.forward)}")
        if shim:
            said.append(logits_to_keep.on_trainer(made[0], True, None))  # type: ignore[arg-type]
        forwards.append(f"{type(policy.forward).__name__} {inspect.signature(policy.forward)}")
        return made[0]

    raw_logits.trainer = shimmed  # type: ignore[attr-defined]
    raw_logits.model_folder = _folder  # type: ignore[attr-defined]
    found = raw_logits.observe(folder, model=model, prompts=prompts)
    step = next(entry for entry in made[0].state.log_history if "grad_norm" in entry)
    told = {"said": said, "rows": sorted(rows), "forwards": forwards}
    return found | told | {"grad_norm": step["grad_norm"], "kl": step.get("kl")}

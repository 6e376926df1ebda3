"""Failure 0 with the shim: the same look at TRL as in raw_logits.py, at a trainer that the shim was applied to."""

import json
from pathlib import Path
from typing import Any

import raw_logits
from raw_trl import model_folder, trainer
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast


class CustomConfig(Qwen2Config):
    """Of a model class that no release knows."""

    model_type = "custom"


class CustomForCausalLM(Qwen2ForCausalLM):
    """Qwen2 with a forward that knows neither keyword and swallows none, as code beside weights often has."""

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
    ) -> Any:
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **({} if cache_position is None else {"cache_position": cache_position}),
        )
        logits = self.lm_head(outputs.last_hidden_state)
        return CausalLMOutputWithPast(logits=logits, past_key_values=outputs.past_key_values)


AutoConfig.register("custom", CustomConfig)
AutoModelForCausalLM.register(CustomConfig, CustomForCausalLM)


def _folder(folder: Path, kind: str = "Qwen2") -> Path:
    """As raw_trl.model_folder; kind: also "Custom", the weights of the Qwen2 under the class above."""
    if kind != "Custom":
        return model_folder(folder, kind)
    made = folder.parent / "models" / kind
    if not made.exists():
        qwen2 = model_folder(folder)
        made.mkdir()
        for file in qwen2.iterdir():
            (made / file.name).write_bytes(file.read_bytes())
        config = json.loads((qwen2 / "config.json").read_text())
        (made / "config.json").write_text(
            json.dumps(config | {"model_type": "custom", "architectures": ["CustomForCausalLM"]})
        )
    return made


def observe(
    folder: Path, *, model: str, prompts: list[str], shim: bool = True, lora: bool = False, beta: float = 0.0
) -> dict[str, Any]:
    """What raw_logits.observe gives, with what the shim said, the norm of the gradient and the KL divergence."""
    from peft import LoraConfig

    from grpo_recipes.worker.shims import logits_to_keep

    made: list[Any] = []
    said: list[str] = []

    def shimmed(config: Any, path: str, **parts: Any) -> Any:
        config.beta = beta
        if lora:
            parts["peft_config"] = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
        given = AutoModelForCausalLM.from_pretrained(path) if model == "Custom" else path
        made.append(trainer(config, given, **parts))
        if shim:
            said.append(logits_to_keep.on_trainer(made[0], True, None))  # type: ignore[arg-type]
        return made[0]

    raw_logits.trainer = shimmed  # type: ignore[attr-defined]
    raw_logits.model_folder = _folder  # type: ignore[attr-defined]
    found = raw_logits.observe(folder, model=model, prompts=prompts)
    step = next(entry for entry in made[0].state.log_history if "grad_norm" in entry)
    return found | {"said": said, "grad_norm": step["grad_norm"], "kl": step.get("kl")}

"""Which tokens of a prompt TRL generates from and trains on: by its own field max_prompt_length, or by the shim."""

from pathlib import Path
from types import FrameType
from typing import Any

import raw_trl
from raw_trl import grpo_config, model_folder, trainer, watching

LOSSES = ("GRPOTrainer.compute_loss", "GRPOTrainer._compute_loss")
CHAT = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}<|im_start|>"


def observe(
    folder: Path, *, prompts: list[str], length: int | None, by_shim: bool, is_chat: bool, **arguments: Any
) -> dict[str, Any]:
    """The prompts, as text without padding, that a step generated from and that its loss was given, and the metrics."""
    from transformers import AutoTokenizer

    from grpo_recipes.worker.shims import max_prompt_length

    path = model_folder(folder)
    tokenizer = AutoTokenizer.from_pretrained(path, truncation_side="left", padding_side="left")
    tokenizer.chat_template = CHAT
    generated: list[str] = []
    scored: list[str] = []

    def texts(ids: Any, mask: Any) -> list[str]:
        return [tokenizer.decode(row[ones.bool()]) for row, ones in zip(ids, mask, strict=True)]

    def generating(frame: FrameType, _: Any) -> None:
        given = frame.f_locals["kwargs"]
        generated.extend(texts(given.get("input_ids", frame.f_locals["inputs"]), given["attention_mask"]))

    def losing(frame: FrameType, _: Any) -> None:
        inputs = frame.f_locals["inputs"]
        if isinstance(inputs, dict) and "prompt_ids" in inputs and not scored:
            scored.extend(texts(inputs["prompt_ids"], inputs["prompt_mask"]))

    raw_trl.letters = lambda completions, **_: [float(len(completions))] * len(completions)  # type: ignore[assignment]
    field = {} if by_shim else {"max_prompt_length": length}
    rows = [[{"role": "user", "content": prompt}] for prompt in prompts] if is_chat else prompts
    batch = {"max_steps": 1, "num_generations": 2, "per_device_train_batch_size": 2 * len(prompts)}
    made = trainer(
        grpo_config(folder, **{**batch, **field, **arguments}),
        str(path),
        prompts=rows,  # type: ignore[arg-type]
        processing_class=tokenizer,
        is_observed=True,
    )
    said = max_prompt_length.on_trainer(made, length, None) if by_shim else ""  # type: ignore[arg-type]
    with watching({"GenerationMixin.generate": generating} | dict.fromkeys(LOSSES, losing), {}):
        made.train()
    ratio = made.state.log_history[0].get("prompts/clipped_ratio")
    return {"generated": sorted(set(generated)), "scored": sorted(set(scored)), "said": said, "ratio": ratio}

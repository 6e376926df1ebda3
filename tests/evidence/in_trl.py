"""What evidence about GRPOTrainer, its data, prompts and rewards calls, in the process that has the libraries."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import in_library


def _copy(name: str) -> Path:
    folder = in_library.FOLDER / name
    shutil.copytree(in_library.FOLDER / "model", folder, dirs_exist_ok=True)
    return folder


def without_chat_template(rows: list[dict[str, Any]]) -> None:
    """Trains a model whose tokenizer has no chat template."""
    folder = _copy("no-template")
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text())
    config.pop("chat_template", None)
    file.write_text(json.dumps(config))
    in_library.train({}, model=str(folder), rows=rows)


def rendered(variables: dict[str, Any]) -> str:
    """The text that the chat template makes of a question, with these variables."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(in_library.FOLDER / "model")
    question = [{"role": "user", "content": "1+1="}]
    return str(tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True, **variables))


def gradient_of_better(arguments: dict[str, Any]) -> dict[str, float]:
    """The largest gradient of the loss by a token's log-prob, of completions better and worse than their group.

    The loss is GRPOTrainer's own, of a policy that just wrote the completions.
    """
    import torch

    trainer = in_library._trainer(arguments)
    log_probs = torch.full((2, 5), -1.0, requires_grad=True)
    _loss(trainer, log_probs, log_probs.detach(), torch.tensor([1.0, -1.0]), torch.ones(2, 5)).backward()
    assert log_probs.grad is not None
    largest = log_probs.grad.abs().amax(dim=1).tolist()
    return {"better": largest[0], "worse": largest[1]}


def _loss(trainer: Any, log_probs: Any, old: Any, advantages: Any, entropies: Any) -> Any:
    """GRPOTrainer's loss of completions whose tokens have these log-probs. log_probs, old, entropies: (B, T)."""
    import torch

    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (log_probs, entropies, None)
    trainer.current_gradient_accumulation_steps = 1
    ids = torch.ones(log_probs.shape, dtype=torch.long)
    batch = {"prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": ids}
    items = torch.tensor(ids.numel())
    inputs = {**batch, "advantages": advantages, "num_items_in_batch": items, "old_per_token_logps": old}
    return trainer._compute_loss(trainer.model, inputs)


def losses_at(arguments: dict[str, Any], ratios: list[float], better: float = 1.0) -> list[float]:
    """The loss of a better and of a worse completion for each importance ratio. better: the advantage of the one."""
    import torch

    trainer = in_library._trainer(arguments)
    found = []
    for ratio in ratios:
        old = torch.full((2, 5), -1.0)
        loss = _loss(trainer, old + math.log(ratio), old, torch.tensor([better, -0.7]), torch.ones(2, 5))
        found.append(float(loss))
    return found


def advantages(arguments: dict[str, Any], rewards: str) -> dict[str, Any]:
    """The rewards of the completions of one step, by function, and the advantages that TRL makes of them."""
    trainer = in_library._trainer({"max_steps": 1, "learning_rate": 0.0, **arguments}, rewards=rewards)
    trainer.train()
    by_function = [list(values) for values in trainer._logs["rewards"].values()]
    return {"rewards": by_function, "advantages": list(trainer._logs["advantages"])}


def entropy_coefficients(arguments: dict[str, Any], entropies: list[float]) -> list[float]:
    """The adaptive entropy coefficient after each of several steps whose tokens have these entropies."""
    import torch

    trainer = in_library._trainer({"use_adaptive_entropy": True, "entropy_target": 1.0, **arguments})
    trainer.model.train()
    found = []
    for entropy in entropies:
        old = torch.full((2, 5), -1.0)
        _loss(trainer, old.clone(), old, torch.tensor([1.0, -1.0]), torch.full((2, 5), entropy))
        found.append(float(trainer.entropy_coef))
    return found


def distance_to_reference(alpha: float) -> list[float]:
    """How far the reference model is from the policy before and after TRL lets it take over a share of it."""
    import torch
    from accelerate import Accelerator
    from trl.trainer.callbacks import SyncRefModelCallback

    Accelerator(cpu=True)
    policy, reference = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    distances = [float((policy.weight - reference.weight).norm())]
    SyncRefModelCallback.sync_target_model(policy, reference, alpha)
    return [*distances, float((policy.weight - reference.weight).norm())]


def warned_of_levels(pairs: list[tuple[str, str]]) -> list[bool]:
    """For each loss type and importance_sampling_level: whether building a GRPOTrainer warns of the level."""
    from trl.trainer import grpo_trainer

    told: list[str] = []
    grpo_trainer.logger.warning = lambda text, *a, **k: told.append(str(text))
    found = []
    for loss, level in pairs:
        told.clear()
        in_library.build({"loss_type": loss, "importance_sampling_level": level})
        found.append(any("importance_sampling_level" in text for text in told))
    return found


def with_reward_model(model: str, revision: str | None) -> None:
    """Builds a GRPOTrainer with a reward model; for one of the hub it raises with what TRL asks for."""
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification
    from trl import GRPOTrainer

    def asked(name: str, **keywords: Any) -> None:
        raise LookupError(f"{name} at {keywords.get('revision')}")

    if not model.startswith("."):
        AutoModelForSequenceClassification.from_pretrained = asked  # the hub is not asked
    arguments = in_library._config(model_init_kwargs={"dtype": "float32", "revision": revision})
    in_library.STAGE[0] = "trainer"
    rows = Dataset.from_list([{"prompt": "1+1="}])
    policy = str(in_library.FOLDER / "model")
    GRPOTrainer(model=policy, args=arguments, train_dataset=rows, reward_funcs=[model])


def with_transformers(release: str) -> None:
    """Builds a GRPOTrainer that generates in continuous batches, where transformers says it is this release."""
    import transformers

    transformers.__version__ = release
    in_library.build({"use_transformers_continuous_batching": True})


def have_routers(families: list[str]) -> list[str]:
    """The families whose configuration returns router logits, as GRPOTrainer asks for it."""
    from transformers import AutoConfig

    return [family for family in families if hasattr(AutoConfig.for_model(family), "output_router_logits")]


def batching_options() -> list[str]:
    """The fields of transformers' ContinuousBatchingConfig."""
    import dataclasses

    from transformers.generation import ContinuousBatchingConfig

    return [field.name for field in dataclasses.fields(ContinuousBatchingConfig)]


def cast_output_layer(kind: str, is_tied: bool, lora: dict[str, Any] | None) -> None:
    """Builds a GRPOTrainer that casts the output layer of a small model of a class."""
    import transformers

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "n_embd": 32, "n_layer": 1, "n_head": 2}
    config = getattr(transformers, f"{kind}Config")(**sizes, **heads, pad_token_id=0, tie_word_embeddings=is_tied)
    folder = _copy(f"{kind}-{is_tied}")
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    adapter = {**lora, "target_modules": "all-linear"} if lora is not None else None
    in_library._trainer({"cast_lm_head_to_fp32": True}, model=str(folder), lora=adapter)

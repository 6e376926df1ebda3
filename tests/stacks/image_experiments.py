"""Experiments on image rows: a vision model written by the stack's own transformers, and its training."""

import json
import random
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # support
LETTERS = (60, 200)  # some token ids that are letters
LENGTH = 6


def model(folder: Path, *, family: str) -> str:
    """The folder of an untrained model."""
    from support.seeing_models import write_seeing_model

    return str(write_seeing_model(folder / "model", family))


def trained(folder: Path, *, run_folder: str) -> dict[str, Any]:
    """Trains. Returns how many tokens were drawn, how many of them are image tokens, and the run.json."""
    from transformers import GenerationMixin

    from grpo_recipes.worker.run import train

    drawn = {"tokens": 0, "of images": 0}
    generate = GenerationMixin.generate

    def listening(model: Any, *given: Any, **named: Any) -> Any:
        answer = generate(model, *given, **named)
        new = answer[:, named["input_ids"].shape[1] :]
        drawn["tokens"] += new.numel()
        drawn["of images"] += int((new == model.config.image_token_id).sum())
        return answer

    GenerationMixin.generate = listening
    exit_code = train(Path(run_folder), resume=False)
    return {"exit_code": exit_code, **drawn, "record": json.loads((Path(run_folder) / "run.json").read_text())}


def dictated(folder: Path, *, run_folder: str) -> int:
    """Trains with completions that follow from a row's image and its place in the group; returns the exit code.

    Sampling depends on the number of processes, so two processes can be compared with one only without it. Greedy
    answers to held-out rows are the model's own. weights.pt gets the trained tensors.
    """
    import torch
    from transformers import GenerationMixin

    from grpo_recipes.worker import training
    from grpo_recipes.worker._shared.library import base_model
    from grpo_recipes.worker.run import train

    trainers: list[Any] = []
    build, generate = training.build_trainer, GenerationMixin.generate

    def building(*given: Any, **named: Any) -> Any:
        trainers.append(build(*given, **named))
        # As a model's own code would: PRF038 cannot compare it, and takes a replaced GenerationMixin for another model.
        type(base_model(trainers[-1], trainers[-1].model)).generate = dictating
        return trainers[-1]

    def dictating(model: Any, *given: Any, **named: Any) -> Any:
        if not named["generation_config"].do_sample:
            return generate(model, *given, **named)
        ids, seen, rows = named["input_ids"], dict[bytes, int](), list[list[int]]()
        words = trainers[-1].processing_class.tokenizer
        for pixels in named["pixel_values"].reshape(len(ids), -1):
            image = pixels.float().numpy().tobytes()
            seen[image] = place = seen.get(image, -1) + 1
            drawn = random.Random(image + bytes([place % trainers[-1].args.num_generations]))
            letters = [drawn.randrange(*LETTERS) for _ in range(drawn.randrange(3, LENGTH + 1))]
            rows.append([*letters, words.eos_token_id, *[words.pad_token_id] * LENGTH][:LENGTH])
        return torch.cat([ids, torch.tensor(rows)], dim=1)

    training.build_trainer = building
    exit_code = train(Path(run_folder), resume=False)
    if trainers and trainers[-1].is_world_process_zero():
        torch.save({n: p.detach() for n, p in trainers[-1].model.named_parameters() if p.requires_grad}, "weights.pt")
    return exit_code

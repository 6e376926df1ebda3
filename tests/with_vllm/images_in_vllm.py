"""Compares vLLM with transformers on prompts with images: python images_in_vllm.py FOLDER FAMILY

Prints one line of JSON. of_trl: the tokens of a prompt as TRL gives it, and of the prompt that vLLM answered. prompts:
for each of three, whether vLLM answered the tokens of the loss, whether its greedy tokens equal those of transformers,
and how far their log-probabilities differ: at first, after changed weights of the vision part were handed over as TRL
does it, and once vLLM's image cache is cleared.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from support import seeing_models

WIDTH = 64  # heads of 32, the minimum of vLLM on a CPU
OF_TOKENS = ("token_type_ids", "mm_token_type_ids")


def main(folder: Path, family: str) -> None:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from vllm import LLM, SamplingParams

    model = str(seeing_models.write_seeing_model(folder, family, WIDTH))
    processor = AutoProcessor.from_pretrained(model)
    policy = AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32).eval()
    drawn = random.Random(1)
    red, green, blue = (seeing_models.square(colour, drawn, side) for colour, side in _SQUARES)
    blue = blue.crop((0, 0, 84, 60))
    rows = [([red], "what?"), ([green, blue], "which one?"), ([blue], "a")]
    llm = LLM(
        model=model,
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=4,
        dtype="float32",
        logprobs_mode="processed_logprobs",
    )
    greedy = SamplingParams(max_tokens=8, temperature=0, logprobs=0, ignore_eos=True)

    def asked(ids: list[int], images: list[Any]) -> Any:
        row = {"prompt_token_ids": ids, "multi_modal_data": {"image": images if len(images) > 1 else images[0]}}
        return llm.generate([row], greedy, use_tqdm=False)[0]

    def compared(images: list[Any], text: str) -> dict[str, Any]:
        given, ids, short = _tokens(processor, images, text)
        answer = asked(short, images)
        new = list(answer.outputs[0].token_ids)
        said = [chosen[token].logprob for chosen, token in zip(answer.outputs[0].logprobs, new, strict=True)]
        whole = torch.tensor([ids + new])
        beside = {
            name: torch.cat([value, value.new_zeros(1, len(new))], 1) if name in OF_TOKENS else value
            for name, value in given.items()
        }
        with torch.no_grad():
            logits = policy(input_ids=whole, attention_mask=torch.ones_like(whole), **beside).logits
        own = logits[0, len(ids) - 1 : -1].log_softmax(-1)
        apart = (own.gather(1, whole[0, len(ids) :, None])[:, 0] - torch.tensor(said)).abs().max()
        return {
            "same": list(answer.prompt_token_ids) == ids,
            "greedy": own.argmax(-1).tolist() == new,
            "apart": float(apart),
        }

    def everything() -> list[dict[str, Any]]:
        return [compared(*row) for row in rows]

    _, ids, _ = _tokens(processor, *rows[0])
    found: dict[str, Any] = {"of_trl": [ids, list(asked(ids, [red]).prompt_token_ids)], "at first": everything()}
    # Source: trl 1.16.0, VLLMGeneration.sync_weights. A CPU only accepts tensors that it does not pack.
    runner = llm.llm_engine.model_executor.driver_worker.model_runner
    torch.manual_seed(5)
    for name, weight in policy.named_parameters():
        if ("vision" in name or "visual" in name) and "norm" in name:
            weight.data.add_(torch.randn_like(weight))
            runner.model.load_weights([(name, weight.data)])
    llm.reset_prefix_cache()
    found["handed over"] = everything()
    llm.llm_engine.reset_encoder_cache()
    llm.reset_prefix_cache()
    found["forgotten"] = everything()
    print(json.dumps(found), flush=True)
    llm.llm_engine.engine_core.shutdown()
    os._exit(0)  # vLLM's threads sometimes end the interpreter with SIGABRT


_SQUARES = (("red", 56), ("green", 56), ("blue", 84))


def _tokens(processor: Any, images: list[Any], text: str) -> tuple[dict[str, Any], list[int], list[int]]:
    """Returns a prompt's inputs other than tokens, its tokens, and its tokens without images."""
    shown = [{"type": "image", "image": image} for image in images]
    prompt = [{"role": "user", "content": [*shown, {"type": "text", "text": text}]}]
    how = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
    given = processor.apply_chat_template([prompt], add_generation_prompt=True, **how)
    rendered = processor.apply_chat_template([prompt], add_generation_prompt=True, tokenize=False)
    ids = given["input_ids"][0].tolist()
    beside = {name: value for name, value in given.items() if name not in ("input_ids", "attention_mask")}
    return beside, ids, list(processor.tokenizer(rendered, add_special_tokens=False)["input_ids"][0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

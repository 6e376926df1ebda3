"""Prints what vLLM makes of a prompt with an image as TRL gives it: python images_in_vllm.py FOLDER

The answer is one line of JSON: the tokens of the prompt, and those of the prompt that vLLM answered.
"""

import json
import os
import random
import sys
from pathlib import Path

from support import seeing_models


def main(folder: Path) -> None:
    from transformers import AutoProcessor
    from vllm import LLM, SamplingParams

    seeing_models._SIZES["hidden_size"] = 64  # heads of 32, the least that vLLM has on a CPU
    model = str(seeing_models.write_seeing_model(folder))
    image = seeing_models.square("red", random.Random(1))
    shown = [{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": "what?"}]}]
    processor = AutoProcessor.from_pretrained(model)
    ids = processor.apply_chat_template([shown], add_generation_prompt=True, tokenize=True, return_dict=True)[
        "input_ids"
    ]
    llm = LLM(model=model, enforce_eager=True, max_model_len=256, max_num_seqs=4, dtype="float32")
    # Source: trl 1.16.0, generation/vllm_generation.py: VLLMGeneration.generate, colocate.
    row = {"prompt_token_ids": list(ids[0]), "multi_modal_data": {"image": image}}
    (answer,) = llm.generate([row], SamplingParams(max_tokens=1), use_tqdm=False)
    print(json.dumps([list(ids[0]), list(answer.prompt_token_ids)]), flush=True)
    llm.llm_engine.engine_core.shutdown()
    os._exit(0)  # threads of vLLM's own end the interpreter with SIGABRT now and then


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Prints what vLLM thinks of texts: python log_probs_of.py MODEL TOKENS_AS_JSON [ADAPTER]

The answer is one line of JSON: the log-probability of each token but the first, text by text.
"""

import json
import os
import sys


def main() -> None:
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    model, texts, *adapter = sys.argv[1:]
    more = {"enable_lora": True, "max_lora_rank": 16} if adapter else {}
    llm = LLM(model=model, enforce_eager=True, max_model_len=64, max_num_seqs=8, dtype="float32", **more)
    wanted = {"lora_request": LoRARequest("trained", 1, adapter[0])} if adapter else {}
    found = []
    for ids in json.loads(texts):
        ask = SamplingParams(max_tokens=1, prompt_logprobs=1)
        (answer,) = llm.generate([{"prompt_token_ids": ids}], ask, use_tqdm=False, **wanted)
        every = answer.prompt_logprobs
        found.append([every[place][token].logprob for place, token in enumerate(ids) if place])
    print(json.dumps(found), flush=True)
    llm.llm_engine.engine_core.shutdown()
    os._exit(0)  # threads of vLLM's own end the interpreter with SIGABRT now and then


if __name__ == "__main__":
    main()

"""Imports and warms up the training stack once for all forks of a process."""

import functools
import gc
import tempfile
import weakref
from importlib.util import find_spec
from pathlib import Path


def import_libraries() -> None:
    """Imports what a worker does, but nothing of grpo_recipes, which is in each run folder."""
    import bitsandbytes  # noqa: F401
    import datasets  # noqa: F401
    import peft.tuners.lora.bnb
    import peft.utils.transformers_weight_conversion  # noqa: F401
    import torch.utils.serialization.config
    import transformers.models.qwen2.modeling_qwen2
    import transformers.models.qwen2.tokenization_qwen2  # noqa: F401
    from accelerate.utils import imports
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    from trl import GRPOConfig, GRPOTrainer  # noqa: F401

    if find_spec("vllm") is not None:  # in .venv-vllm
        _import_vllm()
    else:
        import deepspeed  # noqa: F401 (accelerate does for each model, where it is installed)
    get_checkpoint_conversion_mapping("qwen2")  # a thousand regular expressions, kept for every model
    # accelerate reads a package's metadata again at each call, several times in a step.
    imports._is_package_available = functools.cache(imports._is_package_available)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        _load_and_generate(Path(folder))
    # At its end, a process of torch takes 250 operators back one by one, and a fork copies the memory that this writes.
    for finalizer in weakref.finalize._registry:  # type: ignore[attr-defined]
        finalizer.atexit = False
    gc.collect()
    gc.freeze()


def _load_and_generate(folder: Path) -> None:
    """Does once what each training does first: a quarter of a short one is what the libraries keep of this."""
    import datasets
    import torch
    import tqdm
    import transformers.core_model_loading
    from transformers import AutoModelForCausalLM, AutoProcessor

    from support.tiny_models import write_tiny_model

    # Without threads of Python, whose locks a fork would inherit. In a fork, two threads that load a model must not
    # make torch's pool of threads together.
    tqdm.tqdm.monitor_interval, transformers.core_model_loading.GLOBAL_WORKERS = 0, 1
    state = torch.get_rng_state()
    write_tiny_model(folder)
    tokenizer, model = AutoProcessor.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    asked = tokenizer.apply_chat_template([{"role": "user", "content": "1"}], return_tensors="pt", return_dict=True)
    model.generate(**asked, max_new_tokens=1, do_sample=True)
    rows = folder / "rows.jsonl"
    rows.write_text('{"question": "1+1="}\n')
    datasets.load_dataset("json", data_files=str(rows), split="train", cache_dir=str(folder)).map(dict)
    torch.set_rng_state(state)


def _import_vllm() -> None:
    """Also what an engine for the CPU imports when it is made."""
    import trl.generation.vllm_generation  # noqa: F401
    import vllm.model_executor.models.qwen2
    import vllm.v1.engine.core
    import vllm.v1.worker.cpu_worker  # noqa: F401
    from vllm import LLM, SamplingParams  # noqa: F401

"""What evidence about adapters and models calls, in the process that has the libraries."""

import json
from typing import Any

import in_library


def _experts() -> Any:
    """An untrained mixture of experts of one block."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 40}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **heads, num_experts=4, num_experts_per_tok=2))


def _loaded(quantization: dict[str, Any] | None = None) -> Any:
    """The small Qwen2 of the evidence."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    further = {"quantization_config": BitsAndBytesConfig(**quantization)} if quantization else {}
    folder = in_library.FOLDER / "model"
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **further).eval()


def adapt(lora: dict[str, Any], experts: bool = False, quantization: dict[str, Any] | None = None) -> dict[str, Any]:
    """Attaches an adapter as the worker does.

    adapted: names of the modules and tensors that got one. trained: names of all that is trained, without those of
    LoRA itself. start, disabled: how far the logits lie from those of the model alone, with the adapter and without.
    """
    import torch
    from peft import LoraConfig, get_peft_model

    model = _experts() if experts else _loaded(quantization)
    ids = torch.arange(3, 13)[None]
    in_library.STAGE[0] = "config"
    with torch.no_grad():
        before = model(ids).logits.clone()
        built = LoraConfig(task_type="CAUSAL_LM", **lora)
        in_library.STAGE[0] = "trainer"
        adapted = get_peft_model(model, built).eval()
        start = adapted(ids).logits
        with adapted.disable_adapter():
            disabled = adapted(ids).logits
    trained = [name.removeprefix("base_model.model.") for name, p in adapted.named_parameters() if p.requires_grad]
    return {
        "adapted": sorted({name.partition(".lora_")[0] for name in trained if ".lora_" in name}),
        "trained": sorted(name for name in trained if ".lora_" not in name),
        "start": float((start - before).abs().max()),
        "disabled": float((disabled - before).abs().max()),
    }


def first_adapter(lora: dict[str, Any], quantization: dict[str, Any] | None = None) -> dict[str, float]:
    """The sums of the numbers that the first adapted layer starts from, after one seed."""
    import torch
    from peft import LoraConfig, get_peft_model

    model, built = _loaded(quantization), LoraConfig(task_type="CAUSAL_LM", **lora)
    in_library.STAGE[0] = "trainer"
    torch.manual_seed(0)
    adapted = get_peft_model(model, built)
    layer = "layers.0.self_attn.q_proj.lora_"
    return {name: float(p.detach().abs().sum()) for name, p in adapted.named_parameters() if layer in name}


def attention_kernels() -> list[str]:
    """The words for attention that transformers knows beside eager."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    return [*ALL_ATTENTION_FUNCTIONS.valid_keys()]


def attention_of(word: str) -> dict[str, str]:
    """The attention of the small model when it is loaded with this word."""
    from transformers import AutoModelForCausalLM

    in_library.STAGE[0] = "trainer"
    model = AutoModelForCausalLM.from_pretrained(in_library.FOLDER / "model", attn_implementation=word)
    return {"used": model.config._attn_implementation}


def flash_attention_dtype(dtype: str, autocast: bool) -> str:
    """The dtype that transformers hands float32 queries to flash attention in, for weights of a dtype."""
    import torch
    from transformers.integrations.flash_attention import get_target_dtype

    model = _loaded().to(getattr(torch, dtype))
    attention = model.model.layers[0].self_attn
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        return str(get_target_dtype(torch.zeros(1, 1, 1, 1), attention))


def generation_dtypes(lora: bool) -> list[str]:
    """The dtypes that attention computes in while a prepared float32 model under bf16 autocast generates."""
    import torch
    from accelerate import Accelerator
    from peft import LoraConfig, get_peft_model
    from trl.models import unwrap_model_for_generation

    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    model = _loaded().float()
    seen: set[str] = set()
    attention = model.model.layers[0].self_attn
    attention.q_proj.register_forward_hook(lambda *given: seen.add(str(given[2].dtype)))
    policy = get_peft_model(model, LoraConfig(r=2, target_modules=["up_proj"])) if lora else model
    prepared = accelerator.prepare_model(policy)
    with unwrap_model_for_generation(prepared, accelerator) as unwrapped, torch.no_grad():
        unwrapped.generate(input_ids=torch.ones(1, 3, dtype=torch.long), max_new_tokens=2)
    return sorted(seen)


def _saved(folder: str, tied: bool = False, quantization: dict[str, Any] | None = None, **written: Any) -> str:
    """A small Qwen2 with its tokenizer in a folder of its own; `written` goes into its config.json."""
    import json
    import shutil

    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig

    place = in_library.FOLDER / folder
    if not place.exists():
        shutil.copytree(in_library.FOLDER / "model", place)
        torch.manual_seed(0)
        config = AutoConfig.from_pretrained(place, tie_word_embeddings=tied)
        AutoModelForCausalLM.from_config(config).save_pretrained(place)
        if quantization is not None:
            further = BitsAndBytesConfig(**quantization)
            model = AutoModelForCausalLM.from_pretrained(place, quantization_config=further, dtype=torch.float32)
            model.save_pretrained(place)
        values = json.loads((place / "config.json").read_text())
        (place / "config.json").write_text(json.dumps(values | written))
    return str(place)


def train_skipping(skipped: list[str] | None, tied: bool) -> dict[str, Any]:
    """Trains an 8-bit model one step through an adapter; gives the class of its output layer and the entropy."""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    quantization = {"load_in_8bit": True, "llm_int8_skip_modules": skipped}
    place = _saved(f"tied-{tied}", tied)
    loaded = AutoModelForCausalLM.from_pretrained(place, quantization_config=BitsAndBytesConfig(**quantization))
    lora = {"r": 2, "target_modules": ["q_proj"]}
    logs = in_library.train({}, model=place, quantization=quantization, lora=lora)["logs"]
    return {"output": type(loaded.lm_head).__name__, "entropy": logs[0]["entropy"]}


def load_quantized_checkpoint(method: dict[str, Any], quantization: dict[str, Any] | None) -> dict[str, Any]:
    """Loads a checkpoint that says it is quantized; gives what its configuration then says."""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    is_own = method["quant_method"] == "bitsandbytes"
    own = {key: value for key, value in method.items() if key != "quant_method"} if is_own else None
    written = {} if is_own else {"quantization_config": method}
    place = _saved("-".join(map(str, method.values())), False, own, **written)
    further = {"quantization_config": BitsAndBytesConfig(**quantization)} if quantization is not None else {}
    in_library.STAGE[0] = "trainer"
    model = AutoModelForCausalLM.from_pretrained(place, **further)
    return {**model.config.quantization_config.to_dict()}


def trained_methods() -> dict[str, bool]:
    """Which quantizers of transformers say at class level that they can never be trained."""
    import inspect

    from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

    source = {name: inspect.getsource(one.is_trainable.fget) for name, one in AUTO_QUANTIZER_MAPPING.items()}
    return {name: not text.rstrip().endswith("return False") for name, text in source.items()}


def oldest_bitsandbytes() -> dict[str, Any]:
    """The version that transformers asks for, and the text of the quantizer's check of it."""
    import inspect

    from transformers.quantizers.quantizer_bnb_4bit import Bnb4BitHfQuantizer
    from transformers.utils.import_utils import BITSANDBYTES_MIN_VERSION, is_bitsandbytes_available

    asked = inspect.signature(is_bitsandbytes_available).parameters["min_version"].default
    check = inspect.getsource(Bnb4BitHfQuantizer.validate_environment)
    return {"oldest": str(BITSANDBYTES_MIN_VERSION), "asked": asked, "check": check}


def default_configurations(mapping: str) -> dict[str, Any]:
    """By class what config.json says of a model of this auto class with the sizes that its configuration has."""
    from transformers import AutoConfig
    from transformers.models.auto import modeling_auto

    found = {}
    for model_type, names in getattr(modeling_auto, mapping).items():
        name = names if isinstance(names, str) else names[0]
        try:
            written = AutoConfig.for_model(model_type).to_dict()
        except Exception:  # some families have no default, which says nothing about them
            continue
        values = {key: value if isinstance(value, str) else True for key, value in written.items() if value is not None}
        found[name] = values | {"architectures": [name], "model_type": model_type}
    return found


def train_one_that_sees() -> dict[str, Any]:
    """Trains a small Llava one step on text; moved: tensors that are others then, idle: those without a gradient."""
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer, LlavaConfig, LlavaForConditionalGeneration
    from trl import GRPOTrainer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(in_library.FOLDER / "model")
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2}
    eyes = {"model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 32, "image_size": 8, **heads}
    text = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "vocab_size": len(tokenizer), **heads}
    ids = {"eos_token_id": 2, "pad_token_id": 0, "bos_token_id": None}
    parts = {"vision_config": {**eyes, "patch_size": 4}, "text_config": {**text, **ids}}
    model = LlavaForConditionalGeneration(LlavaConfig(**parts, image_token_index=1))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    arguments = in_library._config(max_steps=1, learning_rate=0.1, beta=0.0, weight_decay=0.0)
    in_library.STAGE[0] = "trainer"
    trainer = GRPOTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": f"{n}+1="} for n in range(8)]),
        reward_funcs=in_library._functions(in_library.REWARD),
        processing_class=tokenizer,
    )
    in_library.STAGE[0] = "train"
    trainer.train()
    after = dict(trainer.model.named_parameters())
    return {
        "config": {**model.config.to_dict(), "architectures": ["LlavaForConditionalGeneration"]},
        "moved": [name for name, old in before.items() if not after[name].detach().equal(old)],
        "idle": [name for name, p in after.items() if p.requires_grad and p.detach().equal(before[name])],
    }


def train_on_images(family: str, images: bool = True) -> list[float]:
    """Trains an untrained model of a family one step; how far scores of the loss move if the last token is another.

    The score of a token must not depend on later ones.
    """
    import random

    import torch
    from datasets import Dataset
    from support.seeing_models import square, write_seeing_model
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from trl import GRPOTrainer

    moved: list[float] = []

    class Compared(GRPOTrainer):
        def _get_per_token_logps_and_entropies(self, model: Any, input_ids: Any, *given: Any, **named: Any) -> Any:
            scored = super()._get_per_token_logps_and_entropies
            result = scored(model, input_ids, *given, **named)
            other = input_ids.clone()
            other[:, -1] = torch.where(other[:, -1] == 99, 98, 99)
            with torch.no_grad():
                apart = scored(model, other, *given, **named)[0] - result[0]
            moved.extend(apart.abs()[:, :-1].flatten().tolist())
            return result

    folder = write_seeing_model(in_library.FOLDER / family, family)
    rows = [{"prompt": [{"role": "user", "content": f"colour {n}?"}]} for n in range(8)]
    if images:
        rows = [{**row, "image": square("red", random.Random(n))} for n, row in enumerate(rows)]
    arguments = in_library._config(max_steps=1, beta=0.0, generation_kwargs={"min_new_tokens": 8})
    in_library.STAGE[0] = "trainer"
    trainer = Compared(
        model=AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        reward_funcs=lambda completions, **kwargs: [float(len(one[0]["content"])) for one in completions],
        processing_class=AutoProcessor.from_pretrained(folder),
    )
    in_library.STAGE[0] = "train"
    trainer.train()
    return moved


def load_processor(model_type: str, image_processor: str) -> None:
    """Loads the processor of a folder with the default configuration of a family, and a tokenizer of text."""
    from transformers import AutoConfig, AutoProcessor, AutoTokenizer

    folder = in_library.FOLDER / model_type
    AutoTokenizer.from_pretrained(in_library.FOLDER / "model").save_pretrained(folder)
    AutoConfig.for_model(model_type).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": image_processor}))
    in_library.STAGE[0] = "trainer"
    AutoProcessor.from_pretrained(folder)


def processors_of_videos() -> list[str]:
    """The families of models that see whose processor has a part for videos, which needs torchvision."""
    import transformers
    from transformers.models.auto import modeling_auto, processing_auto

    seeing = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    names = {family: name for family, name in processing_auto.PROCESSOR_MAPPING_NAMES.items() if family in seeing}

    def has_videos(name: str) -> bool:
        try:
            return "video_processor" in getattr(transformers, name).get_attributes()
        except ImportError:  # the class itself needs torchvision
            return True

    return [family for family, name in names.items() if has_videos(name)]


def ends_of_the_vocabulary(lora: dict[str, Any], tied: bool) -> dict[str, bool]:
    """Which end of the vocabulary one step through an adapter moves, and whether the two are the same then."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(_saved(f"tied-{tied}", tied), dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["q_proj"], **lora))
    base, ids = adapted.base_model.model, torch.arange(3, 13)[None]

    def ends() -> tuple[Any, Any]:
        with torch.no_grad():
            rows = base.model.embed_tokens(torch.arange(model.config.vocab_size))
            return rows.clone(), base.lm_head(torch.eye(model.config.hidden_size)).T.clone()

    before = ends()
    adapted(ids, labels=ids).loss.backward()
    torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=1.0).step()
    after = ends()
    moved = [not new.allclose(old) for new, old in zip(after, before, strict=True)]
    return {"embedding": moved[0], "output": moved[1], "same": bool(after[0].allclose(after[1], atol=1e-6))}


def train_as(architecture: str) -> None:
    """Trains the small Qwen2 one step where its config.json names another class."""
    in_library.train({}, model=_saved(f"as-{architecture}", architectures=[architecture]))


def score_with(labels: int | None) -> dict[str, Any]:
    """Loads a Qwen2 with this many labels, None for a causal one, as TRL loads a reward model; new: random weights."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    place = in_library.FOLDER / f"with-{labels}-labels"
    config = AutoConfig.from_pretrained(in_library.FOLDER / "model")
    if labels is not None:
        config.num_labels = labels
    kind = AutoModelForCausalLM if labels is None else AutoModelForSequenceClassification
    kind.from_config(config).save_pretrained(place)
    in_library.STAGE[0] = "trainer"
    loaded = AutoModelForSequenceClassification.from_pretrained(place, num_labels=1, output_loading_info=True)
    written = json.loads((place / "config.json").read_text())
    return {"new": sorted(loaded[1]["missing_keys"]), "id2label": written.get("id2label")}

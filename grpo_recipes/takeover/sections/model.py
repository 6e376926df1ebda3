"""The model: ModelConfig's keys, `model_init_kwargs`, LoRA and quantization."""

import re
from collections.abc import Mapping

from grpo_recipes.takeover.basis.context import Situation, beside_the_recipe
from grpo_recipes.takeover.basis.read import table_of
from grpo_recipes.takeover.basis.trl_values import is_true
from grpo_recipes.user_files.model_config import read_model_config

IGNORED = "`trl grpo` before 0.26 reads it and loads the model without it"
NO_QUANTIZATION = "read only with load_in_4bit or load_in_8bit"
DTYPES = ("float32", "bfloat16", "float16")
# Config keys of mixtures of experts, and the names of such models.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "router_aux_loss_coef")
MIXTURE = re.compile(
    r"moe|mixtral|\d+x\d+b|-a\d+(\.\d+)?b|gpt-oss|deepseek-?v[23]|llama-4|glm-4\.[5-9]|kimi-k|minimax|jamba|dbrx",
    re.IGNORECASE,
)
LOADING = ("dtype", "torch_dtype", "model_revision", "attn_implementation", "trust_remote_code")
NO_ADAPTER = "the configuration does not say whether the script passes one; if it does, write its values under `lora`"


def take_model(situation: Situation) -> None:
    """Takes over all keys about the model."""
    given, home = situation.given, "model.model_name_or_path"
    if given.values.get("model_name_or_path"):
        name = str(given.values["model_name_or_path"])
        given.map_key("model_name_or_path", home, beside_the_recipe(name, situation.folder))
    else:
        situation.draft.put(home, "owner/model", "no model was named: replace it with yours")
        given.refuse_key("model_name_or_path", "the configuration names no model", home)
        if "use_peft" not in given:
            given.refuse_key("peft_config", NO_ADAPTER, home)
    if "model_init_kwargs" in given:
        _loading_arguments(situation)
    for name in LOADING:
        if name in given:
            _loading(situation, name)
    _quantization(situation)
    _lora(situation)


def _loading_arguments(situation: Situation) -> None:
    """Takes over model_init_kwargs: its keys override those of ModelConfig, as in TRL's script."""
    given, inside = situation.given, situation.block("model_init_kwargs", "model")
    for key in list(inside.values):
        name = {"torch_dtype": "dtype", "revision": "model_revision"}.get(key, str(key))
        if name not in LOADING or key == "model_revision":
            inside.answer(key, table_of("trl")["model_init_kwargs"].get(key, table_of("trl")["model_init"]))
            continue
        if name in given:
            given.emulate_key(name, f"model_init_kwargs.{key} wins")
        given.values[name], given.names[name] = inside.values[key], inside.name(key)
        _loading(situation, name, always=True)


def _loading(situation: Situation, name: str, *, always: bool = False) -> None:
    given, draft = situation.given, situation.draft
    value, key = given.values[name], name.removeprefix("torch_")
    where, word = f"model.{key}", str(value).removeprefix("torch.")
    if not always and not _is_read(situation, key):
        given.emulate_key(name, IGNORED)
        draft.comments["model"] = f"{name}: {IGNORED}"
    elif where in draft.values:
        given.emulate_key(name, f"{where} is already set")
    elif name == "trust_remote_code":
        given.map_key(name, where, is_true(value))
    elif value is None:
        given.map_key(name)
    elif key != "dtype" or word in DTYPES:
        given.map_key(name, where, word)
    elif value == "auto" and (own := _own_dtype(situation)) is not None:
        given.emulate_key(name, "as in the model's own config", where, own)
    else:
        given.refuse_key(name, f"a recipe sets the dtype of the weights to {', '.join(DTYPES)}, not {value}", where)


def _is_read(situation: Situation, name: str) -> bool:
    """Whether the script passes a key of ModelConfig to the model; a script without rewards is its author's."""
    if not {"reward_funcs", "reward_model_name_or_path"} & set(situation.given.values):
        return True
    window = table_of("releases")["script_loads_the_model"].get(situation.dialect, {}).get(name)
    return window is None or situation.release.is_in({"trl": window})


def _config(situation: Situation) -> Mapping[str, object]:
    return read_model_config(str(situation.draft.values["model.model_name_or_path"])) or {}


def mixes_experts(situation: Situation) -> bool:
    """Whether the model is a mixture of experts: by its configuration, or by name if that is unknown here."""
    config = _config(situation)
    if config:
        return any(config.get(key) for key in EXPERTS)
    return MIXTURE.search(str(situation.draft.values["model.model_name_or_path"])) is not None


def _own_dtype(situation: Situation) -> str | None:
    config = _config(situation)
    own = config.get("dtype") or config.get("torch_dtype")
    return own if own in DTYPES else None


def _section(situation: Situation, part: str, off: str) -> None:
    """Takes over the keys of a section, and writes ModelConfig's defaults that differ from the libraries'.

    off: why nothing reads the keys, "" if something does.
    """
    given = situation.given
    for name, (kind, where, default) in table_of("trl")[part].items():
        value = situation.read(name, kind)
        value = "all-linear" if value == ["all-linear"] else value
        if name in given and off:
            given.add_row(name, "mapped" if off == NO_QUANTIZATION else "emulated", "", off)
        elif name in given:
            given.map_key(name, where if value is not None else "", value)
        elif not off and default not in (None, False) and name not in given.taken:
            situation.draft.put(where, default, "TRL's own default")


def _quantization(situation: Situation) -> None:
    draft, is_read = situation.draft, _is_read(situation, "quantization")
    in_4bit = situation.read("load_in_4bit", "bool")
    is_on = in_4bit or situation.read("load_in_8bit", "bool")
    _section(situation, "quantization", "" if is_on and is_read else IGNORED if is_on else NO_QUANTIZATION)
    if is_read and in_4bit:
        dtype = draft.values.get("model.dtype", "float32")
        draft.values.setdefault("quantization.bnb_4bit_quant_type", "nf4")
        draft.put("quantization.bnb_4bit_compute_dtype", dtype, "TRL takes the dtype of the weights")
        if (
            situation.release.is_in(table_of("releases")["quant_storage_is_the_dtype"])
            and "model.dtype" in draft.values
        ):
            draft.values.setdefault("quantization.bnb_4bit_quant_storage", dtype)


def _lora(situation: Situation) -> None:
    wanted = situation.read("use_peft", "bool")
    if "use_peft" in situation.given:
        situation.given.map_key("use_peft", because="a `lora` section" if wanted else "no `lora` section")
    _section(situation, "lora", "" if wanted else "TRL reads it only with use_peft: true")
    if wanted and "lora.target_modules" not in situation.draft.values:
        _target_modules(situation)


def _target_modules(situation: Situation) -> None:
    """Writes the target modules: PEFT's default depends on the architecture, a recipe states them."""
    kind = _config(situation).get("model_type")
    modules = table_of("peft_targets").get(str(kind))
    if modules is not None:
        situation.draft.put("lora.target_modules", modules, f"PEFT's own choice for {kind}")
    else:
        reason = "PEFT chooses by the model's architecture, which is not known here; write the list"
        situation.given.refuse_key("lora_target_modules", reason, "lora.target_modules")

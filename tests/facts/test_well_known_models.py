"""A model's sizes come from its folder, then the local hub cache, then the shipped table, and from nowhere else."""

import json
from pathlib import Path

import pytest

from grpo_recipes.facts.released.logits import model_classes
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.user_files.model_config import parameter_count, read_model_config

# The counts that huggingface.co shows for the stored weights of these models, tied embeddings once.
PUBLISHED = {
    "HuggingFaceTB/SmolLM2-1.7B": 1_711_376_384,
    "HuggingFaceTB/SmolLM2-135M": 134_515_008,
    "HuggingFaceTB/SmolLM2-360M": 361_821_120,
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-72B": 72_706_203_648,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "allenai/OLMo-2-0425-1B": 1_484_916_736,
    "allenai/OLMo-2-1124-13B": 13_716_198_400,
    "allenai/OLMo-2-1124-7B": 7_298_617_344,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "google/gemma-3-1b-it": 999_885_952,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "microsoft/phi-4": 14_659_507_200,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "mistralai/Mistral-7B-v0.3": 7_248_023_552,
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def store(cache: Path, model: str, commit: str, config: dict[str, object], ref: str | None = None) -> None:
    """Puts a config into the cache as huggingface_hub does."""
    folder = cache / f"models--{model.replace('/', '--')}"
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "snapshots" / commit / "config.json").write_text(json.dumps(config))
    if ref is not None:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / ref).write_text(commit)


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_the_table_gives_the_published_count(model: str) -> None:
    config = read_model_config(model)
    assert config is not None
    assert parameter_count(config) == PUBLISHED[model]


def test_every_model_of_the_table_is_complete() -> None:
    for model in table("models")["models"]:
        config = read_model_config(model)
        assert config is not None
        architectures, layers = config["architectures"], config["num_hidden_layers"]
        assert isinstance(architectures, list)
        assert architectures[0] in model_classes()
        assert isinstance(layers, int)
        assert isinstance(config["tie_word_embeddings"], bool)
        assert int(str(config["num_attention_heads"])) % int(str(config["num_key_value_heads"])) == 0
        assert int(str(config["max_position_embeddings"])) % 1024 == 0


def test_the_local_cache_is_asked_before_the_table(cache: Path) -> None:
    store(cache, "Qwen/Qwen3-8B", "abc", {"model_type": "qwen3", "hidden_size": 1}, ref="main")
    found = read_model_config("Qwen/Qwen3-8B")
    assert found == {"model_type": "qwen3", "hidden_size": 1}


def test_a_folder_is_asked_before_the_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(cache, "Qwen/Qwen3-8B", "abc", {"hidden_size": 1}, ref="main")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    assert read_model_config("Qwen/Qwen3-8B") is None
    (tmp_path / "Qwen" / "Qwen3-8B" / "config.json").write_text('{"hidden_size": 2}')
    assert read_model_config("Qwen/Qwen3-8B") == {"hidden_size": 2}


@pytest.mark.parametrize(
    ("revision", "expected"),
    [("v1", {"hidden_size": 1}), ("abc", {"hidden_size": 1}), ("v2", None), ("../../x", None)],
)
def test_another_revision_is_another_model(cache: Path, revision: str, expected: dict[str, object] | None) -> None:
    store(cache, "Qwen/Qwen3-8B", "abc", {"hidden_size": 1}, ref="v1")
    assert read_model_config("Qwen/Qwen3-8B", revision) == expected


@pytest.mark.parametrize("model", ["owner/unknown", "../secrets", "https://x/y", "", "a/b/c"])
def test_what_nobody_has_is_not_known(model: str) -> None:
    assert read_model_config(model) is None


def test_the_cache_lies_where_huggingface_hub_puts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    store(tmp_path / "huggingface" / "hub", "a/b", "abc", {"hidden_size": 3}, ref="main")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert read_model_config("a/b") == {"hidden_size": 3}
    monkeypatch.setenv("HF_HOME", str(tmp_path / "other"))
    assert read_model_config("a/b") is None

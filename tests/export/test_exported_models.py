"""What is exported is what was trained: as transformers and PEFT load it, apart from the proof of the export itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from export_runs import ADDED, largest, own_log_probs

pytestmark = pytest.mark.stack

Exported = tuple[Path, dict[str, Any]]


def _trained(run: Path) -> Any:
    """The model of a run with its adapter beside its weights, as PEFT or transformers load what the run left."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    plan = json.loads((run / "plan.json").read_text())
    if plan["arguments"]["LoraConfig"] is None:
        return AutoModelForCausalLM.from_pretrained(run / "final").eval()
    packed = plan["arguments"]["BitsAndBytesConfig"]
    more = {} if packed is None else {"quantization_config": BitsAndBytesConfig(**packed)}
    base = run / "extended_model" if plan["tokenizer"]["add_tokens"] else plan["model"]["path"]
    return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, **more), run / "final").eval()


def _texts(run: Path) -> list[tuple[list[int], list[int]]]:
    """Tokens of some sums with their answers, and of the added tokens."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run / "final")
    sums = [(f"{a}+{b}=", str(a + b)) for a, b in ((17, 25), (48, 57), (93, 8), (64, 33))]
    added = [token for token in ADDED if token in tokenizer.get_vocab()]
    texts = [*sums, ("17+25=", "".join(added))] if added else sums
    return [(tokenizer(prompt)["input_ids"], tokenizer(completion)["input_ids"]) for prompt, completion in texts]


@pytest.mark.parametrize(("kind", "allowed"), [("full", 0.1), ("lora", 0.1), ("nf4", 0.25), ("tied", 0.1)])
def test_the_exported_model_is_the_trained_one(
    kind: str, allowed: float, run_of: Callable[[str], Path], exported: Callable[..., Exported]
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run, (place, answer) = run_of(kind), exported(kind, "--merge", "--dtype", "bfloat16")
    assert answer["findings"] == []
    proof = answer["proof"]
    assert proof["difference"] <= proof["allowed"] == 4 * proof["rounding"]
    assert AutoModelForCausalLM.from_pretrained(place, dtype="auto").dtype.itemsize == 2
    model = AutoModelForCausalLM.from_pretrained(place, dtype="float32").eval()
    texts, trained = _texts(run), _trained(run)
    assert largest(own_log_probs(model, texts), own_log_probs(trained, texts)) < allowed
    tokenizer, kept = AutoTokenizer.from_pretrained(place), AutoTokenizer.from_pretrained(run / "final")
    assert tokenizer.get_vocab() == kept.get_vocab()
    assert tokenizer.chat_template == kept.chat_template
    assert model.get_input_embeddings().weight.shape[0] >= len(tokenizer)
    assert model.config.tie_word_embeddings is True
    assert not hasattr(model.config, "quantization_config")
    if kind != "full":
        assert proof["of_adapter"] > proof["allowed"]  # so a missing adapter would have been seen
        with trained.disable_adapter():
            assert largest(own_log_probs(model, texts), own_log_probs(trained, texts)) > 2 * allowed


def test_the_exported_adapter_is_the_trained_one(
    run_of: Callable[[str], Path], exported: Callable[..., Exported]
) -> None:
    from peft import AutoPeftModelForCausalLM

    run, (place, answer) = run_of("tied"), exported("tied", "--adapter")
    assert answer["proof"]["difference"] == 0.0
    model = AutoPeftModelForCausalLM.from_pretrained(place).eval()
    texts = _texts(run)
    assert largest(own_log_probs(model, texts), own_log_probs(_trained(run), texts)) == 0.0


def test_what_is_handed_over_tells_its_ends_and_how_it_was_proved(exported: Callable[..., Exported]) -> None:
    place, answer = exported("tied", "--merge", "--dtype", "bfloat16")
    ends = json.loads((place / "generation_config.json").read_text())
    own = json.loads((place / "config.json").read_text())
    assert ends["eos_token_id"] == [own["eos_token_id"], own["vocab_size"] - 1]  # the last is </search>
    card, summary = (place / "README.md").read_text(), json.loads((place / "run.json").read_text())
    export = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])["export"]
    assert (export["merged"], export["dtype"]) == (True, "bfloat16")
    assert "library_name: transformers" in card
    assert any("pass them as stop strings when generating: '</search>'" in note for note in export["notes"])
    assert summary["export"]["difference"] == answer["proof"]["difference"]
    assert str(place.parent) not in card
    assert {file.stat().st_mode for file in place.iterdir()} == {(place / "README.md").stat().st_mode}


def test_a_run_that_recorded_no_completions_makes_some(exported: Callable[..., Exported]) -> None:
    _, answer = exported("full", "--merge", "--dtype", "bfloat16")
    assert "new completions, since the run recorded none" in answer["proof"]["completions"]
    _, answer = exported("tied", "--merge", "--dtype", "bfloat16")
    assert "12 completions that the run recorded at step 4 and the added tokens" in answer["proof"]["completions"]

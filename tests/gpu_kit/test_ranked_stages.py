"""The list of the stages, and which of them a command runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_kit import run as runner
from gpu_kit.bench import recipe, write_rows
from gpu_kit.result import Result, Results
from gpu_kit.scale import SHAPES, Scale
from gpu_kit.stages.catalog import STAGES
from gpu_kit.trained import ROOT
from grpo_recipes.user_files.model_config import parameter_count


def test_no_stage_takes_longer_than_nine_minutes() -> None:
    assert [name for name, stage in STAGES.items() if not 0 < stage.limit_s <= 540] == []


def test_a_file_of_stages_is_in_the_list() -> None:
    folder = Path(runner.__file__).parent / "stages"
    listed = {stage.run.__module__.rpartition(".")[2] for stage in STAGES.values()}
    assert {place.stem for place in folder.glob("*.py")} - {"__init__", "catalog"} == listed


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param("all", list(STAGES), id="all"),
        pytest.param("qlora,lora", ["lora", "qlora"], id="in the order of the list"),
    ],
)
def test_stages_are_chosen_by_name(words: str, names: list[str]) -> None:
    assert runner.chosen(words) == names


def test_a_word_that_names_no_stage_is_said_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="no stage 'lorra'; the stages are doctor, lora,"):
        runner.chosen("doctor,lorra")
    with pytest.raises(ValueError, match="no stage was named; the stages are doctor, lora,"):
        runner.chosen(",")


def test_a_folder_of_results_that_is_a_file_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    words = ["run", "--device", "cpu", "--stages", "doctor", "--out", str(tmp_path / "file")]
    monkeypatch.setattr("sys.argv", words)
    assert runner.main() == 2
    assert "error: " in capsys.readouterr().err


def test_what_was_cut_off_waits_for_what_was_not_tried() -> None:
    results = Results("cpu", [{}], {"doctor": Result("cut off"), "lora": Result("failed")})
    names = ["doctor", "lora", "qlora"]
    assert runner.still_to_run(names, results, again=False) == ["lora", "qlora", "doctor"]


def test_what_passed_is_not_run_again_and_what_failed_or_was_left_out_is() -> None:
    results = Results("cpu", [{}], {"doctor": Result("passed"), "lora": Result("failed"), "qlora": Result("left out")})
    names = ["doctor", "lora", "qlora", "zero2"]
    assert runner.still_to_run(names, results, again=False) == ["lora", "qlora", "zero2"]
    assert runner.still_to_run(names, results, again=True) == names


# Source: the number of parameters that the model cards of Qwen2.5 give, in millions.
@pytest.mark.parametrize(("size", "millions"), [("0.5B", 494), ("1.5B", 1544), ("3B", 3086), ("7B", 7616)])
def test_the_models_are_as_large_as_the_real_ones(size: str, millions: int) -> None:
    shape = SHAPES[size]
    assert round(shape.parameters / 1e6) == millions
    sizes = {"hidden_size": shape.hidden, "intermediate_size": shape.intermediate, "vocab_size": shape.vocabulary}
    heads = {"num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads}
    rest = {"model_type": "qwen2", "num_hidden_layers": shape.layers, "tie_word_embeddings": shape.tied}
    assert parameter_count(sizes | heads | rest) == shape.parameters


def test_the_cpu_gets_small_trainings_and_a_gpu_those_that_were_asked_for() -> None:
    small, large = Scale("cpu"), Scale("cuda")
    assert (large.size("7B"), large.tokens(256), large.prompts(16), large.times(50, 6)) == ("7B", 256, 16, 50)
    assert (small.size("7B"), small.tokens(256), small.prompts(16), small.times(50, 6)) == ("tiny", 8, 4, 6)


def test_the_rows_have_as_many_tokens_as_were_asked_for(tmp_path: Path) -> None:
    place = write_rows(tmp_path, 40)
    lengths = {len(line) for line in place.read_text().splitlines()}
    assert lengths == {len('{"question": ""}') + 40}


def test_a_recipe_of_a_stage_has_no_findings(tmp_path: Path, grpo_run: Callable) -> None:
    import yaml

    model = ROOT / "recipes" / "quickstart" / "model"
    file = tmp_path / "recipe.yaml"
    rows = write_rows(tmp_path, 40)
    for lora, dtype in ((True, "bfloat16"), (False, "float32")):
        content = recipe("a_stage-0.5B", model, rows, tokens=16, prompts=4, lora=lora, dtype=dtype)
        file.write_text(yaml.safe_dump(content))
        answer = grpo_run("validate", str(file), "--target", "tested,gpus=1xH200-141GB")
        assert (answer.code, answer.out) == (0, f"{file}: no findings\n"), answer.out

"""A GGUF file beside an export, made by llama.cpp's own converter and held against the trained model."""

import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from export_runs import Answer, command, largest, own_log_probs
from llama_converter import CONVERTER, PACKAGES

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(
        not CONVERTER.is_file(), reason="llama.cpp's converter is not here; make test-gguf downloads it"
    ),
]
QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart"
RECIPE = QUICKSTART.parent / "quickstart.yaml"
SMALL = {"training.max_steps": 4, "training.learning_rate": 1e-2, "training.save_steps": 0, "evaluation.max_rows": 12}
# Behind what the converter wrote, it turns the sign of a weight, as a converter with a defect might.
BROKEN = f"""
import runpy, sys
sys.path.insert(0, {str(CONVERTER.parent)!r})
try:
    runpy.run_path({str(CONVERTER)!r}, run_name="__main__")
except SystemExit as ended:
    if ended.code:
        raise
from gguf import GGUFReader
file = sys.argv[sys.argv.index("--outfile") + 1]
(weight,) = (one for one in GGUFReader(file, "r+").tensors if one.name == "blk.0.ffn_down.weight")
weight.data[:] = -weight.data
weight.data.base.flush() if hasattr(weight.data.base, "flush") else None
"""


@pytest.fixture(autouse=True, scope="session")
def _packages() -> Iterator[None]:
    """What reads GGUF files and makes tokenizers of Llama is found here, and in the commands of the tests."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(PACKAGES))
    sys.path.append(str(PACKAGES))
    yield
    sys.path.remove(str(PACKAGES))
    patch.undo()


def _sentences() -> list[str]:
    rows = (json.loads(line) for line in (QUICKSTART / "train.jsonl").read_text().splitlines())
    return [f"{row['question']}{row['answer']}" for row in rows]


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama with a SentencePiece tokenizer, of a kind that the converter knows."""
    import io

    import sentencepiece
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaTokenizer

    place, written = tmp_path_factory.mktemp("llama"), io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_sentences()),
        model_writer=written,
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (place / "tokenizer.model").write_bytes(written.getvalue())
    tokenizer = LlamaTokenizer.from_pretrained(place)
    tokenizer.pad_token = "<unk>"
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(place)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    tokens = {"vocab_size": len(tokenizer), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    LlamaForCausalLM(LlamaConfig(**sizes, **tokens, max_position_embeddings=256)).save_pretrained(place)
    return place


@pytest.fixture(scope="session")
def llama_run(warm_python: Path, llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that trained an adapter of it for some steps."""
    folder = tmp_path_factory.mktemp("llama-run") / "run"
    reward = {"name": "regex_match", "options": {"pattern": ".*[0-9].*"}}
    values = {**SMALL, "model.model_name_or_path": str(llama), "generation.stop": ["="], "rewards": [reward]}
    options = [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    done = command(warm_python, RECIPE, "--out", folder, *options)
    assert done.code == 0, done.out + done.err
    return folder


@pytest.fixture
def with_gguf(warm_python: Path, llama_run: Path, tmp_path: Path) -> Callable[..., Answer]:
    """Exports that run with a GGUF file, to the folder `exported` of the test."""
    return functools.partial(command, warm_python, "export", llama_run, "-o", tmp_path / "exported", "--gguf")


def _left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(("dtype", "allowed"), [("float16", 0.02), ("bfloat16", 0.1), ("float32", 1e-4)])
def test_the_gguf_file_is_the_trained_model(
    dtype: str, allowed: float, llama_run: Path, with_gguf: Callable[..., Answer], tmp_path: Path
) -> None:
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    answer = with_gguf("--dtype", dtype, "--converter", CONVERTER, "--json").json()
    gguf, place = answer["gguf"], tmp_path / "exported"
    assert gguf["file"] == f"model-{ {'float16': 'f16', 'bfloat16': 'bf16', 'float32': 'f32'}[dtype] }.gguf"
    assert gguf["difference"] <= gguf["allowed"] < gguf["of_adapter"]
    assert answer["files"][gguf["file"]] == (place / gguf["file"]).stat().st_size
    tokenizer = AutoTokenizer.from_pretrained(place)
    texts = [(tokenizer(f"{a}+{b}=")["input_ids"], tokenizer(str(a + b))["input_ids"]) for a, b in ((17, 25), (93, 8))]
    read = AutoModelForCausalLM.from_pretrained(place, gguf_file=gguf["file"], dtype="float32").eval()
    trained = AutoPeftModelForCausalLM.from_pretrained(llama_run / "final").eval()
    assert largest(own_log_probs(read, texts), own_log_probs(trained, texts)) < allowed
    with trained.disable_adapter():
        assert largest(own_log_probs(read, texts), own_log_probs(trained, texts)) > allowed
    assert gguf["file"] in (place / "README.md").read_text()


def test_a_converter_that_changes_a_weight_is_refused_by_the_proof(
    with_gguf: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "converter.py").write_text(BROKEN)
    done = with_gguf("--converter", tmp_path / "converter.py")
    assert done.code == 3, done.out + done.err
    assert "error: the GGUF file is not the trained model, nothing was written" in done.err
    assert _left(tmp_path) == ["converter.py"]


def test_a_tokenizer_that_llama_cpp_does_not_know_is_said(
    run_of: Callable[[str], Path], warm_python: Path, tmp_path: Path
) -> None:
    words = ("-o", tmp_path / "exported", "--gguf", "--converter", CONVERTER)
    done = command(warm_python, "export", run_of("lora"), *words)
    assert done.code == 1
    assert "error: llama.cpp's converter wrote no GGUF file, nothing was written" in done.err
    assert "BPE pre-tokenizer was not recognized" in done.err
    assert _left(tmp_path) == []


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise SystemExit('no such thing as a model')", "ended with 1: no such thing as a model"),
        ("", "ended with 0: it said nothing"),
        ("import no_such_module", "pip install no_such_module, which the converter needs, or leave out --gguf"),
    ],
)
def test_a_converter_that_makes_nothing_is_said(
    program: str, said: str, run_of: Callable[[str], Path], warm_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "converter.py").write_text(program)
    words = ("-o", tmp_path / "exported", "--gguf", "--converter", tmp_path / "converter.py")
    done = command(warm_python, "export", run_of("lora"), *words)
    assert done.code == 1
    assert said in done.err
    assert _left(tmp_path) == ["converter.py"]


def test_what_nobody_here_can_read_is_not_made(run_of: Callable[[str], Path], tmp_path: Path) -> None:
    words = ("-o", tmp_path / "exported", "--gguf", "--converter", CONVERTER)
    # Not a fork of a process that has the packages.
    done = command(Path(sys.executable).parent, "export", run_of("lora"), *words, PYTHONPATH="")
    assert done.code == 3
    assert "pip install gguf\n" in done.err
    assert _left(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gguf",), "convert_hf_to_gguf.py is not on PATH"),
        (("--gguf", "--converter", "none.py"), "--converter none.py: the file does not exist"),
        (("--converter", "none.py"), "--converter needs --gguf"),
        (("--gguf", "--adapter"), "--gguf needs the whole model"),
    ],
)
def test_what_cannot_be_converted_is_said_at_once(
    words: tuple[str, ...], said: str, run_of: Callable[[str], Path], warm_python: Path, tmp_path: Path
) -> None:
    done = command(warm_python, "export", run_of("lora"), "-o", tmp_path / "exported", *words, PATH=str(warm_python))
    assert done.code == 2
    assert said in done.err
    assert _left(tmp_path) == []

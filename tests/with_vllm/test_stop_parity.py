"""Completions end at the same token with transformers, with vLLM in the training process and with a vLLM server.

Each case is a run of one step of its own, made by the command and trained by the worker; what is compared is what its
loss was computed on. The vLLMs load a folder whose tokenizer lacks one token of the policy's.
"""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_models import ids_of, write_chains, write_rows
from stop_cases import CASES, CHAINS, MORE_TOKENS, Case
from stop_parity_table import Table, outcome_of, page
from vllm_servers import environment, serving, warm

from grpo_recipes.cli.main import main

pytestmark = pytest.mark.vllm

BACKENDS = ("transformers", "colocate", "server")
TIMEOUT_S = 600
# vLLM on a CPU cannot be given weights by TRL itself; cpu_weights does it here.
ACCEPTED = ("--accept", "GEN001", "--accept", "GEN008")
ENGINE = {"enforce_eager": True, "max_num_seqs": 16}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The policy, and the folder that vLLM starts from: a smaller tokenizer, and weights that end each completion."""
    folder = tmp_path_factory.mktemp("models")
    return write_chains(folder / "policy", CHAINS, more_tokens=MORE_TOKENS), write_chains(folder / "engine", [])


@pytest.fixture(scope="session")
def outcomes_of(
    tmp_path_factory: pytest.TempPathFactory, models: tuple[Path, Path], request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Table]]:
    """The outcomes of all cases of a backend, run once; at the end the table, if it was asked for and all are there."""
    found: dict[str, Table] = {}
    started: set[str] = set()

    def made(backend: str) -> Table:
        if backend not in started:
            started.add(backend)
            found[backend] = _run(backend, tmp_path_factory.mktemp(backend), *models)
        assert backend in found, f"the runs with {backend} failed in an earlier test"
        return found[backend]

    yield made
    place = request.config.getoption("--stop-parity-table", default=None)
    if place is not None and set(found) == set(BACKENDS):
        Path(place).write_text(page(found), encoding="utf-8")


def _run(backend: str, folder: Path, policy: Path, engine: Path) -> Table:
    variables = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    if backend == "colocate":
        variables["ENGINE_MODEL"] = str(engine)
    with contextlib.ExitStack() as stack:
        if backend == "server":
            address = stack.enter_context(serving(engine, folder / "server.log", "--max-model-len", "64"))
            variables["GRPO_RUN_VLLM_URL"] = address
        else:
            address = "http://127.0.0.1:1"
        runs = [_run_folder(case, backend, address, folder, policy) for case in CASES]
        here = Path(__file__).parent
        done = subprocess.run(
            [warm(), "-Xwarm", here / "many_runs.py", *runs],
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
    assert done.returncode == 0, done.stdout[-6000:]
    return {case.name: outcome_of(run) for case, run in zip(CASES, runs, strict=True)}


def _run_folder(case: Case, backend: str, address: str, folder: Path, policy: Path) -> Path:
    """Writes the run folder of a case with the command, as a user does."""
    rows = [{"prompt": case.prompt}, {"prompt": case.other}]
    recipe = {
        "recipe": 1,
        "name": "stops",
        "model": {"model_name_or_path": str(policy)},
        "dataset": {"path": str(write_rows(folder / f"{case.folder}.jsonl", rows))},
        "rewards": [{"name": "completion_length", "options": {"max_characters": 40}}],
        "generation": _generation(case, backend),
        "grpo": {"num_generations": 2, "mask_truncated_completions": case.masked},
        "training": {"prompts_per_step": 2, "max_steps": 1, "learning_rate": 1e-6, "save_steps": 0},
        "trl": {"vllm_server_base_url": address} if backend == "server" else {},
    }
    path = folder / f"{case.folder}.yaml"
    path.write_text(yaml.safe_dump(recipe, allow_unicode=True), encoding="utf-8")
    run = folder / case.folder
    accepted = ACCEPTED if backend != "transformers" else ()
    with pytest.raises(SystemExit) as ended:
        main([str(path), "--dry-run", "--out", str(run), *accepted])
    assert ended.value.code in (0, None), f"no run folder for: {case.name}"
    return run


def _generation(case: Case, backend: str) -> dict[str, Any]:
    section: dict[str, Any] = {
        "max_completion_length": case.limit,
        "stop": list(case.stop),
        "stop_token_ids": ids_of(case.stop_tokens, more_tokens=MORE_TOKENS),
    }
    if backend == "transformers":
        return {**section, "use_vllm": False}
    if backend == "colocate":
        section |= {"vllm_engine": ENGINE, "vllm_max_model_length": 64}
    return {**section, "use_vllm": True, "vllm_mode": backend}


@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=() if name == "colocate" else pytest.mark.long) for name in BACKENDS]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder)
def test_completion_mask_and_clipped_ratio_are_the_same(
    case: Case, backend: str, outcomes_of: Callable[[str], Table]
) -> None:
    found = outcomes_of(backend)[case.name]
    assert found.rows == tuple((tuple(ids), trained) for ids, trained in case.rows())
    assert found.clipped_ratio == case.clipped_ratio()
    if backend != "transformers":
        lengths = tuple(sorted(len(ids) for ids, _ in found.rows))
        assert (found.generated > lengths) if case.overrun else (found.generated == lengths)

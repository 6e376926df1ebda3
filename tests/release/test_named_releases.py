"""Few files name the tested release of transformers by hand, and each has its reason."""

import re
from pathlib import Path

from support.releases import TRANSFORMERS

ROOT = Path(__file__).parents[2]
# Moved by `make release-of`, but for the last.
MOVED = {
    "constraints/cpu.txt": "the one place",
    "pyproject.toml": "the windows of the extras",
    "docs/measured.md": "the range that was run",
    "docs/stacks.md": "an example with its output",
    "grpo_recipes/rules/worker_was_tested_with_this_transformers.py": "the range that was run",
    "grpo_recipes/contract/seams.py": "a person has read these sources",
}
# By release: files about what it changed, which stays true.
ABOUT = {
    "5.24": {
        "grpo_recipes/rules/images_reach_everything.py": "a measurement",
        "grpo_recipes/rules/own_class_gets_its_cache.py": "the first release with the defect",
        "grpo_recipes/rules/tool_describes_itself.py": "the first release that reads types in docstrings",
        "grpo_recipes/worker/proofs/generate_draws_from_the_policy.py": "a defect that the proof finds",
        "grpo_recipes/worker/shims/cache_keyword.py": "the first release with the defect",
        "tests/rules/cases/own_class_gets_its_cache.yaml": "on both sides of the first release",
        "tests/rules/cases/tool_describes_itself.yaml": "on both sides of the first release",
        "tests/stacks/logits_experiments.py": "a keyword that it renamed",
        "tests/worker/in_broken_trainer.py": "a keyword that it renamed",
    },
}
# Written by programs, or records of what was run.
WRITTEN = (
    "benchmarks/",
    "constraints/cuda",
    "docs/rules/",
    "docs/recipe",
    "grpo_recipes/explain/examples.json",
    "grpo_recipes/facts/data/",
    "grpo_recipes/stack/tested.json",
    "schemas/",
    "tests/evidence/coverage.md",
    "tests/release/",
    "tests/shipped_recipes/",
)
FOLDERS = ("benchmarks", "constraints", "docker", "docs", "examples", "gpu_kit", "grpo_recipes", "recipes", "tests")
KINDS = {".cfg", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ""}


def test_files_that_name_the_tested_transformers_give_their_reason() -> None:
    minor = TRANSFORMERS.rpartition(".")[0]
    number = re.compile(rf"(?<![\d.]){re.escape(minor)}(?!\d)(?! GiB)")
    files = [file for name in FOLDERS for file in (ROOT / name).rglob("*") if file.suffix in KINDS and file.is_file()]
    files += [file for file in ROOT.glob("*") if file.suffix in KINDS and file.is_file() and file.name[0] != "."]
    names = {file.relative_to(ROOT).as_posix(): file for file in files if "__pycache__" not in file.parts}
    naming = {
        name
        for name, file in names.items()
        if not name.startswith(WRITTEN) and number.search(file.read_text(encoding="utf-8", errors="ignore"))
    }
    about = ABOUT.get(minor, {})
    assert naming - set(MOVED) - set(about) == set(), "take it from support.releases or --target tested"
    assert set(MOVED) - naming == set()
    assert len(MOVED) + len(about) <= 20

"""Exports a run folder: python -P worker/part.py export.start FOLDER

FOLDER is temporary: it contains the request, request.json, and the answer is written there.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from grpo_recipes.contract.files.exchange_files import answer_of_part, read_request, tell, write_answer
from grpo_recipes.contract.files.folder_files import read_text
from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.integrity.manifest import MANIFEST
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.worker._shared.imports import keep_imports, quiet_libraries
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.survival.folder_faults import why_unwritten


def main(arguments: Sequence[str]) -> int:
    """Exports, and writes the answer, which also reports errors. Returns 0."""
    here = Path(arguments[0])
    write_answer(here, _answer(read_request(here), here))
    return 0


def _answer(request: dict[str, Any], here: Path) -> dict[str, Any]:
    with keep_imports():
        quiet_libraries()
        from grpo_recipes.worker.export.export import ExportAsked, write_export

    folder, target = Path(request["run"]), Path(request["place"])
    plan = from_json(read_text(folder, "plan.json"))
    asked = ExportAsked(request["what"], request["dtype"], target, request["converter"])
    try:
        shown, findings = write_export(plan, folder, asked, here / "scratch", functools.partial(tell, here))
    except Mistake as stopped:
        return answer_of_part(EXIT_STOPPED if isinstance(stopped, Refused) else EXIT_FAILED, stopped.findings)
    except Exception as problem:
        why = why_unwritten(problem, target.parent)
        if why is None:
            raise
        first = (str(problem).splitlines() or [""])[0][:200]
        unwritten = mistake(
            f"{target} cannot be written: {why}",
            because=f"{type(problem).__name__}: {first}; the partial export was removed",
            fix="free some space, or use -o with a folder on a different disk",
        )
        return answer_of_part(EXIT_FAILED, [unwritten])
    if request["push"] is not None:
        pushed_to = push(target, request["push"], private=request["private"])
        if isinstance(pushed_to, Finding):
            return answer_of_part(EXIT_FAILED, [*findings, pushed_to], shown)
        shown["pushed"] = pushed_to
    return answer_of_part(EXIT_DONE, findings, shown)


def push(target: Path, repository: str, *, private: bool) -> str | Finding:
    """Pushes the export, creating the repository, and returns the commit's address or the error; the export stays."""
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repository,
            folder_path=target,
            ignore_patterns=[MANIFEST],  # it has the digests of this folder, not of the repository
            commit_message="Exported by grpo-run",
        )
    except Exception as problem:  # hub, network and library fail in many ways
        first = (str(problem).strip().splitlines() or [""])[0]
        return mistake(
            f"{repository} was not pushed; {target} is complete",
            because=f"{type(problem).__name__}: {first[:300]}",
            fix=f"hf auth login, then hf upload {repository} {target}",
        )
    return str(done.commit_url)

"""Makes an export of a run folder: python -P worker/part.py export.start FOLDER

FOLDER is a temporary one; request.json in it says what is asked for, and the answer is written there.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_files import read_text
from grpo_recipes.contract.files.part_files import read_request, tell, write_answer
from grpo_recipes.contract.findings.finding import Finding, as_record
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.worker._shared.imports import kept_imports
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.quiet import quiet_libraries
from grpo_recipes.worker.survival.folder_faults import why_unwritten

if TYPE_CHECKING:
    from grpo_recipes.worker.export.proof import ExportProof

from huggingface_hub import HfApi

from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.integrity.manifest import MANIFEST


def main(arguments: Sequence[str]) -> int:
    """Exports, and writes the answer; 0 whatever came of it, which the answer says."""
    here = Path(arguments[0])
    write_answer(here, "export", _answer(read_request(here), here))
    return 0


def _answer(request: dict[str, Any], here: Path) -> dict[str, Any]:
    with kept_imports():
        quiet_libraries()
        from grpo_recipes.worker.export.export import ExportAsked, exported
        from grpo_recipes.worker.export.gguf import NotConverted
        from grpo_recipes.worker.export.progress import Stages
        from grpo_recipes.worker.export.texts import NoFolderThere

    folder, place = Path(request["run"]), Path(request["place"])
    plan = from_json(read_text(folder, "plan.json"))
    asked = ExportAsked(request["what"], request["dtype"], place, request["converter"])
    try:
        made = exported(plan, folder, asked, here / "scratch", Stages(functools.partial(tell, here)))
    except NotConverted as problem:
        return _ended(EXIT_FAILED, *problem.findings)
    except Refused as stopped:
        return _ended(EXIT_STOPPED, *stopped.findings)
    except NoFolderThere as problem:
        return _ended(EXIT_FAILED, *_no_folder(place, problem))
    except Exception as problem:
        why = why_unwritten(problem, place.parent)
        if why is None:
            raise
        return _ended(EXIT_FAILED, *_unwritten(place, why, problem))
    shown = {
        "what": made.what,
        "dtype": made.dtype,
        "proof": _proof(made.proof),
        "gguf": None if made.gguf is None else {"file": made.gguf.file, **_proof(made.gguf.proof)},
        "files": made.files,
        "notes": list(made.notes),
        "pushed": None,
    }
    if request["push"] is not None:
        told = pushed(place, request["push"], private=request["private"])
        if isinstance(told, Finding):
            return _ended(EXIT_FAILED, *made.findings, told, shown=shown)
        shown["pushed"] = told
    return _ended(EXIT_DONE, *made.findings, shown=shown)


def _proof(proof: "ExportProof") -> dict[str, Any]:
    return {**proof._asdict(), "allowed": proof.allowed}


def _ended(code: int, *findings: Finding, shown: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"exit_code": code, "findings": [as_record(finding) for finding in findings], "shown": shown}


def _no_folder(place: Path, problem: OSError) -> tuple[Finding, ...]:
    return Refused.of(
        f"{place} cannot be written: no folder can be made there",
        because=f"{problem.filename}: {problem.strerror}",
        fix="-o with a folder elsewhere",
    ).findings


def _unwritten(place: Path, why: str, problem: BaseException) -> tuple[Finding, ...]:
    first = (str(problem).splitlines() or [""])[0][:200]
    return Refused.of(
        f"{place} cannot be written: {why}",
        because=f"{type(problem).__name__}: {first}; what was written of it is removed",
        fix="make room, or -o with a folder elsewhere",
    ).findings


def pushed(place: Path, repository: str, *, private: bool) -> str | Finding:
    """The address of the commit, or why there is none: the export stays where it is. A new repository is made."""
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repository,
            folder_path=place,
            ignore_patterns=[MANIFEST],  # it names the key of this user
            commit_message="Exported by grpo-run",
        )
    except Exception as problem:  # the hub, the network and the library fail in many ways
        first = (str(problem).strip().splitlines() or [""])[0]
        return mistake(
            f"{repository} was not pushed; {place} is whole",
            because=f"{type(problem).__name__}: {first[:300]}",
            fix=f"hf auth login, then hf upload {repository} {place}",
        )
    return str(done.commit_url)

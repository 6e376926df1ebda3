"""An export that is whole and proved, as a repository of the Hugging Face hub."""

from pathlib import Path

from huggingface_hub import HfApi

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.integrity.manifest import MANIFEST


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

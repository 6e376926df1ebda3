"""The commit that a revision on the hub is now."""

import os

from grpo_recipes.user_files.model_code import CONFIGURATIONS

TIMEOUT_S = 5.0


def hub_commit(name: str, revision: str | None, kind: str = "models") -> str | None:
    """The commit of a model or of a data set, None where the hub cannot be asked or does not say.

    kind: "models" or "datasets". The client's own address, tokens and switches hold: HF_ENDPOINT, HF_TOKEN,
    HF_HUB_OFFLINE. Nothing is asked without the client, which comes with the training stack.
    """
    if _is_offline():
        return None  # the client is slow to import only to say so
    try:
        from huggingface_hub import HfApi
    except ImportError:
        return None
    hub = HfApi()
    ask = hub.model_info if kind == "models" else hub.dataset_info
    try:
        return ask(name, revision=revision, timeout=TIMEOUT_S).sha
    except Exception:  # no network, no such model, no permission: loading it says which, with the client's own words
        return None


def fetch_configurations(name: str, commit: str | None) -> None:
    """Has the hub's local cache hold the small files that say whose code a model runs, where the hub can be asked."""
    if commit is None or _is_offline():
        return
    try:
        from huggingface_hub import snapshot_download

        snapshot_download(name, revision=commit, allow_patterns=list(CONFIGURATIONS), etag_timeout=TIMEOUT_S)
    except Exception:  # the worker stops at code of a repository that was not known before
        return


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")

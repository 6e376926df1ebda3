"""The commit that a revision on the hub is now."""

import os

TIMEOUT_S = 5.0


def hub_commit(name: str, revision: str | None, kind: str = "models") -> str | None:
    """The commit of a model or of a data set, None where the hub cannot be asked or does not say.

    kind: "models" or "datasets". The client's own address, tokens and switches hold: HF_ENDPOINT, HF_TOKEN,
    HF_HUB_OFFLINE. Nothing is asked without the client, which comes with the training stack.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
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

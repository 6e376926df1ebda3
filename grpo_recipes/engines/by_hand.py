"""A person starts the run with one command per machine; the machines share only the folder."""

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TextIO

import yaml

from grpo_recipes.contract.exits import EXIT_DONE, Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.base import Engine, Prepare
from grpo_recipes.launch.local import taken
from grpo_recipes.launch.progress import View
from grpo_recipes.render.job import Job, job_of, machine_commands


class EngineByHand(Engine):
    """Prepares the folder and prints the commands; it does not observe the run."""

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Locks and prepares the folder, and starts nothing."""
        if resume:
            with taken(folder):
                for line in prepare():
                    print(redact(line), file=echo, flush=True)
        return EXIT_DONE

    def commands(self, plan: Plan, folder: str, *, resume: bool) -> list[str]:
        """The command of each machine, the first one first and a vLLM server's last."""
        return machine_commands(job_of(plan), folder, sys.executable, resume=resume)

    def advice(self, plan: Plan, folder: str) -> list[str]:
        """When and where to type the commands."""
        job = job_of(plan)
        address = [
            "ADDRESS is the name or address of the first machine, as the others reach it",
            "  (launch.main_process_ip writes it into the commands)",
        ]
        return [
            *(address if job.address is None else []),
            f"one command for each of {job.all_nodes} machines, within ten minutes of each other; all of them need the"
            f" run folder and {sys.executable} at these paths, for example on a shared disk",
        ]


ENGINE = EngineByHand()


# Shared by the files for cluster tools: the path of the run folder there, and the script of a machine.


def folder_there(plan: Plan, disk: str) -> str:
    """The run folder on a machine of the cluster: its own path if that is on the disk, else its name there."""
    folder = PurePosixPath(own_folder(plan))
    return str(folder if folder.is_relative_to(disk) else PurePosixPath(disk, folder.name))


def own_folder(plan: Plan) -> str:
    """The run folder on this machine. Raises Refusal for a plan without one."""
    if plan.folder is None:
        raise Refusal.of("the plan has no run folder", fix="grpo-run RECIPE --dry-run writes one")
    return plan.folder


def job_name(plan: Plan) -> str:
    """A name unique to the run folder: up to 52 letters, digits and dashes, starting with a letter."""
    folder = own_folder(plan)
    words = re.sub(r"[^a-z0-9]+", "-", PurePosixPath(folder).name.lower()).strip("-")
    start = words if words[:1].isalpha() else f"run-{words}"
    return f"{start[:43].strip('-')}-{hashlib.sha256(folder.encode()).hexdigest()[:8]}"


def local_files(plan: Plan) -> list[str]:
    """Local files and folders that the run reads in place, since the run folder has no copy of them.

    Absolute paths.
    """

    def places() -> Iterator[str | None]:
        yield plan.model.path if plan.model.source == "folder" else None
        yield plan.ancestor.named if plan.ancestor is not None and plan.ancestor.named.startswith("/") else None
        yield plan.extends.path if plan.extends is not None and plan.extends.source == "folder" else None
        yield plan.tokenizer.chat_template_path
        held_out = () if plan.evaluation is None else plan.evaluation.sets
        for data in (*plan.trained_data.values(), *(one.data for one in held_out)):
            yield data.path if data.source in ("file", "folder") else None
        for reward in plan.rewards:
            yield reward.path if reward.kind == "model" else None

    return list(dict.fromkeys(place for place in places() if place is not None))


def machine_script(job: Job, number: str, address: str) -> list[str]:
    """The last lines of each machine's script, run in the run folder. number, address: shell words.

    Exits with the run's exit code; see worker/survival/attempt.py.
    """
    trainer = f'set -- --node "{number}" --address "{address}" --port {job.port}' if job.nodes > 1 else "set --"
    server = f'set -- --server --address "{address}"'
    choice = [trainer] if job.nodes > 1 else []
    if job.server_nodes:
        choice = [f'if [ "{number}" -lt {job.nodes} ]; then {trainer}; else {server}; fi']
    return [
        "# Python would run a compiled copy instead of its source file.",
        "find worker -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || :",
        *choice,
        'exec "${PYTHON:-python}" -B -P worker/grpo_recipes/worker/part.py survival.attempt . "$@"',
    ]


class _ClusterFileDumper(yaml.SafeDumper):
    """Writes a multi-line text as a block, and repeats shared values instead of using aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_ClusterFileDumper.add_representer(str, _text)


def to_yaml(comment: Sequence[str], *documents: dict[str, object]) -> str:
    """The documents as YAML below a comment."""
    texts = [
        yaml.dump(each, Dumper=_ClusterFileDumper, sort_keys=False, width=1000, allow_unicode=True)
        for each in documents
    ]
    # A line break in a folder's name must not end the comment.
    lines = ["".join(one if one.isprintable() else "?" for one in line) for line in comment]
    return "".join(f"# {line}\n" for line in lines) + "---\n".join(texts)

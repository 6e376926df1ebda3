"""job.yaml of twelve recipes: what Kubernetes' schemas say of it, and what a changed recipe changes in it."""

import copy
import dataclasses
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_plans import FOLDER, KUBERNETES, RECIPES, cluster_file, cluster_plan, documents
from environment import is_made, python_of

from grpo_recipes.cli.commands import preflight
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.engines.by_hand import job_name, to_yaml
from grpo_recipes.engines.kubernetes import ENGINE

has_schemas = pytest.mark.skipif(not is_made("kubernetes"), reason="make test-kubernetes fetches Kubernetes' schemas")
JUDGE = Path(__file__).with_name("judge_manifests.py")
TWO_NODES = "recipes/qwen2_5_7b_two_nodes.yaml"


@pytest.fixture(scope="module")
def manifests() -> dict[str, list[dict[str, Any]]]:
    """The documents of each recipe's job.yaml."""
    return {recipe: documents(cluster_file(cluster_plan(recipe, *KUBERNETES))) for recipe in RECIPES}


def judged(folder: Path, texts: dict[str, str]) -> dict[str, list[str]]:
    """The faults of each text."""
    for name, text in texts.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [python_of("kubernetes"), JUDGE, *texts], cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


@has_schemas
@pytest.mark.processes
def test_twelve_recipes_pass_strict_validation(tmp_path: Path) -> None:
    texts = {f"{Path(recipe).stem}.yaml": cluster_file(cluster_plan(recipe, *KUBERNETES)) for recipe in RECIPES}
    assert judged(tmp_path, texts) == {name: [] for name in texts}


@has_schemas
@pytest.mark.processes
def test_strict_validation_finds_what_is_misspelt(manifests: dict[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    def broken(*path: Any, to: Any = "x") -> str:
        service, job = copy.deepcopy(manifests[TWO_NODES])
        place = job
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = to
        return to_yaml([], service, job)

    pod = ("spec", "template", "spec")
    texts = {
        "field": broken("spec", "podFailurPolicy"),
        "type": broken("spec", "completions", to="two"),
        "below": broken(*pod, "containers", 0, "volumeMounts", 0, "mountpath"),
        "of the user": broken(*pod, "tolerations", 0, "efect"),
    }
    assert all(judged(tmp_path, texts).values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_job_has_what_a_run_needs(recipe: str, manifests: dict[str, list[dict[str, Any]]]) -> None:
    *services, job = manifests[recipe]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    machines = spec["completions"]
    assert (spec["parallelism"], len(services)) == (machines, int(machines > 1))
    assert container["resources"]["limits"].get("nvidia.com/gpu", 0) == RECIPES[recipe]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/runs", "/dev/shm", "/cache"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert container["envFrom"] == [{"secretRef": {"name": "hf-token"}}]
    assert all(set(variable) == {"name", "value"} for variable in container["env"])
    assert f"cd {FOLDER} ||" in container["command"][-1]
    for service in services:
        name = service["metadata"]["name"]
        assert pod["subdomain"] == name
        assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
        assert f'--address "{job["metadata"]["name"]}-0.{name}"' in container["command"][-1]


# What a changed recipe changes: the override, and the fields of the manifest that are other ones then.
CHANGES = [
    ("kubernetes.namespace=team-a", ["Job.metadata.namespace", "Service.metadata.namespace"]),
    ("kubernetes.image=other:2", ["Job.spec.template.spec.containers.0.image"]),
    ("kubernetes.max_restarts=3", ["Job.spec.backoffLimit"]),
    ("kubernetes.grace_seconds=60", ["Job.spec.template.spec.terminationGracePeriodSeconds"]),
    ("kubernetes.shared_memory=64Gi", ["Job.spec.template.spec.volumes.1.emptyDir.sizeLimit"]),
    ("kubernetes.volume_claim=others", ["Job.spec.template.spec.volumes.0.persistentVolumeClaim.claimName"]),
    ("kubernetes.secrets=[hf-token, wandb]", ["Job.spec.template.spec.containers.0.envFrom.1.secretRef.name"]),
    ("kubernetes.node_selector={pool: gpu}", ["Job.spec.template.spec.nodeSelector.pool"]),
    ("kubernetes.labels={queue: gpu}", ["Job.metadata.labels.", "template.metadata.labels."]),
    ("kubernetes.annotations={a.b/c: d}", ["Job.spec.template.metadata.annotations.a.b/c"]),
    ("kubernetes.security_context={allowPrivilegeEscalation: false}", ["containers.0.securityContext."]),
    ("kubernetes.pod={priorityClassName: high}", ["Job.spec.template.spec.priorityClassName"]),
    ("kubernetes.gpu_resource=amd.com/gpu", ["limits.amd.com/gpu", "limits.nvidia.com/gpu"]),
    ("launch.main_process_port=29600", ["Job.spec.template.spec.containers.0.command.2"]),
    ("launch.num_nodes=4", ["Job.spec.backoffLimit", "Job.spec.completions", "Job.spec.parallelism"]),
    ("grpo.beta=0.04", []),
    ("training.max_steps=7", []),
]


@pytest.mark.parametrize(("override", "fields"), CHANGES, ids=[override for override, _ in CHANGES])
def test_a_changed_recipe_changes_this_and_nothing_else(
    override: str, fields: list[str], manifests: dict[str, list[dict[str, Any]]]
) -> None:
    more = ["training.prompts_per_step=128"] if override.startswith("launch.num_nodes") else []
    changed = documents(cluster_file(cluster_plan(TWO_NODES, *KUBERNETES, override, *more)))
    old, new = (dict(leaves(each)) for each in (manifests[TWO_NODES], changed))
    differing = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    assert all(any(field in path for field in fields) for path in differing), differing
    assert all(any(field in path for path in differing) for field in fields), differing


def leaves(manifest: list[dict[str, Any]]) -> Iterator[tuple[str, object]]:
    """Each value of a manifest by its path."""

    def below(value: object, path: str) -> Iterator[tuple[str, object]]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if items is None:
            yield path, value
        else:
            for key, one in items:
                yield from below(one, f"{path}.{key}")

    for document in manifest:
        yield from below(document, document["kind"])


def planned(folder: str, *overrides: str) -> Plan:
    return dataclasses.replace(cluster_plan("recipes/quickstart.yaml", *KUBERNETES, *overrides), folder=folder)


@pytest.mark.parametrize(
    ("folder", "start"),
    [
        ("/runs/addition-20260101-120000", "addition-20260101-120000-"),
        ("/data/2026 My_Run", "run-2026-my-run-"),
        ("/runs/" + "long-" * 40, "long-long-"),
        ("/runs/---", "run-"),
    ],
)
def test_the_name_of_a_job_is_one_of_kubernetes_and_of_no_other_folder(folder: str, start: str) -> None:
    name = job_name(planned(folder))
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?", name)  # with -99999 behind it a pod's name has 63 at most
    assert name.startswith(start)
    assert name != job_name(planned(f"{folder}2"))


def test_a_folder_that_is_not_on_the_volume_is_expected_there_by_its_name() -> None:
    text = cluster_file(planned("/data/a run"))
    assert "# The claim runs must have this folder as /runs/a run in the pods." in text
    assert "cd '/runs/a run' || exit 2" in text
    assert cluster_file(planned("/runs/team/a")).count("/runs/team/a") == 2


def test_files_that_only_this_machine_has_are_named() -> None:
    text = cluster_file(planned("/runs/a"))
    assert re.findall(r"(?m)^# The pods must find '.*/(\w+(?:\.jsonl)?)', too\.$", text) == [
        "model",
        "train.jsonl",
        "test.jsonl",
    ]


def test_the_checkpoint_of_an_extended_run_is_named() -> None:
    plan = planned("/runs/a")
    extends = Ancestor("extend", "b", "/old/b", "/old/b", None, 20, "folder", "/old/b/checkpoints/checkpoint-20")
    plan = dataclasses.replace(plan, extends=extends)
    assert "# The pods must find '/old/b/checkpoints/checkpoint-20', too.\n" in cluster_file(plan)


def test_a_folder_s_name_does_not_end_the_comment() -> None:
    folder = "/runs/a\nkind: Pod\u2028x\x1b"
    text = cluster_file(planned(folder))
    assert [document["kind"] for document in documents(text)] == ["Job"]
    assert "# The claim runs must have this folder as /runs/a?kind: Pod?x? in the pods.\n" in text


def test_the_advice_follows_all_pods_of_the_namespace() -> None:
    plan = planned("/runs/a", "kubernetes.namespace=team-a")
    name = job_name(plan)
    assert ENGINE.advice(plan, "/runs/a")[1:3] == [
        f"to list its pods: kubectl get pods -n team-a -l app.kubernetes.io/instance={name}",
        f"to follow it: kubectl logs -n team-a -f --prefix --tail=-1 --max-log-requests 1 -l "
        f"app.kubernetes.io/instance={name}",
    ]


def test_the_commands_delete_an_earlier_job_first_when_a_run_resumes() -> None:
    plan = planned("/runs/a b")
    assert ENGINE.commands(plan, "/runs/a b", resume=False) == ["kubectl apply -f '/runs/a b/job.yaml'"]
    assert ENGINE.commands(plan, "/runs/a b", resume=True) == [
        "kubectl delete --ignore-not-found --cascade=foreground -f '/runs/a b/job.yaml'",
        "kubectl apply -f '/runs/a b/job.yaml'",
    ]


def test_a_plan_that_asks_for_more_than_a_recipe_may_is_refused() -> None:
    plan = planned("/runs/a")
    plan = dataclasses.replace(plan, job={**plan.job, "pod": {"hostPID": True}})
    with pytest.raises(Refusal, match=r"kubernetes\.pod\.hostPID must be one of affinity"):
        ENGINE.files(plan)


def test_preflight_does_not_judge_this_machine_s_shared_memory_for_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "small_for_nccl", lambda: ["too small"])
    pods = cluster_plan(TWO_NODES, *KUBERNETES)
    here = dataclasses.replace(pods, world=dataclasses.replace(pods.world, engine="by_hand"))
    assert (preflight._of_nccl(pods), preflight._of_nccl(here)) == ([], ["too small"])

"""The run is a Kubernetes Job: job.yaml in the run folder, which a person applies with kubectl.

An indexed Job numbers its pods, and a headless Service gives the first one a name. A pod exits with the run's exit
code: 75 restarts it, any other failure fails the Job, and a pod that the cluster disrupts is replaced.
"""

import shlex
from dataclasses import dataclass, field, replace

from grpo_recipes.contract.exits import EXIT_INTERRUPTED, Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import NotAPlan, section_of
from grpo_recipes.engines.by_hand import EngineByHand, folder_there, job_name, local_files, machine_script, to_yaml
from grpo_recipes.facts.cluster_words import faults
from grpo_recipes.render.job import Job, job_of

MANIFEST = "job.yaml"
_CONTAINER = "train"
_CACHE = "/cache"


@dataclass(frozen=True, slots=True)
class KubernetesJob:
    """The recipe's kubernetes section, which describes each key. gpus_per_node: of each pod, 0 requests none."""

    image: str
    volume_claim: str
    volume_path: str
    gpu_resource: str
    shared_memory: str
    grace_seconds: int
    max_restarts: int
    gpus_per_node: int
    namespace: str | None = None
    resources: dict[str, object] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    pod: dict[str, object] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    security_context: dict[str, object] = field(default_factory=dict)


def kubernetes_job(plan: Plan) -> KubernetesJob:
    """The plan's Kubernetes section. Raises Refusal for a value that no recipe may have."""
    for key, expected in faults(plan.job):
        raise Refusal.of(f"kubernetes.{key} must be {expected}", because="the API server would refuse the Job")
    try:
        return section_of(KubernetesJob, plan.job, "job")
    except NotAPlan as problem:
        raise Refusal.of("the plan's Kubernetes section cannot come from a recipe", because=str(problem)) from None


def manifest(plan: Plan) -> str:
    """The text of job.yaml."""
    asked, job, name = kubernetes_job(plan), job_of(plan), job_name(plan)
    own = {"app.kubernetes.io/name": "grpo-run", "app.kubernetes.io/instance": name}
    labels = asked.labels | own
    about = {"name": name} | ({} if asked.namespace is None else {"namespace": asked.namespace})
    several = job.all_nodes > 1
    documents: list[dict[str, object]] = []
    if several:
        service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": own}
        documents.append({"apiVersion": "v1", "kind": "Service", "metadata": about | {"labels": own}, "spec": service})
    of_pods = {"labels": labels} | ({"annotations": asked.annotations} if asked.annotations else {})
    spec = {
        "completionMode": "Indexed",
        "completions": job.all_nodes,
        "parallelism": job.all_nodes,
        # Each pod of an interrupted start counts.
        "backoffLimit": asked.max_restarts * job.all_nodes,
        "podReplacementPolicy": "Failed",  # two pods of the same number must not train
        "podFailurePolicy": {"rules": _RULES},
        "template": {"metadata": of_pods, "spec": _pod(plan, asked, job, name if several else None)},
    }
    documents.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": about | {"labels": labels}, "spec": spec})
    return to_yaml(_comment(plan, asked, job), *documents)


_RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {
        "action": "FailJob",
        "onExitCodes": {"containerName": _CONTAINER, "operator": "NotIn", "values": [EXIT_INTERRUPTED]},
    },
]
"""The first match applies: a disrupted pod is replaced without being counted; any code except 75 fails the Job; 75
counts against backoffLimit, the default for a pod that no rule matches.
"""


def _comment(plan: Plan, asked: KubernetesJob, job: Job) -> list[str]:
    pods = f"{job.nodes} pod{'s' if job.nodes > 1 else ''}" + (", and one with a vLLM server" * job.server_nodes)
    there = folder_there(plan, asked.volume_path)
    lines = [
        f'Trains "{job.name}" on Kubernetes in {pods}. Written by grpo-run from plan.json.',
        f"The claim {asked.volume_claim} must have this folder as {there} in the pods.",
    ]
    elsewhere = [file for file in local_files(plan) if not file.startswith(f"{asked.volume_path}/")]
    return lines + [f"The pods must find {place!r}, too." for place in elsewhere]


def _pod(plan: Plan, asked: KubernetesJob, job: Job, service: str | None) -> dict[str, object]:
    limits = asked.resources | ({asked.gpu_resource: asked.gpus_per_node} if asked.gpus_per_node else {})
    folder = folder_there(plan, asked.volume_path)
    container = {
        "name": _CONTAINER,
        "image": asked.image,
        "command": ["bash", "-c", _script(folder, job, service)],
        "env": [
            {"name": "HF_HOME", "value": f"{asked.volume_path}/.cache/huggingface"},
            {"name": "XDG_CACHE_HOME", "value": _CACHE},
            {"name": "TRITON_CACHE_DIR", "value": f"{_CACHE}/triton"},
            {"name": "FLASHINFER_WORKSPACE_BASE", "value": _CACHE},
        ],
        "envFrom": [{"secretRef": {"name": secret}} for secret in asked.secrets],
        "resources": {"limits": limits},
        "securityContext": asked.security_context,
        "volumeMounts": [
            {"name": "runs", "mountPath": asked.volume_path},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "cache", "mountPath": _CACHE},
        ],
    }
    pod: dict[str, object] = {
        "restartPolicy": "Never",
        "subdomain": service,
        "terminationGracePeriodSeconds": asked.grace_seconds,
        "nodeSelector": asked.node_selector,
        **asked.pod,
        "containers": [{key: value for key, value in container.items() if value}],
        "volumes": [
            {"name": "runs", "persistentVolumeClaim": {"claimName": asked.volume_claim}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": asked.shared_memory}},
            {"name": "cache", "emptyDir": {}},
        ],
    }
    return {key: value for key, value in pod.items() if value}


def _script(folder: str, job: Job, service: str | None) -> str:
    first = f"{service}-0.{service}"
    lines = [f"cd {shlex.quote(folder)} || exit 2"]
    return "\n".join([*lines, *machine_script(job, "$JOB_COMPLETION_INDEX", first)]) + "\n"


class KubernetesEngine(EngineByHand):
    """Writes the manifest and prints how to apply it; it does not observe the Job."""

    def files(self, plan: Plan) -> dict[str, str]:
        """The manifest. Raises Refusal for an unsupported request."""
        return {MANIFEST: manifest(plan)}

    def commands(self, plan: Plan, folder: str, *, resume: bool) -> list[str]:
        """The commands for the Job, which delete a finished one of this folder first."""
        file = shlex.quote(f"{folder}/{MANIFEST}")
        delete = [f"kubectl delete --ignore-not-found --cascade=foreground -f {file}"] if resume else []
        return [*delete, f"kubectl apply -f {file}"]

    def advice(self, plan: Plan, folder: str) -> list[str]:
        """Where the pods expect the folder, and how to follow and stop the Job."""
        plan = replace(plan, folder=folder)
        asked, pods = kubernetes_job(plan), f"-l app.kubernetes.io/instance={job_name(plan)}"
        # By default kubectl follows five pods, and shows the last ten lines of each.
        whole = f"--tail=-1 --max-log-requests {job_of(plan).all_nodes}"
        space = "" if asked.namespace is None else f" -n {asked.namespace}"
        there = folder_there(plan, asked.volume_path)
        return [
            f"first copy the run folder to {there} on the claim {asked.volume_claim}; see docs/kubernetes.md",
            f"to list its pods: kubectl get pods{space} {pods}",
            f"to follow it: kubectl logs{space} -f --prefix {whole} {pods}",
            f"to save and stop it: kubectl delete -f {shlex.quote(f'{folder}/{MANIFEST}')}",
        ]


ENGINE = KubernetesEngine()

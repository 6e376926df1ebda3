"""Which environment variables a recipe may set."""

import time

import pytest

from grpo_recipes.trust.environment import is_harmless, names_a_place, needs_consent, why_asked, why_refused

GOOD = """
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH NCCL_SOCKET_IFNAME=^lo,docker0 NCCL_SOCKET_IFNAME=ens12f0.100
NCCL_IB_HCA=^=mlx5_3 NCCL_IB_DISABLE=1 NCCL_ALGO=^Tree NCCL_NET=IB NCCL_NET_GDR_LEVEL=PHB RCCL_MSCCL_ENABLE=0
TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800 TORCH_NCCL_RANKS_PER_ROOT=128 TORCH_DISTRIBUTED_DEBUG=DETAIL
GLOO_SOCKET_IFNAME=eth0,ens7 FI_PROVIDER=efa FI_EFA_USE_DEVICE_RDMA=1 UCX_TLS=tcp,cuda_ipc OMP_NUM_THREADS=8
OMP_PLACES={0:4} KMP_AFFINITY=granularity=fine,compact,1,0 MKL_NUM_THREADS=1 GOMP_CPU_AFFINITY=0-15
TOKENIZERS_PARALLELISM=false MALLOC_ARENA_MAX=2 CUDA_VISIBLE_DEVICES=0,1,2,3 CUDA_VISIBLE_DEVICES=
CUDA_VISIBLE_DEVICES=GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 CUBLAS_WORKSPACE_CONFIG=:4096:8 NVIDIA_TF32_OVERRIDE=0
TORCH_CUDA_ARCH_LIST=8.0;9.0a+PTX PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
PYTORCH_ALLOC_CONF=roundup_power2_divisions:[256:1,512:2,1024:4,>:8] TORCH_LOGS=+dynamo,recompiles
TORCHINDUCTOR_FX_GRAPH_CACHE=1 HF_HUB_OFFLINE=1 HF_HUB_DISABLE_IMPLICIT_TOKEN=1 TRANSFORMERS_VERBOSITY=error
WANDB_PROJECT=grpo-qwen2.5_math WANDB_NAME=a/b,c.d WANDB_MODE=offline MLFLOW_EXPERIMENT_NAME=/Users/me@x.org/grpo
VLLM_LOGGING_LEVEL=WARN VLLM_ATTENTION_BACKEND=FLASH_ATTN VLLM_CPU_OMP_THREADS_BIND=0-31|32-63 PYTHONHASHSEED=0
PYTHONIOENCODING=utf-8:replace PYTHONWARNINGS=ignore::UserWarning,error::FutureWarning LC_ALL=C.UTF-8
LANG=en_US.UTF-8 TZ=UTC
"""
# Values that no number, switch or word is.
EVIL = (
    "/tmp/x.so",
    "../../x.so",
    "~/x",
    "https://example.org",
    "$(id)",
    "`id`",
    "%s%n",
    "x\ty",
    "import os; os",
    "1" * 5000,
    "{" * 500,
    "--load x=y;z",
    "\u202e1",
    "module.function",
)


@pytest.mark.parametrize("given", GOOD.split())
def test_what_tunes_may_be_set(given: str) -> None:
    name, _, value = given.partition("=")
    assert why_refused(name, value) is None
    assert is_harmless(name, value)
    assert not needs_consent(name, value)


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "OMP_PLACES", "TORCH_LOGS", "PYTHONWARNINGS", "VLLM_LOGGING_LEVEL"])
def test_a_known_variable_with_a_value_that_is_not_plain_needs_consent(name: str) -> None:
    assert [value[:20] for value in EVIL if why_refused(name, value) is None and not needs_consent(name, value)] == []


def test_a_value_is_judged_in_linear_time() -> None:
    started = time.process_time()
    for part in ("1", "a", "1,", "GPU-", ".1", "a.", "C.UTF-8", " ", "\u00e9"):
        is_harmless("NCCL_DEBUG", part * (4096 // len(part)) + "\x01")
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    "name", ["MY_REWARD_MODE", "HUGGINGFACE_CO_STAGING", "VLLM_USE_MODELSCOPE", "WANDB_ENTITY", "DEBUG", "NCCL_COMM_ID"]
)
def test_what_nobody_knows_needs_consent(name: str) -> None:
    assert why_refused(name, "1") is None
    assert needs_consent(name, "1")


@pytest.mark.parametrize("value", ["./x", "/x", "a/b", "..", "~", "x.so", "x.json,y", "$HOME", "C:\\x", "a:b.py:c"])
def test_a_value_that_may_name_a_file_is_seen(value: str) -> None:
    assert names_a_place(value)


@pytest.mark.parametrize("value", ["1", "true", "strict", "0.5", "a,b", "1.25,2", "v1", ""])
def test_a_plain_value_names_no_file(value: str) -> None:
    assert not names_a_place(value)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (
            "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES GCONV_PATH PATH ENV BASH_ENV IFS "
            "PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONHASHSEEDS GIT_SSH_COMMAND PYTHON "
            "GLIBC_TUNABLES PERL5OPT PERL5LIB RUBYOPT NODE_OPTIONS JAVA_TOOL_OPTIONS _JAVA_OPTIONS MPLBACKEND "
            "VLLM_PLUGINS NCCL_NET_PLUGIN NCCL_PROFILER_PLUGIN VLLM_ALLOW_INSECURE_SERIALIZATION NVCC_APPEND_FLAGS "
            "HF_DATASETS_TRUST_REMOTE_CODE TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD PIP_INDEX_URL LDFLAGS OMP_TOOL_LIBRARIES "
            "BASH_XTRACEFD",
            "load code",
        ),
        (
            "HF_ENDPOINT HTTPS_PROXY WANDB_BASE_URL SSL_CERT_FILE MLFLOW_TRACKING_URI CLEARML_API_HOST "
            "COMET_URL_OVERRIDE AWS_ENDPOINT_URL AWS_CONFIG_FILE OTEL_EXPORTER_OTLP_ENDPOINT HOSTALIASES NO_PROXY",
            "sends the tokens",
        ),
        (
            "HF_HOME HF_HUB_CACHE HF_MODULES_CACHE TORCHINDUCTOR_CACHE_DIR TRITON_PTXAS_PATH TRITON_DUMP_DIR "
            "NCCL_DEBUG_FILE NCCL_TOPO_DUMP_FILE WANDB_DIR TORCH_TRACE VLLM_LOGGING_CONFIG_PATH ROCM_PATH",
            "a path on the machine",
        ),
        ("HF_TOKEN WANDB_API_KEY SENTRY_DSN DB_PASSWORD AWS_SECRET_ACCESS_KEY MY_SECRET OPENAI_API_KEY", "no secrets"),
        ("RANK LOCAL_RANK WORLD_SIZE MASTER_PORT ACCELERATE_USE_FSDP PET_NNODES", "grpo-run sets it"),
        ("HOME XDG_CONFIG_HOME", "belongs to the user"),
        ("omp_num_threads A-B 1A A=B A;B Ä", "a name consists of"),
    ],
    ids=["code", "diverts", "place", "secret", "owned", "user", "name"],
)
def test_other_variables_are_refused_with_the_reason(names: str, reason: str) -> None:
    for name in names.split():
        assert reason in (why_refused(name) or "accepted"), name


def test_an_empty_name_is_refused() -> None:
    assert why_refused("") is not None


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "a\rb"], ids=["line", "NUL", "return"])
def test_a_value_is_one_line(value: str) -> None:
    assert why_refused("NCCL_DEBUG", value) == "a value is one line without NUL"


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "no_proxy", "ALL_proxy", "ld_preload"])
def test_a_name_in_small_letters_is_refused_for_what_it_does(name: str) -> None:
    reason = why_refused(name, "http://proxy:3128")
    assert reason == why_refused(name.upper(), "http://proxy:3128")
    assert reason is not None
    assert "A-Z" not in reason


@pytest.mark.parametrize("name", ["omp_num_threads", "1ST", "A-B", "", "\u00e4"])
def test_another_name_is_refused_for_its_spelling(name: str) -> None:
    assert "A-Z, 0-9 and _" in str(why_refused(name, "1"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("MY_MODE", "it is not a known tuning variable"),
        ("NCCL_DEBUG", "it is a known tuning variable, but its value has an unexpected form"),
    ],
)
def test_a_variable_that_is_asked_for_says_why(name: str, why: str) -> None:
    assert needs_consent(name, "a value; of its own")
    assert why_asked(name) == why

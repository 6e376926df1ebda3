"""Which environment variables a recipe may set."""

import time

import pytest

from grpo_recipes.trust.environment import _shapes, is_harmless, names_a_place, needs_consent, refused, why_asked

GOOD = """
NCCL_DEBUG=INFO NCCL_DEBUG=WARN NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH NCCL_SOCKET_IFNAME=^lo,docker0
NCCL_SOCKET_IFNAME==eth0 NCCL_SOCKET_IFNAME=ens12f0.100 NCCL_IB_HCA=mlx5_0:1,mlx5_1:1 NCCL_IB_HCA=^=mlx5_3
NCCL_IB_DISABLE=1 NCCL_IB_GID_INDEX=3 NCCL_IB_TIMEOUT=22 NCCL_IB_TC=106 NCCL_IB_QPS_PER_CONNECTION=4
NCCL_BUFFSIZE=8388608 NCCL_ALGO=Ring,Tree NCCL_ALGO=^Tree NCCL_PROTO=Simple NCCL_P2P_LEVEL=NVL NCCL_P2P_DISABLE=1
NCCL_NET_GDR_LEVEL=5 NCCL_NET_GDR_LEVEL=PHB NCCL_NVLS_ENABLE=0 NCCL_CUMEM_ENABLE=0 NCCL_CROSS_NIC=0
NCCL_TIMEOUT=7200 NCCL_NET=IB NCCL_SHM_DISABLE=1 NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_ASYNC_ERROR_HANDLING=3
TORCH_NCCL_AVOID_RECORD_STREAMS=1 TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800 TORCH_NCCL_BLOCKING_WAIT=0
TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_HIGH_PRIORITY=1 TORCH_NCCL_RANKS_PER_ROOT=128
TORCH_DISTRIBUTED_DEBUG=DETAIL GLOO_SOCKET_IFNAME=eth0,ens7 FI_PROVIDER=efa FI_EFA_USE_DEVICE_RDMA=1
UCX_TLS=tcp,cuda_ipc UCX_NET_DEVICES=mlx5_0:1 OMP_NUM_THREADS=8 OMP_NUM_THREADS=4,2 OMP_PROC_BIND=close
OMP_PLACES=cores OMP_PLACES={0:4} OMP_WAIT_POLICY=PASSIVE GOMP_CPU_AFFINITY=0-15
KMP_AFFINITY=granularity=fine,compact,1,0 KMP_BLOCKTIME=1 KMP_DUPLICATE_LIB_OK=TRUE MKL_NUM_THREADS=1
MKL_THREADING_LAYER=GNU MKL_SERVICE_FORCE_INTEL=1 MKL_CBWR=AVX2,STRICT OPENBLAS_NUM_THREADS=1 NUMEXPR_MAX_THREADS=16
RAYON_NUM_THREADS=4 TOKENIZERS_PARALLELISM=false MALLOC_ARENA_MAX=2 ATEN_CPU_CAPABILITY=avx2
ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 CUDA_VISIBLE_DEVICES=0,1,2,3 CUDA_VISIBLE_DEVICES= CUDA_VISIBLE_DEVICES=-1
CUDA_VISIBLE_DEVICES=GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_LAUNCH_BLOCKING=1
CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_MODULE_LOADING=LAZY CUBLAS_WORKSPACE_CONFIG=:4096:8
CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8 NVIDIA_TF32_OVERRIDE=0 TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1
TORCH_CUDA_ARCH_LIST=8.0;9.0a+PTX HSA_OVERRIDE_GFX_VERSION=10.3.0 HIP_VISIBLE_DEVICES=0
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,garbage_collection_threshold:0.8
PYTORCH_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:[256:1,512:2,1024:4,>:8]
PYTORCH_ENABLE_MPS_FALLBACK=1 PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 TORCH_CPP_LOG_LEVEL=INFO
TORCH_SHOW_CPP_STACKTRACES=1 TORCH_LOGS=+dynamo,recompiles TORCH_COMPILE_DISABLE=1 TORCHDYNAMO_DISABLE=1
TORCHINDUCTOR_COMPILE_THREADS=8 TORCHINDUCTOR_FX_GRAPH_CACHE=1 TRITON_INTERPRET=1 TORCH_FORCE_WEIGHTS_ONLY_LOAD=1
HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
DATASETS_VERBOSITY=warning HF_HUB_DOWNLOAD_TIMEOUT=60 HF_HUB_ENABLE_HF_TRANSFER=1 HF_HUB_DISABLE_TELEMETRY=1
HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_IMPLICIT_TOKEN=1 USE_TF=0 USE_TORCH=AUTO TQDM_DISABLE=1 TQDM_MININTERVAL=30
DS_ACCELERATOR=cuda DS_SKIP_CUDA_CHECK=1 DEEPSPEED_TIMEOUT=120 WANDB_PROJECT=grpo-qwen2.5_math WANDB_MODE=offline
WANDB_TAGS=grpo,math,7b WANDB_RUN_GROUP=sweep_1 WANDB_SILENT=true WANDB_LOG_MODEL=false WANDB_INIT_TIMEOUT=300
WANDB__SERVICE_WAIT=300 MLFLOW_EXPERIMENT_NAME=/Users/me@x.org/grpo SWANLAB_MODE=local
VLLM_ATTENTION_BACKEND=FLASH_ATTN VLLM_LOGGING_LEVEL=WARN VLLM_WORKER_MULTIPROC_METHOD=spawn VLLM_USE_V1=0
VLLM_ENGINE_ITERATION_TIMEOUT_S=100000000000 VLLM_CPU_KVCACHE_SPACE=40 VLLM_CPU_OMP_THREADS_BIND=0-31|32-63
VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 VLLM_NO_USAGE_STATS=1 VLLM_RPC_TIMEOUT=3600000 PYTHONUNBUFFERED=1 PYTHONHASHSEED=0
PYTHONHASHSEED=random PYTHONFAULTHANDLER=1 PYTHONDONTWRITEBYTECODE=x PYTHONMALLOC=malloc
PYTHONIOENCODING=utf-8:replace PYTHONWARNINGS=ignore PYTHONWARNINGS=ignore::UserWarning,error::FutureWarning
LC_ALL=C.UTF-8 LANG=en_US.UTF-8 TZ=Europe/Berlin TZ=UTC XLA_USE_BF16=1 HYDRA_FULL_ERROR=1 NO_COLOR=1 LOGLEVEL=INFO
RUST_BACKTRACE=full MAX_JOBS=4 GPU_MAX_HW_QUEUES=2 RCCL_MSCCL_ENABLE=0 HCCL_CONNECT_TIMEOUT=120
FLASH_ATTENTION_DETERMINISTIC=1 TF_CPP_MIN_LOG_LEVEL=3
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
)
# Names that a person gives.
FREE = {"WANDB_NOTES", "MLFLOW_EXPERIMENT_NAME"}


@pytest.mark.parametrize("given", GOOD.split())
def test_what_tunes_may_be_set(given: str) -> None:
    name, _, value = given.partition("=")
    assert refused(name, value) is None
    assert is_harmless(name, value)
    assert not needs_consent(name, value)


@pytest.mark.parametrize("name", sorted(_shapes().keys() - FREE))
def test_a_listed_variable_with_a_value_of_another_shape_needs_consent(name: str) -> None:
    assert refused(name, "1") is None
    assert [value[:20] for value in EVIL if is_harmless(name, value)] == []
    assert needs_consent(name, "/tmp/x.so")


def test_a_shape_is_judged_in_linear_time() -> None:
    started = time.process_time()
    for shape in set(_shapes().values()):
        for part in (
            "1",
            "a",
            "1,",
            "GPU-",
            "a:1,",
            ":1:1",
            "error::Warning,",
            "a_",
            "8.0;",
            "(",
            "mlx5_0:1,",
            " ",
            "\u00e9",
        ):
            shape.fullmatch(part * (4096 // len(part)) + "\x01")
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    "name", ["MY_REWARD_MODE", "HUGGINGFACE_CO_STAGING", "VLLM_USE_MODELSCOPE", "WANDB_ENTITY", "DEBUG"]
)
def test_what_nobody_knows_needs_consent(name: str) -> None:
    assert refused(name, "1") is None
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
        assert reason in (refused(name) or "accepted"), name


def test_an_empty_name_is_refused() -> None:
    assert refused("") is not None


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "a\rb"], ids=["line", "NUL", "return"])
def test_a_value_is_one_line(value: str) -> None:
    assert refused("NCCL_DEBUG", value) == "a value is one line without NUL"


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "no_proxy", "ALL_proxy", "ld_preload"])
def test_a_name_in_small_letters_is_refused_for_what_it_does(name: str) -> None:
    reason = refused(name, "http://proxy:3128")
    assert reason == refused(name.upper(), "http://proxy:3128")
    assert reason is not None
    assert "A-Z" not in reason


@pytest.mark.parametrize("name", ["omp_num_threads", "1ST", "A-B", "", "\u00e4"])
def test_another_name_is_refused_for_its_spelling(name: str) -> None:
    assert "A-Z, 0-9 and _" in str(refused(name, "1"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NCCL_DEBGU", "it is not a known tuning variable; the nearest is NCCL_DEBUG"),
        ("HF_HUB_OFLINE", "it is not a known tuning variable; the nearest is HF_HUB_OFFLINE"),
        ("MY_MODE", "it is not a known tuning variable"),
        ("NCCL_DEBUG", "it is a known tuning variable, but its value has an unexpected form"),
    ],
)
def test_a_variable_that_is_asked_for_says_why(name: str, why: str) -> None:
    assert needs_consent(name, "a value; of its own")
    assert why_asked(name) == why

"""What a recipe's environment would have libraries load, read, write or send: nothing of it goes unasked."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harms import harms, looked_at, made_place, run_apart
from hostile_recipes import Attempt, over
from small_recipe import STACK
from test_hostile_recipes import command, placed
from test_hostile_runs import run

from grpo_recipes.trust.environment import needs_consent, why_refused

pytestmark = pytest.mark.hostile

# By who reads them. The first line of each is what was seen to be accepted once.
NAMES = {
    "torch and what it compiles with": """
        INTEL_LIBITTNOTIFY64 CPATH PYTORCH_NVCC KINETO_CONFIG TRITON_CACHE_MANAGER JITDUMPDIR LDSHARED
        INTEL_LIBITTNOTIFY32 INTEL_JIT_PROFILER64 INTEL_JIT_PROFILER32 C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH
        OBJC_INCLUDE_PATH COMPILER_PATH GCC_EXEC_PREFIX CCACHE_COMPILER CCACHE_PREFIX AR LD AS NM CPP CUDACXX HIPCXX
        LDCXXSHARED CCSHARED TRITON_REMOTE_CACHE_BACKEND TRITON_OVERRIDE_DIR TRITON_PTXAS_PATH TRITON_LIBDEVICE_PATH
        TORCH_INDUCTOR_INSTALL_GXX TORCHINDUCTOR_RUN_JIT_POST_COMPILE_HOOK TORCHINDUCTOR_REDIS_HOST
        TORCH_COMPILE_BACKEND
        TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE TORCHINDUCTOR_CPP_MARCH TORCHINDUCTOR_WRITE_MISSING_OPS TORCH_COMPILE_DEBUG
        TORCHINDUCTOR_CK_DIR TORCHINDUCTOR_CUTLASS_DIR TORCH_ADDR2LINE_BINARY TORCH_FR_DUMP_TEMP_FILE KINETO_USE_DAEMON
        TORCH_NCCL_DEBUG_INFO_TEMP_FILE TORCH_NCCL_DEBUG_INFO_PIPE_FILE PYTORCH_TUNABLEOP_FILENAME TORCHCOMM_STORE_PATH
        KINETO_IPC_SOCKET_DIR MKL_VERBOSE_OUTPUT_FILE ONEDNN_JIT_DUMP PYTORCH_KERNEL_CACHE_PATH TORCH_HUB
        QUACK_CACHE_DIR
    """,
    "C and C++ libraries": """
        SSLKEYLOGFILE DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES
        LD_PRELOAD_32 LD_AUDIT MALLOC_TRACE MALLOC_CONF LANGUAGE NLSPATH TZDIR GCONV_PATH LOCPATH RESOLV_HOST_CONF
        OPENSSL_ENGINES OPENSSL_MODULES OPENSSL_CONF_INCLUDE KRB5CCNAME KRB5_TRACE KRB5_KTNAME SASL_PATH P11_KIT_STRICT
        GIO_EXTRA_MODULES GIO_MODULE_DIR GTK_MODULES GTK3_MODULES GTK_PATH GDK_PIXBUF_MODULE_FILE QT_PLUGIN_PATH
        QT_QPA_PLATFORM_PLUGIN_PATH QML2_IMPORT_PATH ALSA_CONFIG_PATH LADSPA_PATH TERMINFO ASAN_OPTIONS LSAN_OPTIONS
        CPUPROFILE HEAPPROFILE GCOV_PREFIX LLVM_PROFILE_FILE GMON_OUT_PREFIX TCLLIBPATH LUA_PATH LUA_CPATH LUA_INIT
    """,
    "GPUs, networks and their drivers": """
        IBV_DRIVERS RDMAV_DRIVERS OCL_ICD_VENDORS
        OCL_ICD_FILENAMES VK_ICD_FILENAMES VK_DRIVER_FILES VK_INSTANCE_LAYERS LIBGL_DRIVERS_PATH LIBVA_DRIVER_NAME
        VDPAU_DRIVER GBM_BACKEND __EGL_VENDOR_LIBRARY_FILENAMES CUDA_INJECTION32_PATH CUDA_INJECTION64_PATH
        NVTX_INJECTION32_PATH HSA_TOOLS_LIB ZE_ENABLE_ALT_DRIVERS UR_ADAPTERS_FORCE_LOAD UCX_MODULE_DIR FI_PROVIDER_PATH
        NCCL_NET_PLUGIN NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN NCCL_ENV_PLUGIN NCCL_DEBUG_FILE NCCL_TOPO_FILE
        NCCL_GRAPH_FILE NCCL_CONF_FILE NCCL_GRAPH_DUMP_FILE NCCL_COMM_ID NCCL_HOSTID NCCL_RAS_ADDR OPAL_PREFIX
        PMIX_INSTALL_PREFIX OMPI_COMMAND I_MPI_HYDRA_BOOTSTRAP_EXEC HYDRA_LAUNCHER_EXEC CUDA_COREDUMP_FILE
    """,
    "Python and what it starts": """
        COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG RAY_RUNTIME_ENV_HOOK MPLCONFIGDIR
        COVERAGE_RCFILE COVERAGE_FILE RAY_ADDRESS RAY_JOB_CONFIG_JSON_ENV_VAR MATPLOTLIBRC PYTHONBREAKPOINT
        PYTHONPYCACHEPREFIX PYTHONPLATLIBDIR PYTHONCASEOK PYTHONEXECUTABLE PYTHONPERFSUPPORT PYTEST_ADDOPTS
        PYTEST_PLUGINS
        NUMBA_GDB_BINARY JAX_PLATFORMS RUSTC_WRAPPER CARGO_HOME NPM_CONFIG_PREFIX SVN_SSH RSYNC_RSH SSH_ASKPASS
        SUDO_ASKPASS LESSOPEN LESSCLOSE MANPAGER CLASSPATH NODE_PATH LOCAL_KERNELS SETUPTOOLS_USE_DISTUTILS
    """,
    "hubs, trackers and servers": """
        HUGGINGFACE_CO_STAGING VLLM_USE_MODELSCOPE VLLM_SERVER_DEV_MODE VLLM_ALLOW_RUNTIME_LORA_UPDATING FSSPEC_HF
        TRACKIO_SPACE_ID HF_XET_LOG_DEST
        WANDB_ENTITY WANDB_ANONYMOUS WANDB_SERVICE COMET_WORKSPACE TRACKIO_DATASET_ID MLFLOW_REGISTRY_URI HF_DEBUG
        FSSPEC_CONFIG_DIR FSSPEC_S3_ANON HF_INFERENCE_ENDPOINT HF_HUB_USER_AGENT_ORIGIN AWS_CA_BUNDLE AWS_ROLE_ARN
        STORAGE_EMULATOR_HOST DOCKER_HOST VLLM_HOST_IP VLLM_CACHE_ROOT VLLM_ASSETS_CACHE VLLM_TORCH_PROFILER_DIR
        VLLM_PLUGINS VLLM_LORA_RESOLVER_CACHE_DIR VLLM_PLUGIN_X VLLM_DEBUG_DUMP_PATH VLLM_SERVER_URL
    """,
}
CASES = [pytest.param(name, id=name) for names in NAMES.values() for name in names.split()]


@pytest.mark.parametrize("name", CASES)
def test_what_loads_reads_writes_or_sends_is_never_just_set(name: str) -> None:
    values = ("1", "x", "./x.so", "../x", "/tmp/x", "")
    assert all(why_refused(name, value) is not None or needs_consent(name, value) for value in values)


def test_there_are_many_of_them() -> None:
    names = [name for names in NAMES.values() for name in names.split()]
    assert len(names) == len(set(names)) >= 150


@pytest.mark.parametrize("name", [name for names in NAMES.values() for name in names.split()[:3]])
def test_nothing_is_started_with_it(name: str, tmp_path: Path) -> None:
    place = placed(made_place(tmp_path), Attempt("variable", over(f"launch: {{environment: {{{name}: './x.so'}}}}")))
    asked = run_apart(place, [command("run", "recipe.yaml")])
    assert asked.codes == [2], asked.printed
    assert harms(looked_at(place), asked) == []


SPY = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void seen(void) { FILE *file = fopen("CANARY", "w"); if (file) fclose(file); }
void __itt_api_init(void *global, int groups) {}
"""
MEASURES = "import torch; torch.profiler.itt.mark('x'); torch.nn.Conv2d(8, 8, 3)(torch.ones(1, 8, 32, 32))"


@pytest.mark.stack
def test_a_library_beside_the_recipe_is_not_loaded(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc that makes a library")
    recipe = over("launch: {environment: {INTEL_LIBITTNOTIFY64: '../../evil.so'}}\ntraining: {max_steps: 1}\n")
    place = placed(made_place(tmp_path), Attempt("a library", recipe))
    library = place.team / "evil.so"
    (place.team / "evil.c").write_text(place.filled(SPY))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, place.team / "evil.c"], check=True)
    place = looked_at(place)
    ended = run(place, "run", "recipe.yaml", "--out", "runs/one")
    assert ended.codes == [2], ended.printed
    assert "INTEL_LIBITTNOTIFY64 is refused" in ended.printed
    assert harms(place, ended) == []
    environment = {**os.environ, "INTEL_LIBITTNOTIFY64": str(library)}
    subprocess.run([sys.executable, "-c", MEASURES], env=environment, timeout=300, check=True)
    assert place.canary.exists(), "the library is loaded where the variable is set"


@pytest.mark.stack
def test_a_header_beside_the_recipe_is_not_compiled(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc that compiles")
    recipe = over("launch: {environment: {CPATH: './inc'}}\ntraining: {max_steps: 1}\n")
    place = placed(made_place(tmp_path), Attempt("a header", recipe))
    (place.team / "inc").mkdir()
    (place.team / "inc" / "math.h").write_text("#error compiled\n")
    ended = run(looked_at(place), "run", "recipe.yaml", "--out", "runs/one")
    assert ended.codes == [2]
    assert "CPATH is refused" in ended.printed
    source = place.team / "x.c"
    source.write_text("#include <math.h>\nint main(void) { return 0; }\n")
    seen = subprocess.run(["gcc", "-fsyntax-only", source], env={**os.environ, "CPATH": str(place.team / "inc")})
    assert seen.returncode != 0, "the compiler takes the header where the variable is set"


def test_no_file_with_the_keys_of_connections_is_written(tmp_path: Path) -> None:
    recipe = over("launch: {environment: {SSLKEYLOGFILE: HOME/keys}}")
    place = placed(made_place(tmp_path), Attempt("keys", recipe))
    ended = run_apart(place, [command("run", "recipe.yaml"), command("validate", "recipe.yaml", "--target", STACK)])
    assert ended.codes == [2, 2]
    assert "SSLKEYLOGFILE is refused" in ended.printed
    assert harms(place, ended) == []
    kept = place.root / "keys"
    makes = "import ssl; ssl.create_default_context()"
    subprocess.run([sys.executable, "-c", makes], env={**os.environ, "SSLKEYLOGFILE": str(kept)}, check=True)
    assert kept.exists(), "Python opens it where the variable is set"


@pytest.mark.stack
def test_a_variable_that_nobody_knows_is_set_after_it_was_allowed(tmp_path: Path, warm_python: Path) -> None:
    says = "import os\ndef f(completions, **kwargs):\n    print('mode', os.environ['MY_MODE'], flush=True)\n"
    says += "    return [float(len(str(one)) % 7) for one in completions]\n"
    recipe = over("launch: {environment: {MY_MODE: strict}}\nrewards: [{python: r.py:f}]\ntraining: {max_steps: 1}\n")
    place = placed(made_place(tmp_path), Attempt("mode", recipe, {"r.py": says}))
    asked = run(place, "run", "recipe.yaml")
    assert asked.codes == [2]
    assert "environment variable MY_MODE=strict has the sha256" in asked.printed
    allowed = asked.printed.split("= fix: read it, then add ")[1].split(";")[0].split()
    words, python = ("--out", "runs/one", *allowed), str(warm_python / "python")
    ended = run(place, "run", "recipe.yaml", *words, seconds=300, python=python)
    assert "mode strict" in (place.team / "runs" / "one" / "train.log").read_text(), ended.printed

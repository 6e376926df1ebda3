"""The tool of the Qwen3 Python recipe: runs code that the model writes, within limits, and tells it what was printed.

The code runs in a process of its own with eight seconds by the clock, two of computing, 512 MiB of memory, an empty
folder that is removed behind it, and none of your environment variables. The kernel holds it there, by Landlock or by
bubblewrap: it cannot write elsewhere, read your files, reach the network or another process. docs/tools.md says what is
left open. Where a machine has neither, the tool is not loaded, unless the recipe says `launch.sandbox: none`.
"""

import signal

from grpo_recipes.contract.sandbox.run import Limits, require, run

LIMITS = Limits(wall_s=8, cpu_s=2, memory_bytes=512 << 20, file_bytes=1 << 20, processes=16, printed_bytes=2000)

# Runs the code, `given`, as a module that unittest and pickle find, and prints what it raises in one line.
PROGRAM = """
import sys, types
main = sys.modules["__main__"] = types.ModuleType("__main__")
try:
    exec(compile(given, "code", "exec"), vars(main))
except SystemExit:
    pass
except BaseException as problem:
    line, at = None, problem.__traceback__
    while at is not None:
        line, at = (at.tb_lineno if at.tb_frame.f_code.co_filename == "code" else line), at.tb_next
    print(": ".join(filter(None, (type(problem).__name__, str(problem)))) + (f" (line {line})" if line else ""))
"""

require()


def run_python(code: str) -> str:
    """Runs Python code and returns what it printed.

    Args:
        code: A whole program that prints its result, such as print(sum(range(10))).

    Returns:
        What was printed, or the error.
    """
    ended = run(PROGRAM, LIMITS, code)
    text = ended.printed.decode("utf-8", "replace").strip()
    if ended.is_cut:
        text += f"\n[cut after {LIMITS.printed_bytes} characters]"
    if not ended.in_time:
        return f"{text}\n[ended after {LIMITS.wall_s} seconds]".strip()
    if ended.code == -signal.SIGXCPU:
        return f"{text}\n[ended after {LIMITS.cpu_s} seconds of computing]".strip()
    if ended.code < 0:
        return f"{text}\n[ended by signal {-ended.code}: {signal.strsignal(-ended.code)}]".strip()
    if ended.code:
        return f"{text}\n[ended with exit code {ended.code}]".strip()
    return text or "[nothing was printed]"

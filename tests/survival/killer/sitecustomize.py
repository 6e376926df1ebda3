"""Kills its own process with SIGKILL when the training is where KILL_ORDER says; on PYTHONPATH of a run.

KILL_ORDER is JSON: the process' rank, what it has to be doing, in or after which optimizer step, how many seconds
later, and the file that gets what was seen. Nothing of the program is changed: a thread looks at the stack of the main
thread, and Python itself tells of files that are opened, renamed and removed (sys.addaudithook).
"""

import json
import os
import signal
import sys
import threading
import time

# What is on the stack meanwhile: name of a function, and the end of its file's name.
DOING = {
    "generation": ("_generate_and_score_completions", "grpo_trainer.py"),
    "backward": ("backward", ""),
    "writing a checkpoint": ("save", "worker/checkpoints/checkpoint.py"),
}
# What Python tells: the event, and the end of the name that it is about, which may be the last part of it alone.
TOLD = {
    "before the manifest": ("open", "/grpo_run.json"),
    "before the rename": ("os.rename", "/checkpoint-{step}"),
    "after the rename": ("shutil.rmtree", "/writing"),
    "removing an old one": ("os.remove", ".safetensors"),
    "before the final rename": ("os.rename", "/final"),
}


class Killer:
    """One order, and the main thread that is watched."""

    def __init__(self, order):
        self.order = order
        self.main = threading.get_ident()
        self.trainer = None

    def stack(self):
        """The functions of the main thread, innermost first, each with its file."""
        frame, found = sys._current_frames().get(self.main), []
        while frame is not None:
            found.append((frame.f_code.co_name, frame.f_code.co_filename))
            if self.trainer is None and frame.f_code.co_name == "_inner_training_loop":
                self.trainer = frame.f_locals.get("self")
            frame = frame.f_back
        return found

    def step(self):
        """Optimizer steps that are over, -1 before the first."""
        return -1 if self.trainer is None else self.trainer.state.global_step

    def is_doing(self, stack, what):
        """Whether a stack is that of something."""
        name, file = DOING[what]
        return any(one == name and where.endswith(file) for one, where in stack)

    def watch(self):
        """The thread, for what takes its time and for what is only a moment."""
        what, seen = self.order["doing"], None
        while seen is None:
            time.sleep(0.001)
            stack = self.stack()
            if self.step() >= self.order["step"] and (what not in DOING or self.is_doing(stack, what)):
                seen = stack
        time.sleep(self.order["delay"])
        stack = self.stack()
        doing = [name for name in DOING if self.is_doing(stack, name)]
        self.kill(doing, stack)

    def told(self, event, arguments):
        """What Python tells, in whichever thread: before the thing is done."""
        name, end = TOLD[self.order["doing"]]
        if event != name or threading.get_ident() != self.main:
            return
        about = "/" + str(arguments[1 if event == "os.rename" else 0])
        self.trainer or self.stack()
        is_new = event != "open" or (isinstance(arguments[1], str) and "w" in arguments[1])
        if event == "os.remove":
            is_new = any("checkpoint.py" in where for _, where in self.stack())
        if is_new and self.step() >= self.order["step"] and about.endswith(end.format(step=self.step())):
            self.kill([self.order["doing"]], [about])

    def kill(self, doing, stack):
        """Leaves a note and is gone."""
        note = {"doing": doing, "step": self.step(), "where": [str(one) for one in stack[:4]]}
        with open(self.order["note"], "w") as file:
            json.dump(note, file)
        os.kill(os.getpid(), signal.SIGKILL)


def begin():
    """Begins in the process of the ordered rank alone."""
    order = json.loads(os.environ.get("KILL_ORDER", "null"))
    is_rank = any(word.endswith("worker/train.py") for word in sys.orig_argv) and "-m" not in sys.orig_argv
    if order is None or not is_rank or int(os.environ.get("RANK", "0")) != order["rank"]:
        return
    killer = Killer(order)
    if order["doing"] in TOLD:
        sys.addaudithook(killer.told)
    else:
        threading.Thread(target=killer.watch, daemon=True).start()


begin()

"""Reward functions, each with one fault, as users write them. Not imported by the tests: preflight runs them."""

import asyncio
import ctypes
import os
import random
import re
import statistics
import sys
import time


def _text(completion):
    return completion if isinstance(completion, str) else completion[-1]["content"]


def constant(completions, **kwargs):
    return [0.5 for _ in completions]


def divides(completions, **kwargs):
    return [len(set(_text(completion))) / len(_text(completion)) for completion in completions]


def one_number(completions, **kwargs):
    return statistics.fmean(len(_text(completion)) for completion in completions)


def too_few(completions, **kwargs):
    return [float(len(_text(completion))) for completion in completions][1:]


def words(completions, **kwargs):
    return [_text(completion) for completion in completions]


def missing_for_empty(completions, solution, **kwargs):
    return [None if not _text(c) else float(_text(c) == s) for c, s in zip(completions, solution, strict=True)]


def dice(completions, **kwargs):
    return [random.random() for _ in completions]


def hangs(completions, **kwargs):
    while any(completions):
        time.sleep(0.01)
    return [0.0 for _ in completions]


def exits(completions, **kwargs):
    if completions:
        sys.exit("no more")
    return []


def vanishes(completions, **kwargs):
    if completions:
        os._exit(3)
    return []


def crashes(completions, **kwargs):
    return [ctypes.string_at(0) for _ in completions]


def devours(completions, **kwargs):
    kept = []
    while True:
        kept.append(b"x" * (1 << 24))
        time.sleep(0.02)
    return [float(len(kept))]


def reads_text(completions, **kwargs):
    findall = getattr(re, "".join(("find", "all")))  # as validate cannot read it
    return [float(len(findall(r"\w", completion))) for completion in completions]


def counts_messages(completions, **kwargs):
    return [float(len(completion)) for completion in completions]


def infinite(completions, **kwargs):
    return [float("-inf") if not _text(completion) else 1.0 for completion in completions]


def wants_tests(completions, tests, **kwargs):
    return [float(len(test)) for test in tests]


def wants_model(completions, model, trainer, **kwargs):
    return [0.0 for _ in completions]


async def awaits(completions, solution, **kwargs):
    await asyncio.sleep(0)
    return [float(_text(c) == s) for c, s in zip(completions, solution, strict=True)]


def knows_the_step(completions, solution, trainer_state, **kwargs):
    assert trainer_state.global_step == 0
    return [float(_text(c) == s) for c, s in zip(completions, solution, strict=True)]


def off_by(completions, solution, **kwargs):
    return [-abs(len(completion) - wanted) for completion, wanted in zip(completions, solution, strict=True)]

"""Restarts a run that ran out of memory in its first step, with half the micro-batch, if its recipe says so."""

import os
from typing import NamedTuple

import click

from grpo_recipes.contract.halved import MICRO_BATCH, half_of
from grpo_recipes.contract.run_record import amend_record, read_record
from grpo_recipes.contract.secrets.redact import redact


class Half(NamedTuple):
    """The changes of the new plan. override: as for --set. folder: its run folder, which does not exist yet."""

    override: str
    folder: str


def begin_anew(folder: str, before: int) -> Half | None:
    """The changes to restart with after a run failed, None if it ends there.

    before: its micro-batch. Its run.json names the new run. Raises OSError.
    """
    size = half_of(read_record(folder))
    if size is None:
        return None
    other = f"{folder}-halved"
    if os.path.lexists(other):
        return None
    amend_record(folder, {"begun_anew": os.path.abspath(other)})
    text = f"out of memory in the first step: restarted with a micro-batch of {size} instead of {before} in {other}"
    click.echo(redact(text), err=True)
    return Half(f"{'.'.join(MICRO_BATCH)}={size}", other)

"""A run that had no memory for its first step, begun once more with half the micro-batch where its recipe says so."""

import os
from typing import NamedTuple

import click

from grpo_recipes.contract.halved import MICRO_BATCH, half_of
from grpo_recipes.contract.run_record import amend_record, read_record
from grpo_recipes.contract.secrets.redact import redact


class Half(NamedTuple):
    """What the run is planned anew with. override: as --set takes it. folder: its run folder, which is not there."""

    override: str
    folder: str


def begin_anew(folder: str, before: int) -> Half | None:
    """What to begin anew with after the run of a folder failed, None where that is its end.

    before: its micro-batch. Its run.json says where it was begun anew. Raises OSError.
    """
    size = half_of(read_record(folder))
    if size is None:
        return None
    other = f"{folder}-halved"
    if os.path.lexists(other):
        return None
    amend_record(folder, {"begun_anew": os.path.abspath(other)})
    text = f"no memory for the first step: begun anew with a micro-batch of {size} instead of {before} in {other}"
    click.echo(redact(text), err=True)
    return Half(f"{'.'.join(MICRO_BATCH)}={size}", other)

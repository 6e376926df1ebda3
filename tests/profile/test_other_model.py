"""Rows that were profiled with a different model are reported by preflight and at the start of a run, others never."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from profile_runs import QUICKSTART, Answer, rows_of

pytestmark = pytest.mark.stack

SAID = "the rows were profiled with a different model or chat template"


def options(rows: Path, **values: object) -> list[str]:
    given = {"dataset.path": str(rows), **values}
    return [word for key, value in given.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def test_a_different_model_or_template_is_reported_once(
    profile: Callable[..., Answer], sums: Path, tmp_path: Path, command: Callable[..., Answer]
) -> None:
    done = profile("-o", "rows.jsonl", "--samples", 2)
    assert done.code == 0, done.err
    rows = tmp_path / "rows.jsonl"

    def planned(rows: Path, **values: object) -> str:
        answer = command(QUICKSTART, "--dry-run", "--out", tmp_path / "run", *options(rows, **values))
        assert answer.code == 0, answer.err
        shutil.rmtree(tmp_path / "run")
        return answer.err

    def preflight(rows: Path, **values: object) -> list[dict[str, Any]]:
        answer = command("preflight", QUICKSTART, "--json", *options(rows, **values))
        return [found for found in json.loads(answer.out)["findings"] if found["rule"] == "PFL040"]

    first, *others = rows_of(rows)
    joined, asked = tmp_path / "joined.jsonl", {**first["profile"], "asked": "0123456789ab"}
    joined.write_text("".join(f"{json.dumps(row)}\n" for row in [*others, {**first, "profile": asked}]))
    (finding,) = preflight(joined)
    assert finding["message"] == "the rows are of 2 different profiles"

    assert SAID not in planned(sums)
    assert SAID not in planned(rows)
    assert preflight(rows) == []

    other = shutil.copytree(QUICKSTART.parent / "quickstart" / "model", tmp_path / "other")
    (other / "notes.txt").write_text("a different model")
    own = {"model.model_name_or_path": str(other)}
    known = rows_of(rows)[0]["profile"]["model"]
    said = planned(rows, **own)
    assert said.count(SAID) == 1
    assert f"model {known} then, " in said
    assert "chat template" not in said.partition(f"{SAID}, so")[2]
    (finding,) = preflight(rows, **own)
    assert (finding["severity"], finding["key"]) == ("warning", "dataset.path")
    assert finding["message"].startswith(SAID)

    template = tmp_path / "template.jinja"
    template.write_text("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    said = planned(rows, **{"tokenizer.chat_template_path": str(template)})
    assert "chat template " in said.partition(SAID)[2]

    mine = tmp_path / "mine.jsonl"
    mine.write_text("".join(json.dumps({**row, "profile": "a mathematician"}) + "\n" for row in rows_of(sums)))
    assert SAID not in planned(mine, **own)
    assert preflight(mine, **own) == []

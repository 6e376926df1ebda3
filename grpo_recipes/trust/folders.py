"""Remembers folders whose code may run after each edit: `--allow-code here`.

A folder is remembered by its real path, owner and inode, in a private file. This allows the rewards and tools below it
that a recipe in it names, the files that they import, what the recipe makes them do with preflight.turns and
launch.sandbox, and the recipe's judges; but no model code, no pickles, no variables, and nothing of a recipe elsewhere.
The digests of code that ran are remembered with the folder, so its runs can be resumed.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.bounded_json import parsed
from grpo_recipes.contract.integrity.checkpoints import KIND, judged_checkpoints, strange_pickles
from grpo_recipes.contract.integrity.seal import NoKey, own_content, user_folder
from grpo_recipes.trust.code import MOST_NAMES, OF_FILES, OF_THE_RECIPE, CodePart, not_allowed, refusal
from grpo_recipes.trust.folder_owner import Identity, NotOwn, identity, own_sha256, remembered, replace_list

HERE = "here"
KINDS = frozenset(OF_THE_RECIPE).union(*OF_FILES.values())
_FILE = "folders.json"
_LARGEST_BYTES = 16 << 20
_MOST_DIGESTS = 200
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Allowed:
    """An allowed folder. since: the day. digests: of its code that ran, the newest last."""

    folder: Identity
    since: str
    digests: tuple[str, ...] = ()


def listed() -> list[Allowed]:
    """The folders that this user has allowed. Raises Refusal if the list may be somebody else's."""
    try:
        content = parsed(own_content(user_folder() / _FILE, _LARGEST_BYTES, around_others=0o022))
        if not (isinstance(content, Mapping) and isinstance(content.get("folders"), list)):
            raise ValueError("it is not a list of folders")
        return [one for one in map(_entry, content["folders"]) if one is not None]
    except (FileNotFoundError, NoKey):
        return []
    except (OSError, ValueError, RecursionError) as problem:
        raise Refusal.of(
            f"{remembered(_FILE)}: the list of allowed folders cannot be read",
            because=f"{type(problem).__name__}: {problem}",
            fix="remove the file and allow again the code that you trust",
        ) from problem


def allow_folder(files: Sequence[str]) -> None:
    """Remembers the folder of a recipe. Raises Refusal for one that does not belong to this user alone.

    files: the recipe, and those of its parents that set its rewards and tools; all of them must be in the folder.
    """
    folder = _folder_of(files)
    try:
        found = identity(folder)
        _refuse_files_elsewhere(found, files)
    except NotOwn as problem:
        raise Refusal.of(
            f"--allow-code here: {folder} is not a folder that only you can write to",
            because=str(problem),
            fix="--allow-code with the sha256 of the code",
        ) from problem
    if not any(one.folder == found for one in listed()):
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        _write(found.path, lambda known: known if known and known.folder == found else Allowed(found, today))


def allowed_folder(files: Sequence[str]) -> Allowed | None:
    """The folder of a recipe as it was allowed, None if it was not.

    files: as for allow_folder. Raises NotOwn if it was allowed, but is now a different folder or no longer private.
    """
    path = _folder_of(files)
    known = next((one for one in listed() if one.folder.path == path), None)
    if known is None:
        return None
    if identity(path) != known.folder:
        raise NotOwn(f"{path} was allowed, but is a different folder now")
    _refuse_files_elsewhere(known.folder, files)
    return known


def _folder_of(files: Sequence[str]) -> str:
    return os.path.dirname(os.path.realpath(files[0]))


def _refuse_files_elsewhere(folder: Identity, files: Sequence[str]) -> None:
    """Refuses parents in other folders: they may be a stranger's, and would choose which of the user's functions to
    call.
    """
    for file in files:
        own_sha256(folder, os.path.realpath(file))


def covered(allowed: Allowed, parts: Sequence[CodePart]) -> tuple[list[CodePart], list[str]]:
    """The parts that are code of the folder, or set by its recipe; and why other files are not."""
    found, reasons = [part for part in parts if part.kind in OF_THE_RECIPE], []
    for part in parts:
        if part.kind not in KINDS.difference(OF_THE_RECIPE):
            continue
        try:
            if own_sha256(allowed.folder, part.what) == part.sha256:
                found.append(part)
            else:
                reasons.append(f"{part.what} differs from the plan")
        except NotOwn as problem:
            reasons.append(str(problem))
    return found, reasons


def remember(allowed: Allowed, parts: Iterable[CodePart]) -> None:
    """Stores the digests of a folder's code that is about to run, so that its run can be resumed."""
    new = {part.sha256 for part in parts}
    if not new <= set(allowed.digests):
        _write(allowed.folder.path, lambda known: known and _with_digests(known, new))


def _with_digests(known: Allowed, new: set[str]) -> Allowed:
    kept = [digest for digest in known.digests if digest not in new]
    return replace(known, digests=(*kept, *sorted(new))[-_MOST_DIGESTS:])


def ran_before(parts: Iterable[CodePart]) -> list[CodePart]:
    """The parts that ran as code of a folder that is still allowed."""
    digests = {digest for one in listed() for digest in one.digests}
    return [part for part in parts if part.kind in KINDS and part.sha256 in digests]


def forget(folder: str) -> bool:
    """Forgets a folder, by its path in the list, and what ran in it; returns whether it was listed."""
    paths = {os.path.abspath(folder), os.path.realpath(folder)} & {one.folder.path for one in listed()}
    for path in paths:
        _write(path, lambda _: None)
    return bool(paths)


def _entry(value: object) -> Allowed | None:
    """The entry of the list, None for an invalid one, which allows nothing."""
    if not isinstance(value, Mapping):
        return None
    path, since, digests = value.get("path"), value.get("since"), value.get("digests")
    numbers = [value.get(name) for name in ("user", "device", "inode")]
    if not (isinstance(path, str) and os.path.isabs(path) and all(type(number) is int for number in numbers)):
        return None
    if not (isinstance(since, str) and _DATE.fullmatch(since) and isinstance(digests, list)):
        return None
    ran = tuple(word for word in digests if isinstance(word, str) and _SHA256.fullmatch(word))
    return Allowed(Identity(path, *numbers), since, ran)  # type: ignore[arg-type]


def _write(path: str, change: Callable[[Allowed | None], Allowed | None]) -> None:
    """Changes the entry of a path. Raises Refusal."""

    def text() -> str:
        before = listed()
        entry = change(next((one for one in before if one.folder.path == path), None))
        kept = [one for one in before if one.folder.path != path] + ([] if entry is None else [entry])
        rows = [{**asdict(one.folder), "since": one.since, "digests": list(one.digests)} for one in kept]
        return json.dumps({"folders": rows}, indent=1) + "\n"

    replace_list(remembered(_FILE), "folders", text)


def consent(parts: Sequence[CodePart], given: Sequence[str], files: Sequence[str]) -> list[str]:
    """Messages about code that runs because its folder is allowed. Raises Refusal for code that is not allowed.

    given: digests, or the word here. files: the recipe and the parents that set its rewards and tools; none for an
    earlier plan, whose author is unknown, so its code is identified by sha256 alone.
    """
    says_here = any(word.strip().lower() == HERE for word in given)
    missing = not_allowed(parts, [word for word in given if word.strip().lower() != HERE])
    if not files:
        if says_here:
            raise Refusal.of(
                "--allow-code here: it is for a recipe in your own folder, and a run folder may be somebody else's",
                fix="allow the code by its sha256; code that ran before from an allowed folder needs no consent",
            )
        before = ran_before(missing) if missing else []
        _refuse([part for part in missing if part not in before])
        return ["code of this run ran before, from a folder that `--allow-code here` allowed"] if before else []
    if says_here:
        if not any(part.kind in KINDS for part in parts):
            raise Refusal.of("--allow-code here: this recipe has no code in files", fix="leave it out")
        allow_folder(files)
    return _of_its_folder(missing, files) if missing else []


def _of_its_folder(missing: Sequence[CodePart], files: Sequence[str]) -> list[str]:
    try:
        allowed = allowed_folder(files)
    except NotOwn as problem:
        _refuse(missing, [f"the recipe's folder needs consent again: {problem}"])
        return []
    if allowed is None:
        offered = any(part.kind in KINDS for part in missing)
        _refuse(
            missing,
            ["`here` instead of a sha256 allows a folder that only you can write, also after edits"] if offered else [],
        )
        return []
    found, reasons = covered(allowed, missing)
    _refuse([part for part in missing if part not in found], reasons)
    remember(allowed, found)
    path = allowed.folder.path
    return [
        f"code in {path} allowed since {allowed.since} by `--allow-code here`; "
        f"forget with grpo-run allowed --forget {path}"
    ]


def _refuse(missing: Sequence[CodePart], notes: Sequence[str] = ()) -> None:
    if missing:
        finding = refusal(missing)
        raise Refusal(finding._replace(notes=(*finding.notes, *notes)))


# Files of a checkpoint that may run code when read, and were not written by this user.


def checkpoint_parts(folder: str) -> list[CodePart]:
    """The pickles of the checkpoint that the run resumes from, as one part; empty if this user wrote them.

    The worker compares them with their digests before reading them.
    """
    for judged in judged_checkpoints(Path(folder, "checkpoints")):
        if judged.manifest is None:
            continue
        try:
            found = strange_pickles(judged.folder, judged.manifest)
        except OSError as problem:
            raise Refusal.of(
                f"{judged.folder}: its files cannot be read",
                because=str(problem.strerror or problem),
                fix="let this user read them",
            ) from problem
        if found is None:
            return []
        names, sha256 = found
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        where = os.path.join(folder, "checkpoints", judged.folder.name)
        return [CodePart(KIND, f"{where} ({', '.join(names[:MOST_NAMES])}{more})", sha256)]
    return []

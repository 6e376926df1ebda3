"""Remembers folders whose code may run after each edit: `--allow-code here`.

A folder is remembered by its real path. This allows the rewards and tools below it, the files that they import, what
the recipe makes them do with preflight.turns and launch.sandbox, and the recipe's judges, if the recipe and each of its
parents that sets them is in such a folder. It allows no model code, no pickles and no variables. The digests of code
that ran are remembered with the folder, so its runs can be resumed.
"""

import os
import pwd
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.integrity.allowed import FOLDERS
from grpo_recipes.contract.integrity.checkpoints import KIND, judge_checkpoints, pickles
from grpo_recipes.trust.code import MOST_NAMES, OF_FILES, OF_THE_RECIPE, CodePart, not_allowed, refusal
from grpo_recipes.trust.remembered import read_list, replace_list

HERE = "here"
_FILES = frozenset().union(*OF_FILES.values())
_MOST_DIGESTS = 200
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Allowed(NamedTuple):
    """An allowed folder, by its path without links. since: the day. digests: of its code that ran, the newest last."""

    path: str
    since: str
    digests: tuple[str, ...] = ()

    def has(self, file: str) -> bool:
        """Whether a file, without links, is below the folder, in no run folder there, and nobody else can write it."""
        inside = Path(file).is_relative_to(self.path)
        above = [folder for folder in Path(file).parents if folder.is_relative_to(self.path)]
        return inside and not any(map(_is_a_run, above)) and self.why_shared(file) is None

    def why_shared(self, file: str) -> str | None:
        """Why others may have written a file of the folder, by itself or the folders between; None if they have not."""
        path = Path(file)
        between = [path, *(folder for folder in path.parents if folder.is_relative_to(self.path))]
        return next((why for each in between if path.is_relative_to(self.path) and (why := _why_written(each))), None)


def allowed_folders() -> list[Allowed]:
    """The folders that this user has allowed; an invalid entry allows nothing. Raises Refusal."""
    return [entry for entry in map(_entry, read_list(FOLDERS)) if entry is not None]


def _entry(value: object) -> Allowed | None:
    if not isinstance(value, Mapping):
        return None
    path, since, digests = value.get("path"), value.get("since"), value.get("digests")
    if not (isinstance(path, str) and os.path.isabs(path) and isinstance(since, str) and _DATE.fullmatch(since)):
        return None
    ran = digests if isinstance(digests, list) else []
    return Allowed(path, since, tuple(digest for digest in ran if isinstance(digest, str)))


def allow_folders(files: Sequence[str]) -> None:
    """Remembers the folders of a recipe and of its parents. Raises Refusal for one that others may write into."""
    folders = sorted({os.path.dirname(os.path.realpath(file)) for file in files})
    known, new = [entry.path for entry in allowed_folders()], list[str]()
    for folder in folders:
        because = _why_shared(folder)
        if because is not None:
            raise Refusal.of(
                f"--allow-code here: the code of {folder} cannot be allowed as a whole",
                because=because,
                fix="--allow-code with the sha256 of the code",
            )
        if not any(Path(folder).is_relative_to(above) for above in (*known, *new)):
            new.append(folder)
    if new:
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        _change(lambda entries: [*entries, *(Allowed(path, today) for path in new)])


def _change(change: Callable[[list[Allowed]], list[Allowed]]) -> None:
    replace_list(FOLDERS, lambda _: [entry._asdict() for entry in change(allowed_folders())])


def _why_shared(folder: str) -> str | None:
    """Why a folder may hold other people's files, None if it is this user's alone."""
    if any(os.path.commonpath([home, folder]) == folder for home in _homes()):
        return f"{folder} holds all of this user's files, including downloads"
    for above in (Path(folder), *Path(folder).parents):
        if _is_a_run(above):
            return f"{above} is a run folder, which somebody else may have written"
    return _why_written(Path(folder))


def _why_written(path: Path) -> str | None:
    """Why others may write a file or folder, None if they may not."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        return f"{path} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by others; chmod go-w fixes that"
    return None


def _homes() -> Iterator[str]:
    """The home of this user, according to the environment and to the system."""
    yield os.path.realpath(os.path.expanduser("~"))
    try:
        yield os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return


def _is_a_run(folder: Path) -> bool:
    return (folder / "plan.json").exists() and (folder / "launch.sh").exists()


def forget(folder: str) -> bool:
    """Forgets a folder, by its path in the list; returns whether it was listed."""
    paths = {os.path.abspath(folder), os.path.realpath(folder)}
    if not any(entry.path in paths for entry in allowed_folders()):
        return False
    _change(lambda entries: [entry for entry in entries if entry.path not in paths])
    return True


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
        ran = {digest for folder in (allowed_folders() if missing else ()) for digest in folder.digests}
        others = [part for part in missing if part.sha256 not in ran or not _has_own_code([part])]
        _refuse(others)
        return ["code of this run ran before, from a folder that `--allow-code here` allowed"] if missing else []
    has_effect = says_here and _has_own_code(parts)
    if has_effect:
        allow_folders(files)
    messages = _of_folders(missing, files) if missing else []
    if says_here and not has_effect:
        messages.append("--allow-code here allows no folder: this recipe has no code in files")
    return messages


def _of_folders(missing: Sequence[CodePart], files: Sequence[str]) -> list[str]:
    """Messages about the folders that allow all of the parts. Raises Refusal for the parts that they do not allow."""
    known = allowed_folders()
    holders = [next((folder for folder in known if folder.has(os.path.realpath(file))), None) for file in files]
    own = [folder for folder in dict.fromkeys(holders) if folder is not None]
    shared = [because for folder in own if (because := _why_shared(folder.path)) is not None]
    used = [os.path.realpath(file) for file in (*files, *(part.what for part in missing if part.kind in _FILES))]
    shared += dict.fromkeys(why for file in used for folder in known if (why := folder.why_shared(file)) is not None)
    is_own = bool(own) and None not in holders and not shared
    covered = [part for part in missing if is_own and _covers(own, part)]
    others = [part for part in missing if part not in covered]
    notes = [f"the recipe's folder needs consent again: {because}" for because in shared]
    if not is_own and not shared and _has_own_code(others):
        notes = ["`here` instead of a sha256 allows a folder that only you can write, also after edits"]
    elif is_own and _has_own_code(others):
        notes = [f"`--allow-code here` allows the code below {' and '.join(folder.path for folder in own)}, no other"]
    _refuse(others, notes)
    _remember(own[0], {part.sha256 for part in covered})
    return [
        f"code in {folder.path} allowed since {folder.since} by `--allow-code here`; "
        f"forget with grpo-run allowed --forget {folder.path}"
        for folder in own
    ]


def _remember(folder: Allowed, new: set[str]) -> None:
    """Stores the digests of code that is about to run."""
    if not new <= {*folder.digests}:
        older = [digest for digest in folder.digests if digest not in new]
        with_new = folder._replace(digests=(*older, *sorted(new))[-_MOST_DIGESTS:])
        _change(lambda entries: [with_new if entry.path == folder.path else entry for entry in entries])


def _refuse(missing: Sequence[CodePart], notes: Sequence[str] = ()) -> None:
    if missing:
        finding = refusal(missing)
        raise Refusal(finding._replace(notes=(*finding.notes, *notes)))


def _covers(folders: Sequence[Allowed], part: CodePart) -> bool:
    """Whether a part is code in one of the folders, or a key of their recipe."""
    is_file = part.kind in _FILES and any(folder.has(os.path.realpath(part.what)) for folder in folders)
    return is_file or part.kind in OF_THE_RECIPE


def _has_own_code(parts: Sequence[CodePart]) -> bool:
    return any(part.kind in _FILES.union(OF_THE_RECIPE) for part in parts)


def checkpoint_parts(folder: str) -> list[CodePart]:
    """The pickles of the checkpoint that the run resumes from, as one part; empty without any.

    The run that wrote them has allowed them. The worker compares them with their digests before reading them.
    """
    for judged in judge_checkpoints(Path(folder, "checkpoints")):
        if judged.manifest is None:
            continue
        try:
            pickled = pickles(judged.folder, judged.manifest)
        except OSError as problem:
            raise Refusal.of(
                f"{judged.folder}: its files cannot be read",
                because=str(problem.strerror or problem),
                fix="let this user read them",
            ) from problem
        if pickled is None:
            return []
        names, sha256 = pickled
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        where = os.path.join(folder, "checkpoints", judged.folder.name)
        return [CodePart(KIND, f"{where} ({', '.join(names[:MOST_NAMES])}{more})", sha256)]
    return []

"""What of a plan's code its user has not allowed yet, by its sha256 or by the folder that it lies in."""

from collections.abc import Sequence

from grpo_recipes.errors import Refusal
from grpo_recipes.trust.code import CodePart, not_allowed, refusal
from grpo_recipes.trust.folders import HERE, KINDS, allow_folder, allowed_folder, covered, ran_before, remember
from grpo_recipes.trust.own_folder import NotOwn


def consent(parts: Sequence[CodePart], given: Sequence[str], files: Sequence[str]) -> list[str]:
    """What to say of the code that runs since its folder is allowed. Raises Refusal for code that is not allowed.

    given: digests, or the word here. files: the recipe and the parents that say its rewards and tools; none for a plan
    that was made before: who wrote it is not known, and its code is known by its sha256 alone.
    """
    says_here = any(word.strip().lower() == HERE for word in given)
    missing = not_allowed(parts, [word for word in given if word.strip().lower() != HERE])
    if not files:
        if says_here:
            raise Refusal.of(
                "--allow-code here: it is for a recipe in a folder of your own, and a run folder may be another's",
                fix="allow the code by its sha256; what ran before of a folder that you allowed needs nothing",
            )
        before = ran_before(missing) if missing else []
        _refuse([part for part in missing if part not in before])
        return ["code of this run ran before, from a folder that `--allow-code here` allowed"] if before else []
    if says_here:
        if not any(part.kind in KINDS for part in parts):
            raise Refusal.of("--allow-code here: this recipe brings no code of a file", fix="leave it out")
        allow_folder(files)
    return _of_its_folder(missing, files) if missing else []


def _of_its_folder(missing: Sequence[CodePart], files: Sequence[str]) -> list[str]:
    try:
        allowed = allowed_folder(files)
    except NotOwn as problem:
        _refuse(missing, [f"the folder of the recipe is asked for again: {problem}"])
        return []
    if allowed is None:
        offered = any(part.kind in KINDS for part in missing)
        _refuse(
            missing,
            ["`here` instead of a sha256 allows a folder that only you write, also after an edit"] if offered else [],
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

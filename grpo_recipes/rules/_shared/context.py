"""What a rule sees, and how it reports findings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path, Severity, path_text
from grpo_recipes.contract.findings.wording import entry, flow
from grpo_recipes.facts.facts import Facts
from grpo_recipes.rules._shared.settings import Setting, Settings
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import Source


class NotJudged(Exception):
    """A rule asked for a value that is already refused: the rule stays silent, since one mistake gets one message."""


class Context(NamedTuple):
    """The settings so far, their stack, what it accepts, and where each value was written.

    refused: paths that already have a finding, also below a setting's own path, such as one key of a map.
    written: the settings before any rule decided, and of one source those of its mixture. names: every key that can be
    set, with owners of unlisted fields as "LoraConfig."; None if any key is allowed.
    """

    settings: Settings
    stack: Stack
    facts: Facts
    source: Source
    refused: frozenset[Path] = frozenset()
    written: Settings = Settings()
    names: frozenset[str] | None = None

    def value(self, key: str) -> object:
        """The value at a key, None if it has none.

        Raises NotJudged for a value already refused, KeyError for a key that nothing ever sets.
        """
        setting = self._setting(key)
        if setting is None:
            return None
        if setting.refused:
            raise NotJudged(key)
        return setting.value

    def _setting(self, key: str) -> Setting | None:
        setting = self.settings.get(key)
        if setting is None and self.names is not None and self.names.isdisjoint((key, key[: key.find(".") + 1])):
            raise KeyError(f"no recipe and no rule sets {key}")
        return setting

    def whole(self, key: str) -> int:
        """The value at a key that holds a whole number. Raises NotJudged for anything else."""
        value = self.value(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotJudged(key)
        return value

    def text(self, key: str) -> str:
        """The value at a key that holds text. Raises NotJudged for anything else."""
        value = self.value(key)
        if not isinstance(value, str):
            raise NotJudged(key)
        return value

    def mapping(self, key: str) -> Mapping[str, object]:
        """The map at a key, empty if it has none."""
        value = self.value(key)
        return value if isinstance(value, dict) else {}

    def items(self, key: str) -> list[Any]:
        """The list at a key, empty if it has none."""
        value = self.value(key)
        return value if isinstance(value, list) else []

    def is_given(self, key: str) -> bool:
        """Whether the user wrote this value. Raises KeyError for a key that nothing ever sets."""
        setting = self._setting(key)
        return setting is not None and setting.given

    def as_written(self, *keys: str) -> "Context":
        """The context without the decisions on these settings, for a rule that their rules wait for."""
        before = [self.written[key] for key in keys if key in self.written]
        return self._replace(settings=self.settings.without(keys).having(before))

    def has_section(self, name: str) -> bool:
        """Whether the merged recipe has this section."""
        return self.source.values.get(name) is not None

    def path(self, key: str) -> Path:
        """Where a user writes the value of a key."""
        setting = self.settings.get(key)
        return setting.path if setting is not None and setting.path else tuple(key.split("."))

    def recipe_key(self, key: str) -> str:
        """The key as a user writes it."""
        return path_text(self.path(key))

    def origin(self, key: str) -> str:
        """ "8 (line 12)" style origin of a value, for a because line."""
        setting = self.settings.get(key)
        if setting is None:
            return "not set"
        mark = self.source.marks.get(setting.path) if setting.given and setting.path else None
        if mark is not None:
            return f"line {mark.line}" if mark.file == self.source.file else str(mark)
        return setting.origin

    def mark(self, key: str) -> Mark | None:
        """Where the value was written, or else its section."""
        return self.source.mark(self.path(key))

    def _mark_inside(self, key: str, patch: Sequence[Patch]) -> Mark | None:
        if patch and path_text(patch[0].path).startswith(f"{self.recipe_key(key)}"):
            return self.source.mark(patch[0].path)
        return self.mark(key)

    def finding(
        self,
        message: str,
        key: str,
        because: str | Sequence[str],
        *,
        fix: str | None = None,
        patch: Sequence[Patch] = (),
        severity: Severity = "error",
        mark: Mark | None = None,
    ) -> Finding:
        """A finding at a key's position, or at that of its first patch if it is inside the key's value.

        because: one reason, or several. Without a `fix`, its text says what the patches do. The engine adds the
        rule's id.
        """
        reasons = (because,) if isinstance(because, str) else tuple(because)
        fix = patches_text(patch) if fix is None else fix
        mark = mark or self._mark_inside(key, patch)
        return Finding("", severity, message, self.recipe_key(key), mark, reasons, fix, tuple(patch))

    def wrong(
        self,
        message: str,
        key: str,
        because: str | Sequence[str],
        better: object = None,
        *,
        at: Path = (),
        fix: str | None = None,
        severity: Severity = "error",
        mark: Mark | None = None,
    ) -> Finding:
        """A finding whose fix writes a better value at the key, or at another path; None removes what is there."""
        patch = Patch(at or self.path(key), better, remove=better is None)
        return self.finding(message, key, because, fix=fix, patch=[patch], severity=severity, mark=mark)

    def not_checked(self, message: str, key: str, because: str | Sequence[str], fix: str | None = None) -> Finding:
        """A finding for what could not be checked."""
        return self.finding(message, key, because, fix=fix, severity="not-checked")


def finding_at(
    source: Source,
    rule: str,
    path: Path,
    message: str,
    *,
    because: Sequence[str] = (),
    fix: str | None = None,
    patch: Sequence[Patch] = (),
    severity: Severity = "error",
) -> Finding:
    """A finding at a path of the merged recipe. Without a `fix`, its text says what the patches do."""
    fix = patches_text(patch) if fix is None else fix
    return Finding(rule, severity, message, path_text(path), source.mark(path), tuple(because), fix, tuple(patch))


def patches_text(patches: Sequence[Patch]) -> str | None:
    """What to write or remove; None without patches and for keys that move, whose rule says where to."""
    if len(patches) == 1 and patches[0].remove:
        return f"remove {patches[0].path[-1]}"
    if any(patch.remove for patch in patches):
        return None
    return ", ".join(entry(patch.path, flow(patch.value)) for patch in patches) or None


def rule_setting(key: str, value: object, why: str) -> Setting:
    """A setting that a rule chose. The engine adds the rule's id, and where a user would write it."""
    return Setting(key, value, "", why)

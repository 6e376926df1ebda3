"""What a rule sees, and how it reports findings."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path, Severity, dotted
from grpo_recipes.facts.facts import Facts
from grpo_recipes.settings import Setting, Settings
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import Source


class NotJudged(Exception):
    """A rule asked for a value that is already refused: the rule stays silent, since one mistake gets one message."""


class Context(NamedTuple):
    """The settings so far, their stack, what it accepts, and where each value was written.

    refused: paths that already have a finding, also below a setting's own path, such as one key of a map.
    written: the settings before any rule decided. names: every key that can be set, with owners of unlisted fields as
    "LoraConfig."; None if any key is allowed.
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

    def given(self, key: str) -> bool:
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

    def recipe_key(self, key: str) -> str:
        """The key as a user writes it."""
        setting = self.settings.get(key)
        return dotted(setting.path) if setting is not None and setting.path else key

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
        setting = self.settings.get(key)
        path = setting.path if setting is not None and setting.path else tuple(key.split("."))
        return self.source.mark(path)

    def finding(
        self,
        rule: str,
        message: str,
        key: str,
        *,
        because: Sequence[str] = (),
        fix: str | None = None,
        patch: Sequence[Patch] = (),
        severity: Severity = "error",
        mark: Mark | None = None,
    ) -> Finding:
        """A finding at a key's position."""
        return Finding(
            rule=rule,
            severity=severity,
            message=message,
            key=self.recipe_key(key),
            mark=mark or self.mark(key),
            because=tuple(because),
            fix=fix,
            patch=tuple(patch),
        )


def decided(key: str, value: object, rule: str, why: str, settings: Settings) -> Setting:
    """A setting that a rule chose; it keeps the position where a user would write it."""
    before = settings.get(key)
    return Setting(key=key, value=value, origin=rule, why=why, path=before.path if before else None)

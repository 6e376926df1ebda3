"""Phrases that read as translated, each with the plain English for it."""

import re
from collections.abc import Iterator

# A regular expression -> the replacement. Only phrases that are nearly always wrong; a blank matches any white space.
INSTEAD = {
    r"(go|goes|going|gone|went) on (with|from)": "resume, continue",
    r"without a word": "silently",
    r"in silence": "silently",
    r"(?<!there\x20)(is|are) none": "is not a, there is no",
    r"there (is|are) none that": "nothing, no",
    r"(is|are) said": "grpo-run reports, prints, says",
    r"(stand|stands|stood) in(?! for)": "is in",
    r"(lie|lies|lay) (in|beside)": "is in, is beside",
    r"(belong|belongs) into": "belongs in",
    r"can be had": "is available",
    r"(is|are) to be (found|had|gone|seen)": "can be",
    r"held against": "compared with",
    r"what is no": "anything that is not a",
    r"came of it|what comes of it": "the result",
    r"in vain": "without success",
    r"told of": "told about",
    r"one behind the other": "one after another",
    r"not any more": "no longer",
    r"which is whole": "which is complete",
    r"(is|are) dearer|dearer than": "is slower, is more expensive",
    r"(has|have|is) no road": "offers no way",
    r"whoever": "anyone who",
    r"mind whom": "be careful who",
    r"nobody shall": "so that nobody",
    r"of (its|their) own": "its own, separate",
    r"anew": "again, start over",
    r"in (the )?place of": "instead of",
    r"tells? (which|what|how|everything)": "reports, shows",
    r"(go|goes) by": "use, is decided by",
    r"made longer": "extended",
    r"what (is|was) seen": "what grpo-run reports; a heading names the thing",
    r"what became of": "what happened to",
    r"by (its|their) names?": "by name",
    r"is the way to": "takes you to, shows how to",
    r"in small": "at a small scale",
    r"from \d[\d.]* on": "since 0.25",
    r"(is|are) asked for": "needs, requests",
    r"each way of": "every way to",
    r"(share|shares) out": "divide, allocate",
    r"(let|lets) go": "release",
    r"beside each other": "side by side",
    r"where there is none": "without one",
    r"by the word of": "as reported by",
    r"words and signs": "tokens",
    r"(?<!there\x20)(is|are) no (?!longer|better|higher|other|less|more)\w+": "is not a, there is no",
    r"beside (the|a|an|its|it|this|their|them|one)": "next to, in addition to",
    r"some (hundred|thousand|seconds|minutes|hours|steps|points)": "a few",
    r"every second (line|release|row|run|step)": "every other",
    r"for good": "permanently",
    r"meanwhile": "in the meantime, during that time",
    r"message of the (assistant|role|user)": "assistant message, user message, message with the role",
    r"in the form in which": "in the form that",
    r"surer|sure of": "more confident, confident in",
    r"half written": "incomplete",
    r"(is|are|was|were) not tried": "is not tested, has not been tested",
    r"stop texts?": "stop string",
    r"part that sees": "vision part",
    r"(win|wins) over": "overrides",
    r"brings? along": "contains, provides",
    r"(it|not|therefore|would) alarms?": "fires",
    r"not an? \w+ of yours alone": "that only you can write to",
}
PHRASES = [
    (re.compile(rf"\b(?:{phrase})\b".replace(" ", r"\s+"), re.IGNORECASE), plain) for phrase, plain in INSTEAD.items()
]


def translated_phrases(text: str) -> Iterator[str]:
    """Yields `LINE: "PHRASE", write: PLAIN` for each phrase in a text, also across line ends."""
    for pattern, plain in PHRASES:
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f'{line}: "{" ".join(match[0].split())}", write: {plain}'

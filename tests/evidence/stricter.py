"""Which rules are stricter than the libraries, with the reason, and which are proven elsewhere."""

STRICTER = {
    "BAT001": "another global batch trains too, but it is another experiment; that none can be made is evidence",
    "EVL001": "measuring the training rows works, and measures memory",
    "FCT003": "a field with a typed home could be written twice and disagree with itself",
    "FCT004": "a stack without the field trains another experiment, since it has no such choice",
    "FCT006": "the classes declare types and check few of them; a wrong one is noticed late or never",
    "FCT007": "a word that YAML 1.1 reads as a boolean is text or boolean by the reader's age",
    "FCT008": "a warning alone: the value is taken, and read nowhere",
    "SCH001": "the format's own: a value without a default",
    "SCH002": "the format's own: nothing is converted in silence",
    "SCH003": "the format's own: ranges of its fields",
    "SCH004": "the format's own: words of its fields",
    "STK014": "an older TRL may train with the same arguments; the training process was run with none",
    "STK011": "a release without facts may well train; nothing is known about it",
    "TRU001": "the libraries run whatever the environment loads; nobody has allowed it",
    "WLD001": "decides the world and refuses nothing",
}
# Evidence files that are not named by a rule file.
PROVEN_IN = {
    "STK012": "tests/facts/test_declared_windows.py",
    "STK013": "tests/facts/test_broken_pairs.py",
    "FCT001": "tests/evidence/test_fields_are_the_targets.py",
    "FCT002": "tests/evidence/test_fields_are_the_targets.py",
    "FCT005": "tests/evidence/test_fields_are_the_targets.py",
    "PRE003": "tests/evidence/test_precisions_agree.py",
    "SHM001": "tests/worker/test_shims.py",
    "SHM002": "tests/worker/test_shims.py",
}

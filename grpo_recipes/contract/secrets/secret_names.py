"""Which names of environment variables say that the value is a secret."""

import re

# Endings count too, as in HFTOKEN and PGPASSWORD. Tuples: patterns of them take a millisecond to compile.
_ENDINGS = (
    *("ACCESSKEY", "APIKEY", "AUTHKEY", "PRIVATEKEY", "SECRETKEY", "CLIENTSECRET", "SECRET", "SECRETS"),
    *("CONNECTIONSTRING", "CONNSTR", "CREDENTIAL", "CREDENTIALS", "CRED", "CREDS"),
    *("PASSPHRASE", "PASSPHRASES", "PASSWD", "PASSWORD", "PASSWORDS"),
    *(
        f"{owner}{token}"
        for owner in [
            "AD",
            "BOT",
            "API",
            "AUTH",
            "ACCESS",
            "REFRESH",
            "GH",
            "GITHUB",
            "GITLAB",
            "HF",
            "HUB",
            "ID",
            "JOB",
            "MY",
            "NPM",
            "WANDB",
        ]
        for token in ("TOKEN", "TOKENS")
    ),
    *(
        f"{owner}PASS"
        for owner in [
            "ADMIN",
            "DB",
            "FTP",
            "HTTP",
            "IMAP",
            "LDAP",
            "MAIL",
            "MYSQL",
            "PG",
            "PROXY",
            "REDIS",
            "ROOT",
            "SMTP",
            "SSH",
            "SUDO",
            "USER",
        ]
    ),
)
_WORDS = frozenset(
    [
        "AUTHORIZATION",
        "BEARER",
        "COOKIE",
        "COOKIES",
        "CSRF",
        "DSN",
        "JWT",
        "KEY",
        "KEYS",
        "OTP",
        "PASSCODE",
        "SESSID",
        "SESSIONID",
        "TOKEN",
        "TOKENS",
        "TOTP",
        "WEBHOOK",
        "WEBHOOKS",
        "XSRF",
    ]
)
# The last word of a name of several: SMTP_PASS, MYSQL_PWD, GITHUB_PAT, STRIPE_SK; a shell's PWD is not a secret.
_LAST_WORD = frozenset(("HOOK", "PASS", "PAT", "PW", "PWD", "REFRESH", "SAS", "SK"))
_DATABASES = (
    "AMQP BROKER CACHE CELERY DATABASE DB JDBC MONGO MONGODB MYSQL PG POSTGRES POSTGRESQL RABBITMQ REDIS SQLALCHEMY "
    "RESULT_BACKEND"
)
_CONNECTIONS = (
    *(f"{database}_{address}" for database in _DATABASES.split() for address in ("URI", "URL")),
    *(f"{word}_{what}" for word in ("CONN", "CONNECTION") for what in ("STRING", "STR", "URI")),
)
# AUTH alone may be a way rather than a secret: SSH_AUTH_SOCK, AUTH_METHOD.
_AUTH = ("AUTH", *(f"AUTH_{what}" for what in ("CONFIG", "DATA", "HEADER", "JSON", "STRING", "VALUE")))
_WHOLE = _CONNECTIONS + _AUTH
_BEHIND_A_WORD = tuple(f"_{name}" for name in _WHOLE)
_COUNTS = frozenset(
    (
        "ADDED",
        "BATCH",
        "BATCHED",
        "BUDGET",
        "CHUNK",
        "COUNT",
        "LEN",
        "LENGTH",
        "LIMIT",
        "MAX",
        "MIN",
        "N",
        "NEW",
        "NUM",
        "PER",
        "SIZE",
        "SPECIAL",
        "TOTAL",
    )
)
_OF_A_TEXT = frozenset(
    (
        "AUDIO",
        "BOS",
        "CLS",
        "DECODER",
        "EOS",
        "IMAGE",
        "MASK",
        "MAX",
        "MIN",
        "NUM",
        "PAD",
        "SEP",
        "STOP",
        "UNK",
        "VIDEO",
    )
)
_AFTER_A_TEXT = frozenset(
    (
        "BUDGET",
        "COUNT",
        "ID",
        "IDS",
        "LEN",
        "LENGTH",
        "LIMIT",
        "THRESHOLD",
        "TYPE",
    )
)
_NO_SECRETS = frozenset(
    (
        "DISABLE",
        "DISABLED",
        "ENABLE",
        "ENABLED",
        "PUBLIC",
    )
)
_PASSES = frozenset(
    (
        "BACKWARD",
        "FAST",
        "FIRST",
        "FORWARD",
        "MULTI",
        "N",
        "NUM",
        "ONE",
        "SECOND",
        "SINGLE",
        "TWO",
    )
)


def names_a_secret(name: str) -> bool:
    """Whether a variable's name says that its value is secret: HF_TOKEN, PGPASSWORD and DATABASE_URL do,
    TOKENIZERS_PARALLELISM, MAX_TOKENS and SSH_AUTH_SOCK not.
    """
    whole = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper().replace("-", "_").replace(".", "_")
    # HF_TOKEN1 and API_KEY_V2 are numbered ones; a word of digits alone stays.
    words = [re.sub(r"(?<=[A-Z])V?\d+$", "", word) for word in whole.split("_") if word]
    if _NO_SECRETS.intersection(words):
        return False
    if len(words) > 1 and words[-1] in _LAST_WORD and words[-2] not in _PASSES:
        return True
    if words in (["PASS"], ["PAT"]) or _is_of_a_service(whole):
        return True
    return any(_is_secret(word) and not _is_of_a_text(words, place) for place, word in enumerate(words))


def _is_of_a_service(name: str) -> bool:
    """Whether the value is an address with a password in it, or what a service is asked with."""
    return name in _WHOLE or name.endswith(_BEHIND_A_WORD) or name.startswith("AIRFLOW_CONN_")


def _is_secret(word: str) -> bool:
    return word in _WORDS or (word.endswith(_ENDINGS) and re.fullmatch(r"\w+", word) is not None)


def _is_of_a_text(words: list[str], place: int) -> bool:
    """Whether the word speaks of tokens of a text, or of how many keys there are."""
    word = words[place]
    if word in ("TOKENS", "KEYS"):
        return bool(_COUNTS.intersection(words))
    before, after = words[max(0, place - 1) : place], words[place + 1 : place + 2]
    return word == "TOKEN" and bool(_OF_A_TEXT.intersection(before) or _AFTER_A_TEXT.intersection(after))

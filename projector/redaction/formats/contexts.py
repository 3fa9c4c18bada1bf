"""Credentials that are known by what stands around them: tokens of open standards, keys, headers, URLs, assignments."""

from __future__ import annotations

from typing import Final

from projector.redaction.formats.row import MIXED, NEVER, UPPER, Format

WORD: Final = "WORD"
"""Stands in an anchor for each sensitive word of the policy (`projector.redaction.rules`), however it is written."""

# Up to fifteen backslashes stand before a quote that is four strings deep.
_TO_QUOTE_OR_LINE_END: Final = r"[^\"'`\r\n]"

# A table is read across: name and purpose, then what it looks like, then what shows it.
# fmt: off
CONTEXTS: Final = (
    Format("jwt", "JSON Web Tokens, signed or encrypted", r"eyJ[A-Za-z0-9_-]{8,1024}\.",
           r"[A-Za-z0-9_-]{8}|\.[A-Za-z0-9_-]{8}", "eyJ" + MIXED[:33] + "." + "eyJ" + MIXED[:40] + "." + MIXED[:43],
           "eyJpZCI6MTIzfQ==", tail="[A-Za-z0-9_.=-]", open_chars=4),
    Format("private-key", "private keys in PEM: withheld to the end of the string",
           r"-----BEGIN PRIVATE[ ]KEY|-----BEGIN RSA PRIVATE[ ]KEY|-----BEGIN EC PRIVATE[ ]KEY|"
           r"-----BEGIN DSA PRIVATE[ ]KEY|-----BEGIN OPENSSH PRIVATE[ ]KEY|-----BEGIN ENCRYPTED PRIVATE[ ]KEY|"
           r"-----BEGIN PGP PRIVATE[ ]KEY|---- BEGIN SSH2 ENCRYPTED PRIVATE[ ]KEY", r"[ -]",
           "-----BEGIN RSA " + "PRIVATE KEY-----\n" + MIXED[:64] + "\n-----END RSA " + "PRIVATE KEY-----\n",
           "-----BEGIN PUBLIC KEY-----", tail=r"[\s\S]", inside_words=True),
    Format("putty-key", "private keys of PuTTY: withheld to the end of the string", r"PuTTY-User-Key-File-", r"[0-9]",
           "PuTTY-User-" + "Key-File-3: ssh-ed25519\n" + MIXED[:64], "PuTTY-User-Key", tail=r"[\s\S]"),
    Format("age-key", "private keys of age", r"AGE-SECRET-KEY-1", r"[A-Z0-9]{20}", "AGE-SECRET-" + "KEY-1" + UPPER[:58],
           "AGE-SECRET-KEY"),
    Format("url-password", "passwords in URLs, and the host that they open", r"://[^\s/?#@:\"'<>\[\]\\]{0,256}:",
           r"[^\s/?#@\"'<>\\]{1,256}@", "postgres://app:" + "hunter2@db.internal/app", "http://localhost:8080",
           tail=r"[^\s/?#\"'<>\\,;)]", says_anchor=True, inside_words=True, open_chars=NEVER,
           body_at_end=r"[0-9]{0,5}[^\s/?#@\"'<>\\0-9]|[0-9]{6}"),  # a port has five digits
    Format("connection-string-password", "`Pwd=` in the connection string of a database", r"pwd=",
           r"[^\s;\"'`\\<\[/$]", "Uid=app;Pwd=" + "hunter2;", "PWD=/home/app", tail=r"[^\s;\"'`]", says_anchor=True,
           any_case=True),  # a shell's PWD is a folder
    Format("authorization-header", "what follows `Authorization:`, to the next quote or line",
           r"authorization[\"'\\\]]{0,16}[ \t]{0,4}[=:>]{1,3}[ \t]{0,4}[\\\"'`]{0,16}",
           r"[^\s\"'`\\<\[=:>]|<[^r\s\"'`\\]|\[[^R\s\"'`\\]", "Authorization: " + "Basic " + MIXED[:24],
           "Authorization: ", tail=_TO_QUOTE_OR_LINE_END, says_anchor=True, any_case=True, inside_words=True),
    Format("cookie-header", "what follows `Cookie:`, to the next quote or line",
           r"cookie[\"'\\\]]{0,16}:[ \t]{0,4}[\\\"'`]{0,16}", r"[A-Za-z0-9_.-]{1,64}=",
           "Set-Cookie: " + "sid=" + MIXED[:24] + "; Path=/", "cookie: a small file", tail=_TO_QUOTE_OR_LINE_END,
           says_anchor=True, any_case=True, inside_words=True, open_chars=16),
    Format("bearer", "bearer tokens", r"bearer[ \t]{1,4}", r"[A-Za-z0-9._~+/-]{20}", "Bearer " + MIXED[:32],
           "bearer authentication", tail="[A-Za-z0-9._~+/=-]", says_anchor=True, any_case=True, open_chars=16),
    Format("quoted-assignment", "a sensitive word, `=` or `:`, and a value in double quotes",
           WORD + r"[A-Za-z0-9_]{0,32}[\"'\\\])]{0,16}[ \t]{0,4}[=:>]{1,3}\s{0,8}[\\]{0,15}\"",
           r"[^\"\\<\[]|<[^r\"\\]|\[[^R\"\\]", "api_key = " + '"hunter2"', 'password = ""', tail=r"[^\"\r\n]",
           says_anchor=True, any_case=True, inside_words=True),
    Format("single-quoted-assignment", "the same in single quotes",
           WORD + r"[A-Za-z0-9_]{0,32}[\"'\\\])]{0,16}[ \t]{0,4}[=:>]{1,3}\s{0,8}[\\]{0,15}'",
           r"[^'\\<\[]|<[^r'\\]|\[[^R'\\]", "{'password': " + "'hunter2'}", "password = ''", tail=r"[^'\r\n]",
           says_anchor=True, any_case=True, inside_words=True),
    Format("bare-assignment", "a sensitive word, `=` or `:`, and a value without quotes: environments, URLs, options",
           WORD + r"[A-Za-z0-9_]{0,32}[=:]", r"[^\s\"'`\\,;&<>(){}\[\]=:|]", "DB_PASSWORD=" + "hunter2",
           "token == other", tail=r"[^\s\"'`\\,;&<>(){}\[\]]", says_anchor=True, any_case=True, inside_words=True),
    Format("bare-member", "a sensitive word in quotes, `:`, and a value without quotes",
           WORD + r"[A-Za-z0-9_]{0,32}[\"'\\]{1,16}[ \t]{0,4}[=:>]{1,3}[ \t]{0,4}", r"[^\s\"'`\\,;&<>(){}\[\]=:|]",
           '{"password": ' + "1234}", '"tokens": 512', tail=r"[^\s\"'`\\,;&<>(){}\[\]]", says_anchor=True,
           any_case=True, inside_words=True),
    Format("option", "a sensitive option of a command, and its value",
           f"--{WORD}[A-Za-z0-9_-]{{0,32}}[ ]{{1,4}}|--[A-Za-z0-9]{{1,16}}-{WORD}[A-Za-z0-9_-]{{0,32}}[ ]{{1,4}}",
           r"[^\s\"'`\\,;&<>(){}\[\]=:|-]", "--password " + "hunter2", "--max-tokens 512",
           tail=r"[^\s\"'`\\,;&<>(){}\[\]]", says_anchor=True, any_case=True, inside_words=True),
    Format("line-assignment", "a sensitive word, `: `, and a value that holds more than letters",
           WORD + r"[A-Za-z0-9_]{0,32}[ \t]{0,4}:[ \t]{1,4}", r"[A-Za-z]{0,24}[0-9@#$%^&*_+=/~]",
           "password: " + "hunter2", "password: required", tail=r"[^\s\"'`\\,;&<>(){}\[\]]", says_anchor=True,
           any_case=True, inside_words=True, open_chars=NEVER),  # letters alone are a word, at the end too
)
# fmt: on

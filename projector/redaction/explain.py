"""What a policy does, as rows for people: `projector explain` prints them."""

from __future__ import annotations

from typing import Final, NamedTuple

from projector.contracts.kinds import REDACTED
from projector.redaction.formats import FORMATS
from projector.redaction.policy import Policy
from projector.redaction.rules import COUNT_ENDINGS, KEY_RULES, NO_SECRETS, normal_form


class Rule(NamedTuple):
    """One rule: which group it belongs to, its name, and what it does."""

    group: str
    name: str
    about: str


_ALWAYS: Final = (
    Rule("text", "json-in-strings", "a string that holds JSON is cleaned inside, three levels deep"),
    Rule("text", "surrogates", "lone surrogates become U+FFFD"),
    Rule("numbers", "not-finite", "NaN and infinities become null"),
    Rule("numbers", "over-64-bits", "integers over 64 bits become strings"),
    Rule("urls", "scheme", f"only http and https are said; another address is {REDACTED}"),
    Rule("urls", "credentials", "user names, passwords and sensitive parameters are withheld"),
    Rule("keys", "counts", f"a key that ends in {' or '.join(COUNT_ENDINGS)} and holds a number is no secret"),
    Rule("keys", "no-secrets", f"{', '.join(NO_SECRETS)} is no sensitive word"),
)


def rules(policy: Policy) -> list[Rule]:
    """Give the rules that a policy applies, in groups; registered values by their ids only."""
    removed = set(map(normal_form, policy.sensitive_keys_remove))
    return [
        *(
            Rule("keys", row.word, f"{row.where} {row.word}: {row.about}")
            for row in KEY_RULES
            if row.word not in removed
        ),
        *(Rule("keys", word, "added by the policy") for word in policy.sensitive_keys_add),
        *(Rule("keys", word, "no secret, by the policy") for word in policy.sensitive_keys_remove),
        *(Rule("formats", row.name, row.about) for row in FORMATS if row.name not in policy.formats_off),
        *(Rule("formats", name, "switched off by the policy") for name in sorted(policy.formats_off)),
        *(Rule("values", row.id or REDACTED, "registered by the host") for row in policy.registered),
        *_ALWAYS,
        *(Rule("limits", name, str(limit)) for name, limit in policy.limits),
        Rule("images", policy.images, _IMAGES[policy.images]),
        Rule("reasoning", policy.reasoning, _REASONING[policy.reasoning]),
    ]


_IMAGES: Final = {
    "chunks": "image bytes travel in chunks",
    "host": "image bytes are left to the host, which gives an attachment",
}
_REASONING: Final = {
    "off": "nothing of the model's reasoning is said",
    "summary": "what the provider calls a summary is said",
    "full": "the reasoning text is said in dialects that have a place for it",
}

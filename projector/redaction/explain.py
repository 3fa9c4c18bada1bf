"""The rules that a policy applies, as rows of text, printed by `projector explain`."""

from __future__ import annotations

from typing import Final, NamedTuple

from projector.contracts.kinds import REDACTED
from projector.redaction.policy import Policy
from projector.redaction.rules import merged, normal_form


class Rule(NamedTuple):
    """One rule: its group, its name, and what it does."""

    group: str
    name: str
    about: str


_ALWAYS: Final = (
    Rule("text", "json-in-strings", "JSON inside a string is cleaned too, up to six levels deep"),
    Rule("text", "surrogates", "lone surrogates become U+FFFD"),
    Rule("numbers", "not-finite", "NaN and infinities become null"),
    Rule("numbers", "over-64-bits", "integers over 64 bits become strings"),
    Rule("urls", "scheme", f"only http and https are shown; any other address becomes {REDACTED}"),
    Rule("urls", "credentials", "user names, passwords and sensitive parameters are withheld"),
)
_IMAGES: Final = {
    "chunks": "image bytes are streamed in chunks",
    "host": "image bytes are left to the host, which adds an attachment",
}
_ERROR_MESSAGES: Final = {
    "auto": "messages of provider errors are ours, except on the routes of the OpenAI APIs",
    "generic": "messages of provider errors are ours",
    "provider": "messages of provider errors are shown, without names of accounts and infrastructure",
}
_REASONING: Final = {
    "off": "no reasoning of the model is shown",
    "summary": "reasoning summaries of the provider are shown",
    "full": "the reasoning text is shown in dialects that have a field for it",
}


def rules(policy: Policy) -> list[Rule]:
    """Return the rules that a policy applies, by group. Registered values are listed by their ids only."""
    formats, words, exceptions, counts, _, classes = merged(policy.own_rules)
    abouts = {row.name: row.about for row in classes}
    removed = set(map(normal_form, policy.sensitive_keys_remove))
    endings = " or ".join(word for row in counts for word in row.spellings)
    return [
        *(Rule("keys", row.name, f"{row.where} {row.name}: {row.about}") for row in words if row.name not in removed),
        *(Rule("keys", word, "added by the policy") for word in policy.sensitive_keys_add),
        *(Rule("keys", word, "not sensitive, by the policy") for word in policy.sensitive_keys_remove),
        *(Rule("formats", row.name, row.about) for row in formats if row.name not in policy.formats_off),
        *(Rule("formats", name, "switched off by the policy") for name in sorted(policy.formats_off)),
        *(Rule("values", row.id or REDACTED, "registered by the host") for row in policy.registered),
        *(
            Rule("text", name, f"{action} {abouts.get(name, 'credentials of known formats')}")
            for name, action in policy.text_actions.items()
        ),
        *_ALWAYS,
        Rule("keys", "counts", f"a key with {endings} in it that holds a number is shown"),
        Rule("keys", "exceptions", f"harmless: {', '.join(row.name for row in exceptions)}"),
        *(Rule("limits", name, str(limit)) for name, limit in policy.limits),
        Rule("images", policy.images, _IMAGES[policy.images]),
        Rule("errors", policy.error_messages, _ERROR_MESSAGES[policy.error_messages]),
        Rule("reasoning", policy.reasoning, _REASONING[policy.reasoning]),
    ]

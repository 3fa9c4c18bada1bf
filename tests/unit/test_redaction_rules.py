"""Which keys are sensitive (CONTRACT D25)."""

from __future__ import annotations

import pytest

from projector.redaction.rules import KeyRules, Verdict
from tests.rule_samples import KEY_WORDS, Word

PLAIN, SENSITIVE, COUNT = Verdict.PLAIN, Verdict.SENSITIVE, Verdict.SENSITIVE_UNLESS_NUMBER


@pytest.mark.parametrize("row", KEY_WORDS, ids=[row.name for row in KEY_WORDS])
def test_each_rule_has_an_example(row: Word) -> None:
    assert KeyRules().verdict(row.matches[0]) is SENSITIVE
    assert KeyRules(remove=[row.name]).verdict(row.name) is PLAIN


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        ("name", PLAIN),
        ("", PLAIN),
        ("api_key", SENSITIVE),
        ("API-KEY", SENSITIVE),
        ("x.api.key", SENSITIVE),
        ("api key", SENSITIVE),
        ("a\tp\ni key", SENSITIVE),
        ("myApiKeyV2", SENSITIVE),
        ("ａｐｉ＿ｋｅｙ", SENSITIVE),  # noqa: RUF001  # full-width letters are the point
        ("Authorization", SENSITIVE),
        ("auth", SENSITIVE),
        ("AUTH", SENSITIVE),
        ("author", PLAIN),
        ("oauth", PLAIN),
        ("pwd", SENSITIVE),
        ("pwd2", PLAIN),
        ("token", SENSITIVE),
        ("tokens", COUNT),
        ("max_tokens", COUNT),
        ("maxTokens", COUNT),
        ("total-token-count", COUNT),
        ("token_counts", SENSITIVE),
        ("tokenizer", PLAIN),
        ("tokenizer_name", PLAIN),
        ("tokenizer_token", SENSITIVE),
        ("secret_tokens", COUNT),
        ("session_id", SENSITIVE),
        ("session", PLAIN),
        ("set-cookie", SENSITIVE),
        ("private_key_id", SENSITIVE),
        ("keyboard", PLAIN),
    ],
)
def test_verdicts(key: str, verdict: Verdict) -> None:
    rules = KeyRules()
    assert rules.verdict(key) is verdict
    assert rules.verdict(key) is verdict  # from the cache


def test_a_host_adds_words_and_removes_words_and_keys() -> None:
    rules = KeyRules(add=["S.S.N", ""], remove=["password", "page_token"])
    assert rules.verdict("customer_ssn") is SENSITIVE
    assert rules.verdict("user_password") is PLAIN
    assert rules.verdict("pageToken") is PLAIN
    assert rules.verdict("next_page_token") is SENSITIVE
    assert rules.verdict("name") is PLAIN


def test_hostile_keys_do_not_fill_the_memory() -> None:
    rules = KeyRules()
    for number in range(10_000):
        rules.verdict(f"key{number}")
    rules.verdict("x" * 1000)
    assert len(rules._known) <= 4_096

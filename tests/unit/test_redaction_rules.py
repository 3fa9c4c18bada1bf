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
        ("pwd2", SENSITIVE),
        ("cwd", PLAIN),
        ("session_ids", SENSITIVE),
        ("token", SENSITIVE),
        ("tokens", COUNT),
        ("max_tokens", COUNT),
        ("maxTokens", COUNT),
        ("total-token-count", COUNT),
        ("token_counts", PLAIN),
        ("tokens_used", COUNT),
        ("tokensUsed", COUNT),
        ("pagetokensecret", SENSITIVE),
        ("pass", SENSITIVE),
        ("db_pass", SENSITIVE),
        ("DB_PASS2", SENSITIVE),
        ("smtpPass", SENSITIVE),
        ("passenger", PLAIN),
        ("compass", PLAIN),
        ("pass_rate", PLAIN),
        ("pin", SENSITIVE),
        ("spinner", PLAIN),
        ("shipping", PLAIN),
        ("otp", SENSITIVE),
        ("jwtSigningKey", SENSITIVE),
        ("designing_keyboards", PLAIN),
        ("SUPABASE_SERVICE_ROLE_KEY", SENSITIVE),
        ("has_password", PLAIN),
        ("is", PLAIN),
        ("isTokenValid", PLAIN),
        ("password_is_weak", SENSITIVE),
        ("pa\u200bss\u00adword", SENSITIVE),
        ("p\u0430ssw\u043erd", SENSITIVE),
        ("p\u00e1ssword", SENSITIVE),
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
    rules = KeyRules(add=["S.S.N", ""], remove=["password", "csrf_token"])
    assert rules.verdict("customer_ssn") is SENSITIVE
    assert rules.verdict("user_password") is PLAIN
    assert rules.verdict("csrfToken") is PLAIN
    assert rules.verdict("next_csrf_token") is SENSITIVE
    assert rules.verdict("name") is PLAIN


def test_hostile_keys_do_not_fill_the_memory() -> None:
    rules = KeyRules()
    for number in range(10_000):
        rules.verdict(f"key{number}")
    rules.verdict("x" * 1000)
    assert len(rules._known) <= 4_096


HARMLESS: tuple[tuple[str, object], ...] = (
    ("password", None),
    ("password", ""),
    ("api_key", False),
    ("secret", True),
    ("password_required", True),
    ("has_password", "yes"),
    ("is_token_expired", "no"),
    ("token_type", "bearer"),
    ("token_endpoint", "https://id.example.org/token"),
    ("token_endpoint_auth_methods_supported", ["client_secret_basic"]),
    ("next_page_token", "CAUQAA"),
    ("pageToken", "CAUQAA"),
    ("NextToken", "abc"),
    ("tokens_per_second", 51.7),
    ("tokens_per_second", "51.7"),
    ("completion_tokens_details", {"reasoning_tokens": 5}),
    ("promptTokensDetails", [{"modality": "TEXT", "tokenCount": 7}]),
    ("max_tokens", 512),
    ("num_tokens", "512"),
    ("tokens", "1,024"),
    ("token_ids", [101, 2023]),
    ("tokens", {}),
    ("tokens", []),
    ("credentials", "same-origin"),
    ("token", "Expired"),
    ("cookie", "^0.6.0"),
    ("pass", 12),
    ("token_symbol", "USDC"),
    ("secretary", "Ada"),
    ("cookie_consent", "all"),
    ("password_changed_at", "2026-01-01"),
    ("token_expires_in", 3600),
    ("secretName", "db-credentials"),
    ("passenger", "Ada"),
    ("compass", "north"),
    ("shipping", "free"),
    ("pinned", [1]),
    ("first_pass", "done"),
)
SECRETS: tuple[tuple[str, object], ...] = (
    ("password", "hunter2"),
    ("password", 1234),
    ("password", "1234"),
    ("tokens", ["a"]),
    ("pass", 1234),
    ("db_pass", 12),
    ("password", "0.6.0"),
    ("tokens", [[]]),
    ("tokens", "abc"),
    ("tokens", "1" * 20),
    ("pin", 4711),
    ("credentials", {"user": "me"}),
    ("client_secret", "x"),
)


@pytest.mark.parametrize(
    ("key", "value", "is_secret"), [*((*row, False) for row in HARMLESS), *((*row, True) for row in SECRETS)]
)
def test_values_that_are_no_secrets_are_shown(key: str, value: object, is_secret: bool) -> None:  # noqa: FBT001 - a column
    assert KeyRules().hides(key, value) is is_secret


@pytest.mark.parametrize(
    ("key", "text", "is_secret"),
    [
        ("api_key", "None", False),
        ("password", "", False),
        ("token", "nil", False),
        ("secret", "undefined", False),
        ("password", "****", False),
        ("tokens_used", "5", False),
        ("password", "5", True),
        ("password", "nothing", True),
        ("tokens_used", "abc", True),
        ("name", "hunter2", False),
    ],
)
def test_values_that_programs_write_for_nothing_are_shown(key: str, text: str, is_secret: bool) -> None:  # noqa: FBT001 - a column
    assert KeyRules().verdict(key).hides_text(text) is is_secret

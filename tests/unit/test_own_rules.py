"""A host's own rule files: read with the policy, refused with file, entry and field, and linear."""

from __future__ import annotations

from pathlib import Path

import pytest

from projector.redaction.explain import check_samples, rules
from projector.redaction.policy import Policy, PolicyError
from projector.redaction.redactor import Redactor
from projector.server.config.loading import SettingsError, load_settings
from projector.server.config.preflight import check_system
from tests.property.cost import assert_linear

OURS = """
[[format]]
name = "acme-key"
about = "Acme API keys"
anchor = "acme_live_"
pattern = "[A-Za-z0-9]{16}"
source = "Acme documentation: API keys"
matches = ["acme_live_{mixed:16}"]
harmless = ["acme_live is a prefix"]

[[word]]
name = "badge"
about = "numbers of badges"
where = "ends"
source = "Acme handbook"
matches = ["door_badge"]
harmless = ["badges"]

[[exception]]
name = "tokenring"
about = "a kind of network"
source = "IEEE 802.5"
matches = ["token_ring_token"]
harmless = ["token_ring"]

[[count]]
name = "cookies"
about = "numbers of cookies"
source = "Acme handbook"
matches = ["cookie"]
harmless = ["cookies"]
"""
TEXT = 'key acme_live_a1B2c3D4e5F6g7H8 {"door_badge": "4711"}'


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    (tmp_path / "ours.toml").write_text(OURS)
    return tmp_path


def test_own_rules_join_the_shipped_ones(ours: Path) -> None:
    redactor = Redactor(Policy(rules=(ours / "ours.toml",)))
    assert redactor.text("key acme_live_a1B2c3D4e5F6g7H8 and AKIA" + "A" * 16).value == "key <redacted> and <redacted>"
    tree = {"door_badge": "4711", "token_ring": "on", "cookies": 3, "password": "x"}
    cleaned = redactor.json(tree, string_max_chars=100).value
    assert cleaned == {"door_badge": "<redacted>", "token_ring": "on", "cookies": 3, "password": "<redacted>"}
    assert Redactor(Policy()).text(TEXT).value.startswith("key acme_live_a1B2")


def test_an_anchor_may_begin_with_a_class_and_end_with_an_optional_piece(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(
        """
[[format]]
name = "acme-mark"
about = "Acme keys with a mark inside"
anchor = "[A-Z]{3}-?"
pattern = "[a-z0-9]{8}"
before = "[a-z0-9]{8}"
source = "Acme documentation: API keys"
matches = ["a1b2c3d4ABCe5f6g7h8", "a1b2c3d4ABC-e5f6g7h8"]
harmless = ["a1b2c3d4-e5f6g7h8"]
"""
    )
    policy = Policy(rules=(tmp_path / "ours.toml",))
    assert check_samples(policy.own_rules, policy) == []


def test_paths_are_relative_to_the_folder_of_the_configuration(ours: Path) -> None:
    policy = Policy.load({"rules": ["ours.toml"], "formats_off": ["acme-key"]}, ours)
    assert Policy.load({"rules": ["ours.toml"], "formats_off": ["acme-key"]}, str(ours)) == policy
    assert [row.name for row in policy.own_rules.formats] == ["acme-key"]
    assert Redactor(policy).text("acme_live_a1B2c3D4e5F6g7H8").value == "acme_live_a1B2c3D4e5F6g7H8"
    with pytest.raises(PolicyError, match=r"ours\.toml: not found"):
        Policy.load({"rules": ["ours.toml"]}, ours / "elsewhere")


def test_the_rules_of_a_policy_are_explained(ours: Path) -> None:
    names = {(rule.group, rule.name) for rule in rules(Policy.load({"rules": ["ours.toml"]}, ours))}
    assert {("formats", "acme-key"), ("keys", "badge")} <= names


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        ("acme_liv", "expected to be withheld"),
        ("acme_live_{mixed:15}", "withheld only where the text ends: expected a sample that is as long as `pattern`"),
        ("acme_live_{mixed:16}-{mixed:4}", "withheld only in part: expected a `pattern` and `tail` up to its end"),
        ("the key acme_live_{mixed:16}.{mixed:4}!", "withheld only in part: expected a `pattern` and `tail` up to its"),
    ],
)
def test_a_server_reads_them_and_checks_their_samples(ours: Path, sample: str, problem: str) -> None:
    config = ours / "projector.toml"
    config.write_text('[passthrough.policy]\nrules = ["ours.toml"]\n')
    settings = load_settings(config)
    assert settings.passthrough is not None
    assert [row.name for row in settings.passthrough.policy.own_rules.words] == ["badge"]
    check_system(settings)
    (ours / "ours.toml").write_text(OURS.replace("acme_live_{mixed:16}", sample))
    with pytest.raises(SettingsError) as caught:
        check_system(load_settings(config))
    assert str(caught.value).startswith(f"`passthrough.policy.rules`: ours.toml: `acme-key`: `matches` 1: {problem}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"[A-Za-z0-9]{16}"',
            '"([A-Za-z0-9]+)+"',
            "`acme-key`: `pattern`: expected a literal, a class or a count at character 1 (reda",
        ),
        ('"[A-Za-z0-9]{16}"', '"[a-z]{900}[0-9]{200}"', "`pattern`: expected counts of at most 1024 characters"),
        ('"acme_live_"', '"' + "|".join(["acme_live_"] * 65) + '"', "`anchor`: expected at most 64 alternatives"),
        ('"acme_live_"', '"' + "acme_live_" * 205 + '"', "`acme-key`: `anchor`: expected at most 2048 characters"),
        ('"acme-key"', '"github-token"', "`github-token`: `name`: expected a new name; a shipped entry has this one"),
        ('where = "ends"', 'where = "end"', "ours.toml: `badge`: `where` must be 'contains', 'is' or 'ends'"),
        *(  # such a format is found in generated characters only, so that `acme_live_abcdefghijklmnop` would be shown
            ('pattern = "', f'{name} = {value}\npattern = "', f"`acme-key`: `{name}`: expected with `before` only")
            for name, value in {"exact": "true", "word": "true", "not_after": '"[_-]"'}.items()
        ),
        ('anchor = "acme_live_"', 'anchors = "acme_live_"', "`acme-key`: `anchors` is unknown; did you mean `anchor`?"),
    ],
)
def test_an_invalid_file_is_refused_by_file_entry_and_field(ours: Path, old: str, new: str, message: str) -> None:
    (ours / "ours.toml").write_text(OURS.replace(old, new))
    with pytest.raises(PolicyError) as caught:
        Policy.load({"rules": ["ours.toml"]}, ours)
    assert message in str(caught.value)


def test_too_many_entries_are_refused(ours: Path) -> None:
    one = OURS.split("\n\n", maxsplit=1)[0]
    (ours / "ours.toml").write_text("\n".join(one.replace("acme-key", f"acme-{n}") for n in range(1_001)))
    with pytest.raises(PolicyError, match="expected at most 1000 formats"):
        Policy.load({"rules": ["ours.toml"]}, ours)


def test_the_worst_pattern_that_is_accepted_is_linear(ours: Path) -> None:
    """What would backtrack in a regular expression: each class could take the characters of the next ones."""
    worst = OURS.replace('"[A-Za-z0-9]{16}"', '"' + "[a-z]{1,20}" * 50 + '[0-9]"').replace("acme_live_", "aaa")
    (ours / "ours.toml").write_text(worst)
    redactor = Redactor(Policy.load({"rules": ["ours.toml"]}, ours))
    assert_linear(lambda size: lambda: redactor.text("aaa " * size), 100)

"""Error messages of providers: names of accounts and infrastructure are withheld (CONTRACT D41)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from projector.contracts.limits import ERROR_MESSAGE_MAX_CHARS
from projector.redaction.clean import Cleaned, CleanText
from projector.redaction.internals import without_internals
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.rule_files import shipped_internals
from tests.property.cost import cost_of

REDACTOR: Final = Redactor(Policy())


def cleaned(message: str, redactor: Redactor = REDACTOR) -> str:
    return redactor.provider_message(message).value


HOSTILE: Final = [
    # OpenAI
    (
        "openai-rate-limit",
        (
            "Rate limit reached for gpt-5-mini in organization org-Tq8RzV1nYt5KdWc3Lm0PxB7o on tokens per min: Limit"
            " 30000, Used 29411, Requested 1204. Please try again in 1.23s. Visit"
            " https://platform.openai.com/account/rate-limits to learn more."
        ),
        ["org-Tq8RzV"],
        [
            "Rate limit reached for gpt-5-mini",
            "Limit 30000",
            "1.23s",
            "https://platform.openai.com/account/rate-limits",
        ],
    ),
    (
        "openai-project",
        "Project `proj_9XkTqLm2RvYb` does not have access to model `gpt-5.4-pro`",
        ["proj_9Xk", "9XkTqLm2RvYb"],
        ["does not have access to model `gpt-5.4-pro`"],
    ),
    (
        "openai-named-organization",
        "You are not allowed to use this model. Organization: Harbour Freight Labs. Ask an owner.",
        ["Harbour", "Freight", "Labs"],
        ["You are not allowed to use this model.", "Ask an owner."],
    ),
    (
        "openai-masked-key",
        (
            "Incorrect API key provided: sk-proj-********************Q4aB. You can find yours at"
            " https://platform.openai.com/account/api-keys."
        ),
        ["Q4aB", "sk-proj"],
        ["Incorrect API key provided", "platform.openai.com/account/api-keys"],
    ),
    (
        "partly-masked-key",
        "Incorrect API key provided: my-gate***********3fQz.",
        ["my-gate", "3fQz"],
        ["Incorrect API key"],
    ),
    (
        "whole-key",
        "Invalid key sk-" + "a1B2c3D4" * 6 + " for this endpoint",
        ["a1B2"],
        ["Invalid key", "for this endpoint"],
    ),
    (
        "openai-user",
        "Request blocked for user-Lq4ZtRk8WmXc2VbNp6YdGh1J in org_92hfkAAzzq",
        ["Lq4Zt", "92hfk"],
        ["Request blocked for"],
    ),
    # Azure
    (
        "azure-resource-host",
        "Could not resolve host: fernhill-prod-eu.openai.azure.com",
        ["fernhill", "azure.com"],
        ["Could not resolve host"],
    ),
    (
        "azure-deployment-quoted",
        "The deployment 'chat-prod-weu-2' is not in the Succeeded state.",
        ["chat-prod"],
        ["The deployment", "is not in the Succeeded state."],
    ),
    (
        "azure-deployment-bare",
        "Requests to the deployment gpt4o-fernhill_eu have exceeded the call rate limit of tier S0.",
        ["fernhill", "gpt4o-"],
        ["have exceeded the call rate limit of tier S0"],
    ),
    (
        "azure-deployment-id",
        "DeploymentNotFound: deployment id=prodchat, resource name: fernhilloai",
        ["prodchat", "fernhilloai"],
        ["DeploymentNotFound"],
    ),
    (
        "azure-resource-path",
        (
            "No access to /subscriptions/1f0c7a9e-52b1-4c6f-9d3e-8a7b6c5d4e3f/resourceGroups/rg-ai/providers/"
            "Microsoft.CognitiveServices/accounts/fernhill for this key."
        ),
        ["1f0c7a9e", "rg-ai", "fernhill", "CognitiveServices"],
        ["No access to", "for this key."],
    ),
    (
        "azure-url",
        "POST https://fernhill.openai.azure.com/openai/deployments/chat/chat/completions?api-version=2024-10-21 failed",
        ["fernhill", "deployments/chat", "api-version"],
        ["POST", "failed"],
    ),
    (
        "azure-regional-host-without-scheme",
        "upstream swedencentral.api.cognitive.microsoft.com/openai/deployments/prod answered 500",
        ["swedencentral", "deployments", "prod "],
        ["answered 500"],
    ),
    ("tenant", "Tenant '3c1d' (subscription: hoard) is disabled", ["3c1d", "hoard"], ["is disabled"]),
    # gateways, OpenRouter, self-hosted servers
    (
        "openrouter-raw",
        'Provider returned error {"raw":"{\\"error\\":{\\"message\\":\\"quota\\",\\"organization\\":\\"Quayside\\"}}"}',
        ["Quayside"],
        ["Provider returned error"],
    ),
    (
        "aiohttp",
        "Cannot connect to host llm-pool-3.svc.cluster.local:8000 ssl:default [Call failed ('10.42.7.19', 8000)]",
        ["llm-pool", "cluster.local", "10.42"],
        ["Cannot connect to host"],
    ),
    (
        "requests",
        "HTTPConnectionPool(host='vllm', port=8000): Max retries exceeded with url: /v1/completions",
        ["'vllm'", "=vllm"],
        ["Max retries exceeded"],
    ),
    ("go-dial", "dial tcp: lookup vllmgw on 10.96.0.10:53: no such host", ["vllmgw", "10.96"], ["no such host"]),
    ("go-dial-address", "Post failed: dial tcp 172.16.3.4:443: i/o timeout", ["172.16"], ["i/o timeout"]),
    ("single-label", "connection to ollama:11434 refused", ["ollama", "11434"], ["connection to", "refused"]),
    (
        "localhost",
        "proxy error: localhost:4000 and http://localhost/v1 are down",
        ["localhost"],
        ["proxy error", "are down"],
    ),
    ("vllm-path", "No such file: /opt/vllm/models/fernhill-7b/config.json", ["fernhill", "/opt"], ["No such file"]),
    ("home-path", 'File "/home/anna/serve.py", line 12, in run', ["anna"], ["line 12, in run"]),
    (
        "kubernetes-node",
        "pod vllm-7d9f8b-x2k on node ip-10-3-1-44.eu-west-1.compute.internal is gone",
        ["7d9f8b", "ip-10", "internal"],
        ["is gone"],
    ),
    ("ec2-name", "worker ip-10-3-1-44 lost", ["10-3-1"], ["worker", "lost"]),
    (
        "ipv6",
        "no route to fe80::1ff:fe23:4567:890a and [fd12:3456::9]:8443.",
        ["fe80", "fd12", "8443"],
        ["no route to"],
    ),
    ("ipv6-loopback", "refused by ::1 again", ["::1"], ["refused by", "again"]),
    ("ipv4-at-an-end", "We blocked 192.168.4.20.", ["192.168"], ["We blocked"]),
    ("ipv4-after-a-version", "v2 on host_10.0.0.5", ["10.0.0.5"], ["v2 on"]),
    ("email", "Ask ops.team+ai@fernhill.example for access", ["ops.team", "fernhill"], ["Ask", "for access"]),
    ("email-without-known-domain", "Ask root@bastion now", ["root@", "bastion"], ["Ask", "now"]),
    ("postgres", "could not use postgres://app:pw@db-1/usage", ["app:", "db-1", "usage"], ["could not use"]),
    ("escaped-url", r'{"detail":"see https:\/\/gw.fernhill.io\/trace\/88"}', ["fernhill", "trace"], ["see"]),
    ("percent-encoded-url", "redirect=https%3A%2F%2Fgw.corp%2Ftrace", ["gw.corp", "trace"], ["redirect"]),
    ("upper-case", "SEE HTTPS://GW.FERNHILL.IO/X AND ORG-TQ8RZV1NYT5K", ["FERNHILL", "TQ8R"], ["SEE"]),
    (
        "aws",
        "arn:aws:bedrock:eu-west-1:123456789012:provisioned-model/abc is not ready",
        ["1234567", "abc"],
        ["is not ready"],
    ),
    (
        "gcp",
        "Permission denied on projects/fernhill-ai/locations/europe-west4/endpoints/99",
        ["fernhill", "europe"],
        ["Permission denied"],
    ),
    (
        "ids-in-quotes",
        "organization \"org-Tq8RzV1nYt5K\", project 'backoffice'",
        ["Tq8R", "backoffice"],
        ["organization", "project"],
    ),
    (
        "in-brackets",
        "[gateway-eu.fernhill.net] upstream said (10.1.1.1): no",
        ["fernhill", "10.1.1.1"],
        ["upstream", "no"],
    ),
    ("zero-width", "in org-Tq8R\u200bzV1nYt5K at 10.\u200b0.0.7", ["Tq8R", "zV1n", "0.0.7"], ["in"]),
    ("full-width", "at \uff11\uff10.\uff10.0.7 and gw\uff0efernhill\uff0ecom", ["0.0.7", "fernhill"], ["at", "and"]),
    ("unicode-host", "at gw.fjörd.com/x", ["fjörd", "/x"], ["at"]),
    ("trailing-dot", "at gw.fernhill.com. Retry.", ["fernhill"], ["at", "Retry."]),
    (
        "public-host-in-another",
        "at platform.openai.com.evil.io and xplatform.openai.com",
        ["evil", "xplatform"],
        ["at"],
    ),
    ("public-host-with-user", "at https://secretuser@platform.openai.com/x?key=1", ["secretuser", "key=1"], ["at"]),
    ("public-url-with-query", "see https://platform.openai.com/docs?org=quayside#proj", ["quayside"], ["see"]),
    ("line-ends", "failed\r\n\thost: gw-1\r\nnext", ["gw-1"], ["failed", "next"]),
    ("json-keys", '{"deployment_name": "quay", "host": "gw", "message": "no"}', ["quay", '"gw"'], ["no"]),
]


@pytest.mark.parametrize(("message", "gone", "kept"), [pytest.param(*row, id=name) for name, *row in HOSTILE])
def test_names_of_the_account_and_the_infrastructure_are_withheld(
    message: str, gone: list[str], kept: list[str]
) -> None:
    found = REDACTOR.provider_message(message)
    assert [part for part in gone if part in found.value] == [], found.value
    assert [part for part in kept if part not in found.value] == [], found.value
    assert [notice.type for notice in found.notices] == ["redacted"]
    assert cleaned(found.value) == found.value


HARMLESS: Final = [
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens.",
    "Missing required parameter: 'messages[1].tool_calls[0].function.name'.",
    "Invalid value: 'tooll'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
    "Invalid type for 'input[0].content.text': expected a string, but got an integer instead.",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    "The model `gpt-5.9-turbo` does not exist or you do not have access to it.",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "The API deployment for this resource does not exist. If you created the deployment in the last 5 minutes, wait.",
    "Your organization must be verified to use the model `gpt-image-1`.",
    "The server had an error while processing your request. Sorry about that! Request ID req_7Yt5KdWc3Lm0.",
    "Previous response with id 'resp_68ab12' not found.",
    "Item 'rs_689' of type 'reasoning' was provided without its required following item.",
    "You exceeded your current quota, please check your plan and billing details.",
    "Rate limit: 12:30:45 is the reset time (UTC), in 6m0s; limit 3 / min. Please add a payment method.",
    "response_format.json_schema.schema: additionalProperties must be false in ('properties', 'a.b').",
    "Model Qwen/Qwen3-8B supports at most 4096 completion tokens, e.g. max_tokens=4096; temperature 0.2 != 1.0.",
    "Please see https://help.openai.com/en/articles/6891753 and https://openrouter.ai/settings/privacy.",
    "The org-chart tool is disabled in this project.",
]


@pytest.mark.parametrize("message", HARMLESS)
def test_other_words_of_a_message_stay(message: str) -> None:
    assert REDACTOR.provider_message(message) == Cleaned(CleanText(message))


def test_registered_values_and_assignments_are_withheld() -> None:
    policy = Policy.load({"registered": [{"id": "gate", "value": "moonlit harbour"}]})
    message = cleaned("password=hunter2 failed for moonlit harbour", Redactor(policy))
    assert message == "password=<redacted> failed for [REDACTED:gate]"


def test_a_message_is_bounded() -> None:
    found = REDACTOR.provider_message("word " * 1000)
    assert len(found.value) <= ERROR_MESSAGE_MAX_CHARS
    assert [notice.type for notice in found.notices] == ["truncated"]


@pytest.mark.parametrize("length", [480, 490, 495, 499, 500, 4_000, 4_090, 4_095, 4_099, 4_100])
@pytest.mark.parametrize("secret", ["org-Tq8RzV1nYt5KdWc3", "gw.fernhill.com", "https://gw/secret", "10.42.7.19"])
def test_a_cut_shows_no_part_of_a_name(secret: str, length: int) -> None:
    """Withheld text is replaced by shorter text, so the cut may fall anywhere in the original."""
    for filler in ("a ", "10.0.0.1 "):
        text = (filler * length)[: length - len(secret) // 2].rpartition(" ")[0] + " " + secret + " end"
        message = cleaned(text)
        assert not any(part in message for part in (secret[:7], "Tq8R", "fernhill", "gw/", "42.7"))


SEEDS: Final = (
    *(
        "a",
        "a.",
        "a-",
        "1.",
        "1",
        "org-",
        "::",
        ":",
        "a@",
        "a%",
        "https:",
        "a://",
        "host ",
        "*",
        "a*",
        "'host '",
        "%3A",
    ),
    *(
        "\\",
        "\\/",
        "deployment: A ",
        "deployment ",
        "lookup ",
        "ip-1-",
        "/opt/",
        "A B",
        "[",
        "resource ",
        "ﬀ",
        "[::",
        "0:",
    ),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_text_takes_linear_time(seed: str) -> None:
    """A quadratic search of a million characters takes hours. Messages are cut first; this is the search itself."""
    without_internals(seed * (1_000_000 // len(seed)))


def test_a_long_message_is_read_only_as_far_as_necessary() -> None:
    def read(size: int) -> Callable[[], object]:
        text = "gateway gw.fernhill.com refused " * (size // 32)
        return lambda: REDACTOR.provider_message(text)

    short, long = cost_of(read(200_000)), cost_of(read(2_000_000))  # both are read in pieces
    assert long.steps <= 1.1 * short.steps


def test_every_entry_of_the_file_has_samples_that_hold() -> None:
    internals = shipped_internals()
    for entry in internals.identifiers:
        for sample in entry.matches:
            assert cleaned(f"at {sample} now") == "at <redacted> now", entry.name
        for sample in entry.harmless:
            assert cleaned(f"at {sample} now") == f"at {sample} now", entry.name


@pytest.mark.parametrize("action", ["mask", "block"])
@pytest.mark.parametrize("echo", ["off", "pass"])
def test_personal_data_of_a_message_is_masked(action: str, echo: str) -> None:
    """A provider repeats what it refuses, and the log has its message: nothing passes there, and nothing ends."""
    text = {"phone": action, "iban": action, "payment_card": action}
    redactor = Redactor(Policy.model_validate({"text": text, "echo": echo}))
    message = "Bad input: call +49 170 1234567, pay DE89 3704 0044 0532 0130 00 or 4111 1111 1111 1111."
    asked = redactor.for_request({"input": message}, b"k" * 16)
    shown = asked.provider_message(message)
    assert shown.value == "Bad input: call <redacted:phone>, pay <redacted:iban> or <redacted:payment_card>."
    assert [notice.type for notice in shown.notices] == ["redacted"]
    assert cleaned(message) == message

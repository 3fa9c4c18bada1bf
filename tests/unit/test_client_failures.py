"""Exceptions of provider clients as faults: the real classes of `openai`, `httpx` and `aiohttp`."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import aiohttp
import anyio
import httpx2
import openai
import pytest
from aiohttp import client_exceptions
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from projector.providers import client_failures
from projector.providers.client_failures import CAUSES, KINDS, client_failure

REQUEST: Final = httpx2.Request("POST", "http://provider.test/v1/responses")
ABOUT: Final = aiohttp.RequestInfo(
    URL("http://provider.test"), "POST", CIMultiDictProxy(CIMultiDict()), URL("http://provider.test")
)
CONNECTION_KEY: Any = type("Key", (), {"host": "provider.test", "port": 443, "ssl": True})()


def status(code: int, kind: type[openai.APIStatusError] = openai.APIStatusError) -> Exception:
    return kind("words", response=httpx2.Response(code, request=REQUEST), body=None)


def caused(error: Exception, *causes: BaseException) -> Exception:
    at: BaseException = error
    for cause in causes:
        at.__cause__ = cause
        at = cause
    return error


def connection(*causes: BaseException) -> Exception:
    return caused(openai.APIConnectionError(request=REQUEST), *causes)


def timed_out(*causes: BaseException) -> Exception:
    return caused(openai.APITimeoutError(request=REQUEST), *causes)


def answered(code: int) -> aiohttp.ClientResponseError:
    return aiohttp.ClientResponseError(ABOUT, (), status=code)


BUSY: Final = {"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}


def google(name: str, code: int) -> Exception:
    """Return an exception as `google-genai` raises it: a subclass of its `APIError`, with the HTTP status as `code`."""
    base = type("APIError", (Exception,), {"__module__": "google.genai.errors"})
    error = type(name, (base,), {"__module__": "google.genai.errors"})("words")
    response = httpx2.Response(code, headers={"retry-after": "7"}, request=REQUEST)
    error.code, error.status, error.response, error.details = code, "RESOURCE_EXHAUSTED", response, BUSY
    return error


ROWS: Final[list[tuple[Exception, str]]] = [
    (status(400), "upstream_http_400"),
    (status(401, openai.AuthenticationError), "upstream_http_401"),
    (status(429, openai.RateLimitError), "upstream_http_429"),
    (status(503, openai.InternalServerError), "upstream_http_503"),
    (connection(), "upstream_unreachable"),
    (connection(httpx2.ConnectError("a")), "upstream_unreachable"),
    (connection(httpx2.ConnectError("a"), OSError(111, "a")), "upstream_unreachable"),
    (connection(httpx2.ReadError("a")), "upstream_reset"),
    (connection(httpx2.RemoteProtocolError("a")), "upstream_reset"),
    (connection(ssl.SSLError("a")), "upstream_unreachable"),
    (connection(anyio.EndOfStream()), "upstream_reset"),
    (timed_out(), "upstream_timeout_idle"),
    (timed_out(httpx2.ReadTimeout("a"), TimeoutError()), "upstream_timeout_idle"),
    (timed_out(httpx2.ConnectTimeout("a"), TimeoutError()), "upstream_timeout_connect"),
    (timed_out(httpx2.ConnectTimeout("a"), ConnectionRefusedError()), "upstream_unreachable"),  # the aiohttp transport
    (
        openai.APIResponseValidationError(httpx2.Response(200, request=REQUEST), None),
        "upstream_malformed",
    ),
    (openai.APIError("a", REQUEST, body={"code": "overloaded"}), "provider_error"),
    (openai.APIError("a", REQUEST, body=None), "provider_error"),
    (
        httpx2.HTTPStatusError("a", request=REQUEST, response=httpx2.Response(403, request=REQUEST)),
        "upstream_http_403",
    ),
    (httpx2.ConnectError("a"), "upstream_unreachable"),
    (httpx2.ConnectTimeout("a"), "upstream_timeout_connect"),
    (httpx2.ReadTimeout("a"), "upstream_timeout_idle"),
    (httpx2.ReadError("a"), "upstream_reset"),
    (httpx2.DecodingError("a"), "upstream_malformed"),
    (answered(404), "upstream_http_404"),
    (aiohttp.ContentTypeError(ABOUT, (), status=200), "upstream_malformed"),
    (caused(answered(400), aiohttp.http.HttpProcessingError()), "upstream_malformed"),  # not HTTP
    (aiohttp.ClientConnectorError(CONNECTION_KEY, OSError(111, "a")), "upstream_unreachable"),
    (aiohttp.ConnectionTimeoutError("a"), "upstream_timeout_connect"),
    (aiohttp.SocketTimeoutError("a"), "upstream_timeout_idle"),
    (aiohttp.ClientPayloadError("a"), "upstream_reset"),
    (aiohttp.ServerDisconnectedError("a"), "upstream_reset"),
    (aiohttp.ClientOSError("a"), "upstream_reset"),
    (google("ClientError", 429), "upstream_http_429"),
    (google("ServerError", 500), "upstream_http_500"),
]


@pytest.mark.parametrize(("error", "code"), ROWS, ids=[f"{type(error).__name__}-{code}" for error, code in ROWS])
def test_exceptions_of_clients(error: Exception, code: str) -> None:
    failure = client_failure(error, has_begun=True)
    assert failure is not None
    assert failure.fault.code == code


@pytest.mark.parametrize(
    "error",
    [httpx2.ReadTimeout("a"), timed_out(), aiohttp.SocketTimeoutError("a")],
    ids=lambda error: type(error).__name__,
)
def test_a_time_out_before_the_response(error: Exception) -> None:
    failure = client_failure(error, has_begun=False)
    assert failure is not None
    assert failure.fault.code == "upstream_timeout_first_byte"


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        ConnectionRefusedError(),
        json.JSONDecodeError("a", "a", 0),
        OSError(2, "a"),
        httpx2.InvalidURL("a"),
        httpx2.StreamConsumed(),
        aiohttp.InvalidURL("a"),
        type("APIError", (Exception,), {"__module__": "my_database"})(),
        type("ConnectionError", (Exception,), {"__module__": "redis.exceptions"})(),
        RuntimeError("a"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_of_the_host(error: Exception) -> None:
    assert client_failure(error, has_begun=True) is None


def raised_in(package: str, text: str) -> Exception:
    """Return an exception that was raised in a module of a package."""
    module = ModuleType(f"{package}.inner")
    try:
        exec(f"import json\n{text}", vars(module))  # noqa: S102 - a module of its own
    except Exception as error:  # noqa: BLE001 - the subject of the test
        return error
    raise AssertionError(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise TimeoutError", "upstream_timeout_total"),
        ("raise ConnectionResetError", "upstream_reset"),
        ("json.loads('a')", "upstream_malformed"),
    ],
)
def test_built_in_exceptions_count_if_a_client_raised_them(text: str, code: str) -> None:
    failure = client_failure(raised_in("aiohttp", text), has_begun=True)
    assert failure is not None
    assert failure.fault.code == code
    assert client_failure(raised_in("my_database", text), has_begun=True) is None


async def test_the_total_time_out_of_aiohttp_is_a_built_in_exception() -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1e-9)) as session:
        with pytest.raises(asyncio.TimeoutError) as raised:
            await session.get("http://127.0.0.1:9/")
    failure = client_failure(raised.value, has_begun=True)
    assert failure is not None
    assert failure.fault.code.startswith("upstream_timeout_")


@pytest.mark.parametrize(("code", "is_retryable"), [("rate_limit_exceeded", True), ("invalid_prompt", False)])
def test_an_error_in_the_stream_is_the_providers(code: str, is_retryable: bool) -> None:  # noqa: FBT001 - a row
    body = {"code": code, "type": "a_type", "param": None, "message": "ignored: the exception has it"}
    failure = client_failure(openai.APIError("Busy.", REQUEST, body=body), has_begun=True)
    assert failure is not None
    assert failure.last == {"error": {"code": code, "type": "a_type", "message": "Busy."}}
    assert failure.fault.is_retryable is is_retryable


def test_an_error_in_the_stream_of_gemini() -> None:
    failure = client_failure(google("ServerError", 200), has_begun=True)
    assert failure is not None
    assert (failure.fault.code, failure.last, failure.response) == ("provider_error", BUSY, None)


def test_the_response_of_an_error_is_kept() -> None:
    error = status(429)
    failure = client_failure(error, has_begun=True)
    assert failure is not None
    assert failure.response is error.response  # type: ignore[attr-defined]  # of this class
    other = client_failure(refused := answered(429), has_begun=True)
    assert other is not None
    assert other.response is refused


def test_causes_that_form_a_circle_end() -> None:
    first, second = httpx2.ReadError("a"), httpx2.ReadError("b")
    first.__cause__, second.__cause__ = second, first
    assert client_failure(first, has_begun=True) is not None


def exceptions(module: ModuleType, root: Callable[[type], bool]) -> set[str]:
    kinds = [kind for kind in list(vars(module).values()) if isinstance(kind, type) and root(kind)]
    return {kind.__name__ for kind in kinds}


def test_every_listed_class_exists() -> None:
    modules = {"openai": openai, "httpx": httpx2, "aiohttp": client_exceptions, "anyio": anyio, "json": json}
    for name in {*KINDS, *CAUSES, *client_failures.RAISED_BY_CLIENTS} - {"google.APIError"}:  # it is not installed
        package, _, kind = name.partition(".")
        found = getattr(modules[package], kind) if package in modules else eval(kind)  # noqa: S307 - our own table
        assert issubclass(found, BaseException), name


def test_every_exception_of_a_request_is_listed() -> None:
    """What is not listed is a mistake of the host: a wrong URL, a stream that was read twice."""

    def listed(kind: type, package: str) -> bool:
        return any(f"{package}.{base.__name__}" in KINDS for base in kind.__mro__)

    api = exceptions(openai, lambda kind: issubclass(kind, openai.APIError))
    assert all(listed(getattr(openai, name), "openai") for name in api)
    http = exceptions(httpx2, lambda kind: issubclass(kind, httpx2.HTTPError)) - {"HTTPError", "RequestError"}
    assert {name for name in http if not listed(getattr(httpx2, name), "httpx")} == set()
    aio = exceptions(client_exceptions, lambda kind: issubclass(kind, aiohttp.ClientError))
    mistakes = {name for name in aio if not listed(getattr(client_exceptions, name), "aiohttp")}
    assert mistakes == {
        *("ClientError", "InvalidURL", "InvalidUrlClientError", "InvalidUrlRedirectClientError"),
        *("NonHttpUrlClientError", "NonHttpUrlRedirectClientError", "RedirectClientError", "UploadAbortedError"),
    }


def test_no_client_is_imported() -> None:
    program = (
        "import sys, projector.providers.client_failures as f; f.client_failure(ValueError(), has_begun=True); "
        "sys.exit(any(name in sys.modules for name in ('openai', 'httpx', 'httpx2', 'aiohttp', 'anyio')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

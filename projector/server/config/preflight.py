"""Checks of settings against the system that they are used on: what would otherwise fail at the start, or later.

`config check`, the start and a reload run the same checks. The settings themselves have been validated before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from projector._file_problems import file_problem
from projector._validation import FIELDS_MAX
from projector.redaction.policy import Policy
from projector.server.config.agent_settings import PASSTHROUGH_APIS, RecordSettings
from projector.server.config.config_base import parts_of
from projector.server.config.loading import Problems, SettingsError
from projector.server.config.settings import Settings, secret_warnings
from projector.server.config.upstream_settings import Tls, UpstreamSettings, UpstreamTls
from projector.server.listening import check_addresses

_SQLITE: Final = b"SQLite format 3\0"
"""How a database of SQLite begins."""
_SQLITE_HEAD_BYTES: Final = 100
_USER_VERSION: Final = slice(60, 64)
"""Where the head has the version of its tables; 0 in a new file."""
_PROXY_VARIABLES: Final = ("HTTPS_PROXY", "https_proxy")
_KEYED_HOSTS: Final = ("api.openai.com", ".openai.azure.com")
"""Ends of the names of hosts that refuse every request without a key."""


def check_system(settings: Settings) -> None:
    """Raise `SettingsError` with each setting that this system cannot provide."""
    problems = Problems()
    for check in _checks(settings):
        with problems.collected():
            check()
    if problems:
        raise problems.error()


def _checks(settings: Settings) -> Iterator[Callable[[], object]]:
    yield partial(_check_memory, settings)
    for path, upstream in _upstreams(settings):
        yield partial(_check_timeouts, path, upstream, settings)
    yield partial(check_addresses, settings)
    if settings.store.path is not None:
        yield partial(_check_database, "store.path", settings.store.path)
    for path, record in parts_of(settings, RecordSettings):
        yield partial(_check_folder, f"{path}.folder", record.folder)
    for path, policy in parts_of(settings, Policy):
        yield partial(_check_samples, path, policy)
    for path, tls in _tls_tables(settings):
        from projector.server.tls import context_of  # noqa: PLC0415 - a start without it is faster

        yield partial(context_of, tls, path)


def lacks_key(settings: Settings) -> bool:
    """Return whether the only upstream is the OpenAI API and has no key, so that it refuses every request."""
    return not settings.upstreams and settings.api_key is None and "api.openai.com" in settings.base_url


def warnings(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each setting that works, but that an operator should look at."""
    named = settings.agents or settings.models or any(map(settings.passthrough_upstreams, PASSTHROUGH_APIS))
    if settings.upstreams and not named:
        yield "no stream is configured: expected a table `[agents.NAME]` or `[passthrough]`"
    for path, upstream in _upstreams(settings):
        url = urlsplit(upstream.base_url)
        if url.path in {"", "/"}:
            yield f"`{path}base_url` has no path: most servers of this API need `/v1`"
        host = url.hostname or ""
        if host.endswith(_KEYED_HOSTS) and not _has_secret(upstream):
            variable = "" if path else ", from the variable OPENAI_API_KEY"
            yield f"`{path}api_key` is not set{variable}: {host} refuses every request without a key"
        if _has_secret(upstream) and _is_plain(upstream.base_url):
            yield f"`{path}base_url`: the key is sent unencrypted; use https:// for another machine"
    jwt = settings.auth.jwt
    if jwt is not None and jwt.jwks_url is not None and _is_plain(jwt.jwks_url):
        yield "`auth.jwt.jwks_url`: the keys are fetched unencrypted, and can be replaced on the way; use https://"
    yield from _proxy_warnings(settings)
    if settings.trusted_proxies and not settings.auth.is_on:
        yield "`trusted_proxies` is set, and `auth` has no callers: everyone who reaches the proxies has access"
    yield from secret_warnings(settings)
    for path, tls in _tls_tables(settings):
        from projector.server.tls import certificate_warnings  # noqa: PLC0415 - a start without it is faster

        yield from certificate_warnings(tls, path)


def _proxy_warnings(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each server that other programs would ask by the proxy of the environment."""
    for path, upstream in _upstreams(settings):
        if upstream.proxy is None and _has_unread_proxy(upstream.base_url):
            host = urlsplit(upstream.base_url).hostname
            yield f"`{path}proxy` is not set, and the variable HTTPS_PROXY is not read: {host} is asked directly"
    jwt = settings.auth.jwt
    if jwt is not None and _has_unread_proxy(jwt.jwks_url or ""):
        yield "`auth.jwt.jwks_url`: the variable HTTPS_PROXY is not read: without a direct way, use `jwks_file`"


def certificate_ends(settings: Settings) -> Iterator[tuple[str, float]]:
    """Yield each setting with a certificate, and when that expires, in seconds since 1970."""
    for path, tls in _tls_tables(settings):
        from projector.server.tls import certificate_ends  # noqa: PLC0415 - a start without it is faster

        yield from certificate_ends(tls, path)


def _check_samples(path: str, policy: Policy) -> None:
    """Raise `SettingsError` if a sample in the policy's own rule files is not treated as its entry expects."""
    if policy.rules:
        from projector.redaction.explain import check_samples  # noqa: PLC0415 - needed with own rules only
        from projector.redaction.rule_files import read  # noqa: PLC0415

        for file in policy.rules:
            if errors := [f"`{path}.rules`: {file.name}: {error}" for error in check_samples(read(file), policy)]:
                raise SettingsError("\n".join(errors[:FIELDS_MAX]))


def _upstreams(settings: Settings) -> Iterator[tuple[str, UpstreamSettings]]:
    """Yield each upstream with the path of its settings."""
    for name, upstream in settings.all_upstreams.items():
        yield f"upstreams.{name}." if settings.upstreams else "", upstream


def _tls_tables(settings: Settings) -> Iterator[tuple[str, Tls]]:
    """Yield each table with TLS settings, and its path."""
    yield from ((path, tls) for path, tls in parts_of(settings, Tls) if tls != UpstreamTls())
    store = settings.store if settings.store.url is not None else None  # another kind has no connection
    for path, table in (("auth.jwt", settings.auth.jwt), ("store", store)):
        if table is not None and table.ca_file is not None:
            yield path, UpstreamTls(ca_file=table.ca_file)


def _has_secret(upstream: UpstreamSettings) -> bool:
    """Return whether requests to an upstream contain a secret; values that may be one are `SecretStr`."""
    values = (upstream.api_key, *upstream.headers.values(), *upstream.query.values())
    return any(isinstance(value, SecretStr) for value in values)


def _has_unread_proxy(url: str) -> bool:
    """Return whether the environment names a proxy for a URL, which other programs would use."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not any(os.environ.get(name) for name in _PROXY_VARIABLES):
        return False
    from urllib.request import proxy_bypass  # noqa: PLC0415 - a start without it is faster

    return not proxy_bypass(parts.hostname or "")


def _is_plain(url: str) -> bool:
    """Return whether requests to a URL leave this machine unencrypted. A private network counts as another machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    return parts.scheme == "http" and not is_here


def _check_memory(settings: Settings) -> None:
    limits = settings.limits
    if limits.max_memory_bytes < limits.max_body_bytes:
        raise SettingsError(
            f"`limits.max_memory_bytes` must be at least `limits.max_body_bytes` ({limits.max_body_bytes}):"
            " one request may need as much"
        )


def _check_timeouts(path: str, upstream: UpstreamSettings, settings: Settings) -> None:
    """Raise `SettingsError` if a time-out for the first byte was set that can never be reached."""
    timeouts, own = settings.timeouts_of(upstream), upstream.timeouts.model_fields_set
    if "first_byte_s" in own | settings.timeouts.model_fields_set and timeouts.first_byte_s > timeouts.total_s:
        first, total = (f"{path if name in own else ''}timeouts.{name}" for name in ("first_byte_s", "total_s"))
        raise SettingsError(f"`{first}` must be at most `{total}` ({timeouts.total_s:g})")


def _check_folder(name: str, folder: Path) -> None:
    """Raise `SettingsError` if a folder cannot be written to, or not be created."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise SettingsError(f"`{name}`: {nearest} is not a folder")
    try:
        with TemporaryDirectory(dir=nearest):  # an administrator may write anywhere, but not in `/proc`
            pass
    except OSError:
        raise SettingsError(f"`{name}`: {nearest} is not writable") from None


def _check_database(name: str, file: Path) -> None:
    """Raise `SettingsError` if there is something else than a file of SQLite, or none can be created."""
    if not file.exists():
        _check_folder(name, file.parent)
        return
    if not file.is_file():  # reading from a FIFO would wait
        raise SettingsError(f"`{name}`: {file} is not a file")
    try:
        with file.open("rb") as opened:
            head = opened.read(_SQLITE_HEAD_BYTES)
    except OSError as error:
        raise SettingsError(f"`{name}`: {file}: {file_problem(error)}") from None
    if head and not head.startswith(_SQLITE):
        raise SettingsError(f"`{name}`: {file} is not a database: move it away to start with an empty store")
    from projector.store.sqlite_tables import version_problem  # noqa: PLC0415 - needed with this store only

    if (found := version_problem(int.from_bytes(head[_USER_VERSION]))) is not None:
        raise SettingsError(f"`{name}`: {file}: {found}")

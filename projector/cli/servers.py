"""Commands about servers: start one, check that one is up, check and print its configuration."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from projector._errors import UsageError, missing_package
from projector.cli.terminal import write_out

if TYPE_CHECKING:
    from http.client import HTTPConnection

_PORTS: Final = {"http": 80, "https": 443}
_KEY_BYTES: Final = 32
_OWNER_ONLY: Final = 0o600
_HEALTH_PATH: Final = "/livez"
_HEALTH_TIMEOUT_S: Final = 2.0
"""Seconds to wait for a response; a server that takes longer cannot serve streams either."""


def demo(arguments: argparse.Namespace) -> int:
    """Serve recorded examples."""
    _end_on_signal()
    return _run(server_module("process").demo_flags(arguments.port), None, is_demo=True)


def serve(arguments: argparse.Namespace) -> int:
    """Serve the configured upstreams, with several worker processes if they are requested."""
    _end_on_signal()
    if (reload := getattr(signal, "SIGHUP", None)) is not None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {reload})  # it waits for its handler, and would end the process
    flags = {"host": arguments.host, "port": arguments.port}
    if arguments.workers == 1:
        return _run(flags, arguments.config, is_demo=False)
    workers, settings = server_module("workers"), load_settings(arguments.config, flags)
    workers.check_workers(arguments.workers, settings)
    options = {"--config": arguments.config, "--host": arguments.host, "--port": arguments.port}
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    status: int = workers.run_workers(settings, ["serve", *given], arguments.workers)
    return status


def _end_on_signal() -> None:
    """Have SIGTERM end the start: the first process of a container does not get signals without a handler."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))


def health(arguments: argparse.Namespace) -> int:
    """Check that a server is up."""
    failure = health_failure(arguments.url)
    print("Server is up." if failure is None else failure)
    return 0 if failure is None else 1


def check_config(arguments: argparse.Namespace) -> int:
    """Check a configuration; an invalid one raises."""
    settings = load_settings(arguments.file)
    server_module("app").create_app(settings)  # whatever it refuses would stop a start
    for reason in server_module("config.preflight").warnings(settings):
        print(f"warning: {reason}", file=sys.stderr)
    _describe_store(settings)
    print("Configuration is valid." if arguments.file else "Configuration is valid; no file was read, only variables.")
    return 0


def _describe_store(settings: Any) -> None:
    """Print what the URL of the store leads to. A server starts without it, so it is no error that it is away."""
    import asyncio  # noqa: PLC0415 - the other commands do not need it

    from projector.store.protocol import StoreUnavailableError  # noqa: PLC0415 - the same

    async def describe() -> None:
        async for found in server_module("app").check_store(settings):
            print(f"`store.url` leads to {found}.")

    try:
        asyncio.run(describe())
    except StoreUnavailableError as error:
        print(f"warning: `store.url`: {error}", file=sys.stderr)


def print_config(arguments: argparse.Namespace) -> int:
    """Print the settings in effect."""
    loaded = server_module("config.loading").read(os.environ, config=_path(arguments.file))
    write_out(server_module("config.config_dump").to_toml(loaded).encode())  # TOML is UTF-8
    return 0


def make_keys(arguments: argparse.Namespace) -> int:
    """Make a key for each caller: the hashes are a table for the configuration, the keys are written apart from it."""
    check = server_module("config.config_base").NAME.func
    keys = {check(name): secrets.token_urlsafe(_KEY_BYTES) for name in arguments.names}
    hand_out = "".join(f"{name} {key}\n" for name, key in keys.items())
    if arguments.out is None:
        print(hand_out, end="", file=sys.stderr)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(arguments.out, flags, _OWNER_ONLY), "w", encoding="utf-8") as file:  # noqa: PTH123 - `Path.open` has no mode of a new file
            file.write(hand_out)
    print("[auth.api_keys]")
    for name, key in keys.items():
        print(f'{name} = "sha256:{hashlib.sha256(key.encode()).hexdigest()}"')
    return 0


def server_module(name: str) -> Any:
    """Import a module of `projector.server`; raise `UsageError` if the `server` extra is not installed."""
    try:
        return importlib.import_module(f"projector.server.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(missing_package(error.name, "server")) from None


def load_settings(config: str | None, flags: Mapping[str, object] | None = None) -> Any:
    """Return the settings of a configuration file, the environment and flags, as a server can use them on this system.

    Raises `SettingsError` if they are invalid.
    """
    settings = server_module("config.loading").load(os.environ, flags, _path(config))
    server_module("config.preflight").check_system(settings)
    return settings


def serving_settings(config: str | None, flags: Mapping[str, object] | None = None) -> Any:
    """Return the settings with which a server of the command line serves.

    Without authentication, and no reverse proxy, it serves local hosts only: a web page that makes its own name resolve
    to a loopback address could use the server through the browser of a person here.
    """
    settings = load_settings(config, flags)
    if settings.auth.is_on or settings.allowed_hosts or settings.trusted_proxies:
        return settings
    return settings.model_copy(update={"allowed_hosts": ("local",)})


def health_failure(url: str) -> str | None:
    """Return why the server of a URL is not up, None if it is.

    Proxies of the environment are not used. The certificate of an https URL is not checked: it is that of a public
    name, while this command asks on the same machine, and sends no secret.
    """
    from http.client import HTTPException  # noqa: PLC0415 - the other commands do not need it

    scheme, host, port = _address(url)
    where = f"{_HEALTH_PATH} of {host}, port {port}"
    with closing(_connection(scheme, host, port)) as server:
        try:
            server.request("GET", _HEALTH_PATH)
            status = server.getresponse().status
        except (OSError, HTTPException) as error:
            known = "timed out" if isinstance(error, TimeoutError) else getattr(error, "strerror", None)
            reason = known or type(error).__name__
            is_closed = isinstance(error, ConnectionResetError | HTTPException)  # as a server with TLS does
            hint = _tls_hint(host, port) if is_closed and scheme == "http" else ""
            return f"{where}: no response: {reason}{hint}"
    return None if status == HTTPStatus.OK else f"{where}: expected 200, got {status}"


def _tls_hint(host: str, port: int) -> str:
    """Return a hint at https if a server accepts TLS, empty otherwise."""
    with closing(_connection("https", host, port)) as server:
        try:
            server.connect()
        except OSError:
            return ""
    return f"; it expects TLS: use https://{f'[{host}]' if ':' in host else host}:{port}"


def _address(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - the other commands do not need it

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        host, port = None, None
    if host is None or port is None:
        raise UsageError("expected the URL of a server, like http://127.0.0.1:8000")
    return parts.scheme, host, port


def _connection(scheme: str, host: str, port: int) -> HTTPConnection:
    """Return a connection that is not open yet."""
    import ssl  # noqa: PLC0415 - the other commands do not need it
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415

    if scheme == "http":
        return HTTPConnection(host, port, timeout=_HEALTH_TIMEOUT_S)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=_HEALTH_TIMEOUT_S, context=context)


def _run(flags: Mapping[str, object], config: str | None, *, is_demo: bool) -> int:
    read = partial(serving_settings, config, flags)
    server_module("process").run(read(), None if is_demo else read, demo=is_demo)
    return 0


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)

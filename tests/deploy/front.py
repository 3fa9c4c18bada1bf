"""nginx with deploy/nginx.conf, in front of servers."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, NamedTuple

from bench.redis_server import free_port
from tests.deploy.browser import listening
from tests.deploy.image import ROOT
from tests.waiting import wait_until

SNIPPET: Final = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
REPLICAS: Final = (ROOT / "deploy" / "nginx-replicas.conf").read_text(encoding="utf-8")
_SERVER: Final = re.compile(r"server [\w.-]+:8000;")
"""A server of the file."""
TLS_LINES: Final = [line for line in SNIPPET.splitlines() if line.startswith("    #") and line.split("#")[1][:1] != " "]
"""Lines that are commented out."""
_AROUND: Final = """
{user}
daemon off;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on;                      # as a site may have it; the snippet must hold all the same
    gzip_proxied any;
    gzip_min_length 1;
    gzip_types *;
    include {folder}/projector.conf;
}}
"""


class Ports(NamedTuple):
    """Ports of nginx: the one of the file, HTTP/2 without TLS, and the one of the commented lines, HTTP/2 with TLS."""

    plain: int
    h2c: int
    tls: int


def put(text: str, old: str, new: str) -> str:
    """Replace a text that the file has once."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


async def take_out(nginx: str, folder: Path, port: int) -> None:
    """Mark a server of a running nginx as down, and wait until no worker sends it new requests."""
    conf = (folder / "projector.conf").read_text(encoding="utf-8")
    server = f"server 127.0.0.1:{port}"
    (folder / "projector.conf").write_text(put(conf, f"{server};", f"{server} down;"), encoding="utf-8")
    master = (folder / "pid").read_text(encoding="ascii").strip()
    workers = children(master)
    command = [nginx, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log", "-s", "reload"]
    subprocess.run(command, check=True)  # noqa: ASYNC221 - it returns at once
    await wait_until(lambda: not any(_accepts(worker) for worker in workers))


def children(pid: str) -> list[str]:
    """Return the processes that a process has started."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()


def _accepts(worker: str) -> bool:
    """Return whether a worker of nginx accepts connections; its title tells."""
    try:
        return b"shutting down" not in Path(f"/proc/{worker}/cmdline").read_bytes()
    except OSError:
        return False


@contextlib.asynccontextmanager
async def running(
    nginx: str,
    folder: Path,
    *servers: int,
    silence_s: int = 60,
    certificate: tuple[Path, Path] | None = None,
    snippet: str = SNIPPET,
) -> AsyncGenerator[Ports, None]:
    """Run nginx in front of servers on these ports; with a certificate, the commented lines are in effect."""
    ports = Ports(free_port(), free_port(), free_port())
    listens = f"listen 127.0.0.1:{ports.plain};"
    if certificate is not None:
        listens += f" listen 127.0.0.1:{ports.h2c} http2;"
    conf = put(snippet, "listen 8080;", listens)
    first, *others = _SERVER.findall(conf)
    for other in others:
        conf = put(conf, other, "")
    conf = put(conf, first, " ".join(f"server 127.0.0.1:{one};" for one in servers))
    conf = put(conf, "/var/log/nginx/access.log", str(folder / "access.log"))
    conf = put(conf, "proxy_read_timeout 60s;", f"proxy_read_timeout {silence_s}s;")
    if certificate is not None:
        for line in TLS_LINES:
            conf = put(conf, line, line.replace("#", "", 1))
        conf = put(conf, "listen 8443 ", f"listen 127.0.0.1:{ports.tls} ")
        conf = put(conf, "/etc/nginx/tls/site.pem", str(certificate[0]))
        conf = put(conf, "/etc/nginx/tls/site-key.pem", str(certificate[1]))
    (folder / "projector.conf").write_text(conf, encoding="utf-8")
    user = "user root;" if os.geteuid() == 0 else ""  # another could not enter the folder
    (folder / "nginx.conf").write_text(_AROUND.format(folder=folder, user=user), encoding="utf-8")
    command = [nginx, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
    with subprocess.Popen(command) as process:  # noqa: ASYNC220 - it returns at once
        try:
            for port in ports if certificate is not None else ports[:1]:  # nginx opens one after the other
                await listening(port, lambda: process.poll() is not None)
            yield ports
        finally:
            process.terminate()

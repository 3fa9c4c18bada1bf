"""The programs of `bench/compare.py`: servers that forward requests of the Chat API to a provider on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from proxy import Site
from redis_server import free_port

INSTALLED: Final = Path(__file__).parent.parent / ".compare" / "bin"
NGINX: Final = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr crit;
events { worker_connections 4096; }
http {
    access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u;
    scgi_temp_path s;
    upstream provider { server 127.0.0.1:%(provider)d; keepalive 64; }
    server {
        listen 127.0.0.1:%(port)d;
        location / {
            proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_buffering off; proxy_read_timeout %(silence_s)ds; proxy_next_upstream off;
        }
    }
}
"""
LITELLM: Final = """
model_list:
  - model_name: m
    litellm_params: {model: openai/m, api_base: "http://127.0.0.1:%(provider)d/v1", api_key: none}
litellm_settings: {telemetry: false, request_timeout: %(silence_s)d, num_retries: 0}
router_settings: {disable_cooldowns: true}
"""
FILTER: Final = """
guardrails:
  - guardrail_name: answers
    litellm_params:
      guardrail: litellm_content_filter
      mode: post_call
      default_on: true
      patterns:
"""
FILTERED: Final = (
    "aws_access_key",
    "aws_secret_key",
    "github_token",
    "slack_token",
    "generic_api_key",
    "credit_card",
)
"""Patterns of LiteLLM's own content filter: all of its credentials, and cards."""
FILTER_ROW: Final = "        - {pattern_type: prebuilt, pattern_name: %s, action: MASK}\n"
ENVIRON: Final = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "PYTHONPATH": "",
}
"""For LiteLLM: no authentication, as in the others, no download at the start, and no log of requests."""
OURS: Final = "forwarding"
FLOOR: Final = "pass-through"
LABELS: Final = {
    OURS: "this server",
    "router": "sglang-router",
    "litellm": "LiteLLM",
    "filter": "LiteLLM with its content filter",
}


def _nginx(folder: Path, values: Mapping[str, int]) -> list[str]:
    (folder / "nginx.conf").write_text(NGINX % values, encoding="ascii")
    return [shutil.which("nginx") or "nginx", "-p", str(folder), "-c", "nginx.conf"]


def _litellm(folder: Path, values: Mapping[str, int], guardrails: str = "") -> list[str]:
    file = folder / f"litellm-{values['port']}.yaml"
    file.write_text(LITELLM % values + guardrails, encoding="ascii")
    options = {"config": file, "host": "127.0.0.1", "port": values["port"], "num_workers": 1}
    return [str(INSTALLED / "litellm"), *(f"--{name}={value}" for name, value in options.items())]


def _filter(folder: Path, values: Mapping[str, int]) -> list[str]:
    return _litellm(folder, values, FILTER + "".join(FILTER_ROW % name for name in FILTERED))


def _router(_: Path, values: Mapping[str, int]) -> list[str]:
    options = {
        "host": "127.0.0.1",
        "port": values["port"],
        "prometheus-port": free_port(),
        "backend": "openai",
        "worker-urls": f"http://127.0.0.1:{values['provider']}",
        "request-timeout-secs": values["silence_s"],
        "history-backend": "none",
        "log-level": "error",
    }
    command = [str(INSTALLED / "smg"), "launch", "--disable-circuit-breaker", "--disable-retries"]
    return [*command, *(f"--{name}={value}" for name, value in options.items())]


COMMANDS: Final[Mapping[str, Callable[[Path, Mapping[str, int]], list[str]]]] = {
    "nginx": _nginx,
    "router": _router,
    "litellm": _litellm,
    "filter": _filter,
}
"""Program -> what writes its configuration into a folder and returns its command."""


def installed() -> list[str]:
    """Return the programs that can be started here."""
    has = {"nginx": shutil.which("nginx"), "router": (INSTALLED / "smg").exists()}
    has |= dict.fromkeys(("litellm", "filter"), (INSTALLED / "litellm").exists())
    names = ("nginx", FLOOR, "router", OURS, "litellm", "filter")
    return [name for name in names if has.get(name, True)]


class Program(Site):
    """A server of another project, or of this one, that forwards requests of the Chat API.

    It ends a stream, if it can, when the provider is silent for some seconds. None stops its requests to a provider
    that failed before, so that each request meets its own fault.
    """

    def __init__(self, name: str, provider: int, folder: Path, silence_s: int) -> None:
        if name == FLOOR:
            super().__init__(name, provider)
        elif name == OURS:
            super().__init__(name, provider, silence_s)
        else:
            self.port = free_port()
            command = COMMANDS[name](folder, {"port": self.port, "provider": provider, "silence_s": silence_s})
            quiet = subprocess.DEVNULL
            self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=os.environ | ENVIRON)  # noqa: S603 - our own arguments
            self.wait(name)

    def request(self, what: str, agent: str, query: str) -> bytes:  # noqa: ARG002 - the parameters of the base class
        """Return a request of the Chat API."""
        body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%b"}]}' % what.encode()
        return (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"authorization: Bearer none\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )

    def stop(self) -> None:
        """End the process; some wait for their streams, which a silent provider keeps open."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

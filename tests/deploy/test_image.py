"""The image without a container engine: the steps of the Dockerfile were run in a folder, and the result is started."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pytest

from projector.cli.servers import health_failure
from tests.asgi.conftest import Answer, request_bytes
from tests.deploy.image import ROOT, WORKDIR, dockerfile

BUILD, FINAL = dockerfile()
KEY: Final = "key-of-the-frontend"
CALLERS: Final = {"PROJECTOR_AUTH__API_KEYS": f'{{"page": "sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"}}'}
CREATED: Final = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
ENDED: Final = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}


def test_the_second_stage_takes_nothing_but_the_environment() -> None:
    assert BUILD.source == f"{FINAL.source} AS build"
    assert BUILD.one("WORKDIR") == WORKDIR
    assert [step.name for step in FINAL.steps] == ["COPY", "ENV", "LABEL", "USER", "EXPOSE", "HEALTHCHECK", "CMD"]
    assert FINAL.one("COPY") == "--from=build /opt/projector /opt/projector"
    assert FINAL.one("USER") == "10001:10001"


def test_packages_are_installed_with_their_hashes() -> None:
    installs = re.findall(r"install ([^&]*)", " ".join(step.text for step in BUILD.steps if step.name == "RUN"))
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes -r requirements/" in install or "--no-deps dist/*.whl" in install


def test_the_builder_is_sent_what_is_copied_and_no_more() -> None:
    copied = {source.rstrip("/") for step in BUILD.steps if step.name == "COPY" for source in step.text.split()[:-1]}
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith(("#", "!"))] == ["*", "**/__pycache__"]
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == copied


def test_one_port_is_exposed_served_and_probed() -> None:
    command = FINAL.argv("CMD")
    assert command[:2] == ["projector", "serve"]
    assert command[command.index("--port") + 1] == FINAL.one("EXPOSE")
    assert FINAL.argv("HEALTHCHECK") == ["projector", "health", f"http://127.0.0.1:{FINAL.one('EXPOSE')}"]


@pytest.fixture
def environment(image: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of the image, with its folders where the steps put them."""
    environ = dict(pair.split("=", 1) for pair in FINAL.one("ENV").split())
    path = environ.pop("PATH").replace("/opt/", f"{image}/opt/").replace("$PATH", os.defpath)
    return {**environ, "PATH": path, "HOME": str(tmp_path)}


def program(environment: dict[str, str], argv: list[str]) -> list[str]:
    """Return a command with its program as the environment's PATH finds it."""
    found = shutil.which(argv[0], path=environment["PATH"])
    assert found is not None
    return [found, *argv[1:]]


@contextlib.asynccontextmanager
async def running(environment: dict[str, str], cwd: Path) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int]]:
    """Run the command of the image on a free port; yield the process and the port."""
    command = program(environment, [*FINAL.argv("CMD"), "--port", "0"])
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=environment, cwd=cwd
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        match = re.fullmatch(r"Serving on http://0\.0\.0\.0:(\d+)\n", line)
        assert match is not None, line
        yield process, int(match[1])
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def ask(port: int, **headers: str) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("/api/v1/chat/stream", {"message": "hello"}, **headers))
    answer = Answer(reader, writer)
    await answer.read_head()
    return answer


def state(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if not path.is_symlink()}


async def test_what_the_image_holds_is_served_and_ends_well(
    environment: dict[str, str], image: Path, tmp_path: Path, upstream: Any, upstream_port: int
) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        await may_end.wait()
        await peer.event(ENDED)
        await peer.end()

    may_end = asyncio.Event()
    await upstream(script)
    before = state(image / "opt"), state(tmp_path)
    provider = {"OPENAI_BASE_URL": f"http://127.0.0.1:{upstream_port}/v1", "OPENAI_API_KEY": "sk-test"}
    async with running({**environment, **provider, **CALLERS}, tmp_path) as (process, port):
        health = program(environment, [*FINAL.argv("HEALTHCHECK")[:-1], f"http://127.0.0.1:{port}"])
        probe = await asyncio.create_subprocess_exec(*health, env=environment, stdout=asyncio.subprocess.DEVNULL)
        assert await probe.wait() == 0
        refused = await ask(port)
        assert refused.status == 401
        await refused.closed()
        answer = await ask(port, authorization=f"Bearer {KEY}")
        assert answer.status == 200
        assert b'"kind":"lifecycle"' in await answer.chunk()
        process.send_signal(signal.SIGTERM)
        may_end.set()
        frames = await answer.frames()
        assert frames[-1]["final"]["status"] == "completed"
        await answer.closed()
        assert await asyncio.wait_for(process.wait(), 60) == 0
        assert health_failure(f"http://127.0.0.1:{port}") is not None
    assert (state(image / "opt"), state(tmp_path)) == before, "the image's file system is read-only"


def test_without_callers_it_does_not_start(environment: dict[str, str], tmp_path: Path) -> None:
    command = program(environment, FINAL.argv("CMD"))
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "callers are configured in `auth`" in done.stderr


def test_the_image_holds_no_package_that_is_not_locked(image: Path) -> None:
    (packages,) = image.glob("opt/projector/lib/*/site-packages")
    held = {(one.name.lower().replace("_", "-"), one.version) for one in metadata.distributions(path=[str(packages)])}
    locked = re.findall(r"^([\w.-]+)==([^ ;\\]+)(.*)", (ROOT / "requirements/server.txt").read_text(), re.MULTILINE)
    own = ("public-stream-projector", metadata.version("public-stream-projector"))
    assert {(name, version) for name, version, rest in locked if ";" not in rest} | {own} <= held
    assert held <= {(name, version) for name, version, _ in locked} | {own}

"""`make sbom`: the bill lists what the lock file pins, in CycloneDX, and is the same each time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema_rs
import pytest

from tests.deploy.image import ROOT

LOCK: Final = (ROOT / "requirements" / "server.txt").read_text(encoding="utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run() -> bytes:
    return subprocess.run([sys.executable, ROOT / "deploy" / "sbom.py"], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def text() -> bytes:
    return run()


@pytest.fixture(scope="module")
def bill(text: bytes) -> dict[str, Any]:
    document = json.loads(text)
    assert isinstance(document, dict)
    return document


def test_make_calls_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(
        r"^sbom: .*\n\tmkdir -p dist\n\t\$\(BIN\)/python deploy/sbom.py > dist/\S+\n", makefile, re.MULTILINE
    )


def test_it_is_the_same_each_time(text: bytes) -> None:
    assert run() == text
    assert not {b"timestamp", b"serialNumber"} & set(re.findall(rb'"(\w+)":', text))


def test_it_is_cyclonedx(bill: dict[str, Any]) -> None:
    folder = resources.files("cyclonedx.schema") / "_res"
    files = [f"{name}.SNAPSHOT.schema.json" for name in ("spdx", "jsf-0.82", f"bom-{bill['specVersion']}")]
    schemas = [(f"http://cyclonedx.org/schema/{name}", json.loads((folder / name).read_bytes())) for name in files]
    registry = jsonschema_rs.Registry(schemas)
    jsonschema_rs.validator_for(schemas[-1][1], registry=registry).validate(bill)


def test_it_lists_what_is_locked(bill: dict[str, Any]) -> None:
    locked = re.findall(r"^([\w.-]+)==([^ ;\\]+)(.*)", LOCK, re.MULTILINE)
    assert {(one["name"], one["version"], one["scope"]) for one in bill["components"]} == {
        (name, version, "optional" if ";" in rest else "required") for name, version, rest in locked
    }
    files = [file for one in bill["components"] for file in one["externalReferences"]]
    hashes = [found["content"] for file in files for found in file["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:(\w+)", LOCK))


def test_it_lists_which_package_requires_which(bill: dict[str, Any]) -> None:
    graph = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert graph.keys() == {one["bom-ref"] for one in bill["components"]} | {PROJECT["name"]}
    extras = [PROJECT["optional-dependencies"][name] for name in ("server", "redis")]
    required = [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]
    names = {re.split(r"[\[>=;]", one)[0] for one in required}
    assert {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in graph[PROJECT["name"]]} == names
    reached: set[str] = set()
    waiting = [PROJECT["name"]]
    while waiting:
        reached.add(ref := waiting.pop())
        waiting += [one for one in graph[ref] if one not in reached]
    assert reached == graph.keys()


def test_it_names_no_host_but_its_schemas(text: bytes) -> None:
    assert {urlsplit(url).hostname for url in re.findall(r'https?://[^"]*', text.decode())} == {"cyclonedx.org"}

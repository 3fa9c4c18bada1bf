"""The bill of materials of the image in CycloneDX JSON: the packages of the lock file, their hashes and dependents.

As a program it writes to standard output. The output depends only on the lock file: it has no time, no serial number
and no registry host.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements" / "server.txt"
TOOL: Final = "cyclonedx-python-lib"

_PIN: Final = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?P<marker> ;)?")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA: Final = re.compile(r"^    #(?:   | via )(?P<parent>[\w.-]+)", re.MULTILINE)


class Pin(NamedTuple):
    """One package of the lock file."""

    name: str
    version: str
    is_everywhere: bool
    """False if a marker excludes it on some systems."""
    hashes: list[str]
    parents: list[str]
    """Packages that depend on it, including this project."""


def pins(lock: str) -> Iterator[Pin]:
    """Yield the packages of a lock file written by uv, in order."""
    for block in re.split(r"\n(?=\S)", lock.strip()):
        match = _PIN.match(block)
        if match is None:
            raise ValueError("requirements: expected `name==version` at the start of each block")
        hashes, parents = _HASH.findall(block), _VIA.findall(block)
        yield Pin(match["name"], match["version"], match["marker"] is None, hashes, parents)


def bill(lock: str, project: dict[str, str]) -> Bom:
    """Return the bill of materials of a project and its lock file.

    Args:
        lock: text of the lock file.
        project: the table `project` of pyproject.toml.
    """
    root = Component(
        name=project["name"],
        version=project["version"],
        description=project["description"],
        licenses=[DisjunctiveLicense(id=project["license"])],
        type=ComponentType.APPLICATION,
        bom_ref=project["name"],
    )
    pinned = list(pins(lock))
    components = {project["name"]: root} | {pin.name: _component(pin) for pin in pinned}
    bom = Bom(components=[components[pin.name] for pin in pinned])
    bom.metadata.component = root
    bom.metadata.tools.components.add(Component(name=TOOL, version=metadata.version(TOOL), type=ComponentType.LIBRARY))
    for name, component in components.items():
        bom.register_dependency(component, [components[pin.name] for pin in pinned if name in pin.parents])
    return bom


def _component(pin: Pin) -> Component:
    url = PackageURL("pypi", name=pin.name, version=pin.version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(url.to_string()),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=content) for content in pin.hashes],
    )
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED if pin.is_everywhere else ComponentScope.OPTIONAL,
        purl=url,
        bom_ref=url.to_string(),
        external_references=[files],
    )


def written(bom: Bom) -> str:
    """Return a bill as JSON, without the time and serial number that the library adds."""
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sys.stdout.write(written(bill(LOCK.read_text(encoding="utf-8"), described["project"])))

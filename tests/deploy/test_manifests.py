"""deploy/compose.yaml and deploy/kubernetes.yaml against the code: ports, paths, times, settings, and the image."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]  # its types are another package
from pydantic import SecretStr

from projector.cli.commands import build_parser
from projector.server.config.loading import load
from projector.server.config.setting_names import variables
from projector.server.config.settings import Settings
from projector.server.process import CLOSE_S
from projector.server.streaming.registry import LAST_WORDS_S
from projector.store.protocol import StoreLimits
from tests.deploy.image import ROOT, dockerfile

DEPLOY: Final = ROOT / "deploy"
FINAL: Final = dockerfile()[-1]
PORT: Final = int(FINAL.one("EXPOSE"))
ENDING_S: Final = Settings().drain_timeout_s + LAST_WORDS_S + CLOSE_S
"""The longest time from SIGTERM to the end of a server."""

COMPOSE: Final = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
KUBERNETES_TEXT: Final = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
KUBERNETES: Final = {document["kind"]: document for document in yaml.safe_load_all(KUBERNETES_TEXT)}
POD: Final = KUBERNETES["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
SECRETS: Final = {"openai-api-key": "sk-of-the-secret", "redis-url": "rediss://user:password@redis.example:6379/0"}
REPLICAS: Final = yaml.safe_load((DEPLOY / "compose-replicas.yaml").read_text(encoding="utf-8"))


def parsed(command: list[str]) -> argparse.Namespace:
    """Return the parsed arguments of a command line."""
    assert command[0] == "projector"
    return build_parser().parse_args(command[1:])


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


# the page


def test_the_page_names_what_there_is() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    files = re.findall(r"`((?:deploy|tests)/[\w./-]+)`", page) + re.findall(r"\]\(([\w./-]+)\)", page)
    assert [name for name in files if not (ROOT / name).exists() and not (ROOT / "docs" / name).exists()] == []
    listed = {path.relative_to(ROOT).as_posix() for path in DEPLOY.iterdir() if path.name != "__pycache__"}
    assert listed <= set(files)
    assert set(re.findall(r"`(PROJECTOR_\w+)`", page)) <= set(variables())
    frontend = "".join(path.read_text(encoding="utf-8") for path in (DEPLOY / "nextjs" / "lib").iterdir())
    assert set(re.findall(r"process\.env\.(\w+)", frontend)) <= set(re.findall(r"`(\w+)`", page))


# compose


def test_compose_builds_the_image_and_serves_the_demo() -> None:
    service = COMPOSE["services"]["projector"]
    assert (DEPLOY / service["build"] / "Dockerfile").is_file()
    command = parsed(service["command"])
    assert command.run == "servers:demo"
    assert command.port is None, "the health check and nginx ask at the port of the settings"
    assert Settings().port == PORT
    assert seconds(service["stop_grace_period"]) >= ENDING_S


def test_compose_publishes_nginx_at_the_address_that_the_demo_prints() -> None:
    nginx = COMPOSE["services"]["nginx"]
    assert nginx["network_mode"] == "service:projector"
    assert nginx["depends_on"] == {"projector": {"condition": "service_healthy"}}
    (published,) = COMPOSE["services"]["projector"]["ports"]
    address, host_port, port = published.split(":")
    assert (address, int(host_port)) == (Settings().host, Settings().port), "where the printed curl line asks"
    (volume,) = nginx["volumes"]
    source, target, mode = volume.split(":")
    assert (target.startswith("/etc/nginx/conf.d/"), mode) == (True, "ro")
    conf = (DEPLOY / source).read_text(encoding="utf-8")
    assert f"listen {port};" in conf
    assert f"server {Settings().host}:{Settings().port};" in conf


# compose with two servers


def test_replicas_have_one_configuration_that_can_be_served(tmp_path: Path) -> None:
    services = REPLICAS["services"]
    assert services["projector-1"] == services["projector-2"]
    service = services["projector-1"]
    command = parsed(service["command"])
    assert command.run == "servers:serve"
    assert (command.host, command.port) == ("0.0.0.0", PORT)  # noqa: S104 - in a network of containers
    assert seconds(service["stop_grace_period"]) >= ENDING_S
    (config,) = service["configs"]
    assert config["target"] == command.config
    text = REPLICAS["configs"][config["source"]]["content"].replace("$$", "$")
    (tmp_path / "projector.toml").write_text(text, encoding="utf-8")
    environ = dict.fromkeys(service["environment"], "sha256:" + "0" * 64)
    settings = load(environ, {"host": command.host, "port": command.port}, tmp_path / "projector.toml")
    assert settings.auth.is_on
    assert settings.store.url is not None
    assert urlsplit(settings.store.url.get_secret_value()).hostname in service["depends_on"]


def test_the_store_of_replicas_evicts_nothing() -> None:
    command = REPLICAS["services"]["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--maxmemory-policy"] == "noeviction"
    assert int(options["--maxmemory"].removesuffix("mb")) * 2**20 >= 2 * StoreLimits().total_bytes


def test_nginx_asks_replicas_in_turn() -> None:
    names = {name for name in REPLICAS["services"] if name.startswith("projector-")}
    nginx = REPLICAS["services"]["nginx"]
    assert nginx["depends_on"] == {name: {"condition": "service_healthy"} for name in names}
    (volume,) = nginx["volumes"]
    conf = (DEPLOY / volume.split(":")[0]).read_text(encoding="utf-8")
    upstream, _, rest = conf.partition("\nserver {\n")
    assert set(re.findall(r"^    server ([\w-]+):8000;", upstream, re.MULTILINE)) == names
    assert "hash" not in upstream
    assert rest == (DEPLOY / "nginx.conf").read_text(encoding="utf-8").partition("\nserver {\n")[2]


# Kubernetes


def test_its_command_is_one_of_ours() -> None:
    command, of_the_image = parsed(CONTAINER["args"]), parsed(FINAL.argv("CMD"))
    assert command.run == of_the_image.run == "servers:serve"
    assert (command.host, command.port) == (of_the_image.host, of_the_image.port)
    assert command.port == PORT


def test_its_configuration_can_be_served(tmp_path: Path) -> None:
    """The files are where the pod mounts them; variables and secrets are exactly those that the pod names."""
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in POD["spec"]["volumes"]}
    assert mounts.keys() == volumes.keys()
    for name, text in KUBERNETES["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text.replace(mounts["secrets"], str(tmp_path)), encoding="utf-8")
    for item in volumes["secrets"]["secret"]["items"]:
        (tmp_path / item["path"]).write_text(SECRETS[item["key"]], encoding="utf-8")
    environ = {variable["name"]: "sha256:" + "0" * 64 for variable in CONTAINER["env"]}
    command = parsed(CONTAINER["args"])
    config = Path(command.config)
    assert str(config.parent) == mounts["config"]
    settings = load(environ, {"host": command.host, "port": command.port}, tmp_path / config.name)
    assert settings.auth.is_on
    assert settings.admin is not None
    key = settings.upstreams["openai"].api_key
    assert key is not None
    assert key.get_secret_value() == SECRETS["openai-api-key"]
    assert (settings.store.kind, settings.store.url) == ("redis", SecretStr(SECRETS["redis-url"]))


def test_every_secret_is_made_by_the_command_at_its_top() -> None:
    made = set(re.findall(r"--from-literal=([\w-]+)=", KUBERNETES_TEXT))
    items = [volume["secret"]["items"] for volume in POD["spec"]["volumes"] if "secret" in volume]
    used = {item["key"] for one in items for item in one}
    used |= {variable["valueFrom"]["secretKeyRef"]["key"] for variable in CONTAINER["env"]}
    assert used == made


def test_it_waits_until_the_server_has_ended() -> None:
    before_s = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert POD["spec"]["terminationGracePeriodSeconds"] >= before_s + ENDING_S


def test_no_variable_of_its_service_is_taken_for_a_setting() -> None:
    assert POD["spec"]["enableServiceLinks"] is False


def test_its_memory_holds_what_the_limits_allow() -> None:
    match = re.fullmatch(r"(\d+)Mi", CONTAINER["resources"]["limits"]["memory"])
    assert match is not None
    assert int(match[1]) * 2**20 >= 2 * Settings().limits.max_memory_bytes + 150_000_000  # docs/operations.md


def test_its_ports_are_the_images() -> None:
    port, admin = CONTAINER["ports"]
    assert port["containerPort"] == PORT
    configured = tomllib.loads(KUBERNETES["ConfigMap"]["data"]["projector.toml"])["admin"]["port"]
    assert admin == {"name": "admin", "containerPort": configured}
    assert POD["metadata"]["annotations"]["prometheus.io/port"] == str(configured)
    (service_port,) = KUBERNETES["Service"]["spec"]["ports"]
    assert service_port["targetPort"] == port["name"]
    labels = POD["metadata"]["labels"]
    assert KUBERNETES["Service"]["spec"]["selector"] == labels
    assert KUBERNETES["Deployment"]["spec"]["selector"]["matchLabels"] == labels


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probes_ask_what_is_answered(probe: str) -> None:
    probed = CONTAINER[probe]["httpGet"]
    assert probed["port"] == "admin"
    assert probed["path"] == ("/readyz" if probe == "readinessProbe" else "/livez")


async def test_the_probed_paths_are_there(serve: Any) -> None:
    site = serve(demo=True, admin={"port": 0})
    paths = {CONTAINER[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    for path in paths | {POD["metadata"]["annotations"]["prometheus.io/path"]}:
        assert (await site.get(path, port=site.admin_port)).status == 200


def test_it_may_do_no_more_than_the_image_needs() -> None:
    uid, gid = map(int, FINAL.one("USER").split(":"))
    pod = POD["spec"]["securityContext"]
    assert (pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"], pod["runAsNonRoot"]) == (uid, gid, gid, True)
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["spec"]["automountServiceAccountToken"] is False


def test_several_servers_have_one_store_and_leave_one_at_a_time() -> None:
    deployment, budget = KUBERNETES["Deployment"]["spec"], KUBERNETES["PodDisruptionBudget"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert budget == {"maxUnavailable": 1, "selector": deployment["selector"]}
    (spread,) = POD["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == deployment["selector"]


def test_its_image_has_the_version_of_the_package() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.findall(r'^version = "(.*)"$', project, re.MULTILINE)[0]
    assert CONTAINER["image"] == f"public-stream-projector:{version}"

"""deploy/compose.yaml and deploy/kubernetes.yaml against the code: ports, paths, times, settings, and the image."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]  # its types are another package
from pydantic import SecretStr

from bench.capacity_plan import Load
from projector.cli.commands import build_parser
from projector.server.config.loading import load
from projector.server.config.setting_names import fields, variable
from projector.server.config.settings import Settings
from projector.server.process import CLOSE_S
from projector.server.streaming.registry import LAST_WORDS_S
from projector.store.protocol import StoreLimits
from tests.deploy.image import ROOT, dockerfile

DEPLOY: Final = ROOT / "deploy"
FINAL: Final = dockerfile()[-1]
PORT: Final = int(FINAL.one("EXPOSE"))


def ending_s(settings: Settings) -> float:
    """Return the longest time from SIGTERM to the end of a server."""
    return settings.drain_timeout_s + LAST_WORDS_S + CLOSE_S


COMPOSE: Final = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
KUBERNETES_TEXT: Final = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
KUBERNETES: Final = {document["kind"]: document for document in yaml.safe_load_all(KUBERNETES_TEXT)}
POD: Final = KUBERNETES["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
SECRETS: Final = {"openai-api-key": "sk-of-the-secret", "redis-url": "rediss://user:password@redis.example:6379/0"}
REPLICAS: Final = yaml.safe_load((DEPLOY / "compose-replicas.yaml").read_text(encoding="utf-8"))
CLUSTER: Final = yaml.safe_load((DEPLOY / "compose-cluster.yaml").read_text(encoding="utf-8"))
CLUSTER_TEXT: Final = (DEPLOY / "kubernetes-cluster.yaml").read_text(encoding="utf-8")
PODS_OF_REDIS: Final = {document["kind"]: document for document in yaml.safe_load_all(CLUSTER_TEXT)}
BOTH: Final = pytest.mark.parametrize("compose", [REPLICAS, CLUSTER], ids=["replicas", "cluster"])


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
    assert set(re.findall(r"`(PROJECTOR_\w+)`", page)) <= {variable(path) for path, _ in fields()}
    frontend = "".join(path.read_text(encoding="utf-8") for path in (DEPLOY / "nextjs" / "lib").iterdir())
    described = (DEPLOY / "nextjs" / "README.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"process\.env\.(\w+)", frontend) if f"`{name}" not in page + described] == []


# compose


def test_compose_builds_the_image_and_serves_the_demo() -> None:
    service = COMPOSE["services"]["projector"]
    assert (DEPLOY / service["build"] / "Dockerfile").is_file()
    command = parsed(service["command"])
    assert command.run == "servers:demo"
    assert command.port is None, "the health check and nginx ask at the port of the settings"
    assert Settings().port == PORT
    assert seconds(service["stop_grace_period"]) >= ending_s(Settings())


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


@BOTH
def test_replicas_have_one_configuration_that_can_be_served(tmp_path: Path, compose: Any) -> None:
    services = compose["services"]
    assert services["projector-1"] == services["projector-2"]
    service = services["projector-1"]
    command = parsed(service["command"])
    assert command.run == "servers:serve"
    assert (command.host, command.port) == ("0.0.0.0", PORT)  # noqa: S104 - in a network of containers
    (config,) = service["configs"]
    assert config["target"] == command.config
    text = compose["configs"][config["source"]]["content"].replace("$$", "$")
    (tmp_path / "projector.toml").write_text(text, encoding="utf-8")
    environ = dict.fromkeys(service["environment"], "sha256:" + "0" * 64)
    settings = load(environ, {"host": command.host, "port": command.port}, tmp_path / "projector.toml")
    assert settings.auth.is_on
    assert settings.trusted_proxies
    assert settings.store.url is not None
    hosts = [one.partition(":")[0] for one in urlsplit(settings.store.url.get_secret_value()).netloc.split(",")]
    assert {*hosts} <= services.keys()
    assert len({*hosts}) == (3 if compose is CLUSTER else 1)
    assert seconds(service["stop_grace_period"]) >= ending_s(settings)


@BOTH
def test_what_dies_is_started_again(compose: Any) -> None:
    once = {name for name, service in compose["services"].items() if service.get("restart") != "unless-stopped"}
    assert once <= {"redis-create"}


def test_the_store_of_replicas_evicts_nothing() -> None:
    command = REPLICAS["services"]["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--maxmemory-policy"] == "noeviction"
    assert int(options["--maxmemory"].removesuffix("mb")) * 2**20 >= 2 * StoreLimits().total_bytes


@BOTH
def test_nginx_asks_replicas_in_turn(compose: Any) -> None:
    names = {name for name in compose["services"] if name.startswith("projector-")}
    nginx = compose["services"]["nginx"]
    assert nginx["depends_on"] == {name: {"condition": "service_healthy"} for name in names}
    (volume,) = nginx["volumes"]
    conf = (DEPLOY / volume.split(":")[0]).read_text(encoding="utf-8")
    upstream, _, rest = conf.partition("\nserver {\n")
    assert set(re.findall(r"^    server ([\w-]+):8000;", upstream, re.MULTILINE)) == names
    assert "hash" not in upstream
    sticky = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    assert rest == sticky.partition("\nserver {\n")[2]
    assert "# The ID" + sticky.partition("# The ID")[2].partition("# Sticky")[0] in upstream


# systemd


def test_the_unit_can_be_started(tmp_path: Path) -> None:
    text = (DEPLOY / "projector.service").read_text(encoding="utf-8")
    lines = [line.partition("=")[::2] for line in text.splitlines() if "=" in line and not line.startswith("#")]
    commands = [value.rpartition("/bin/")[2].split() for name, value in lines if name in {"ExecStart", "ExecReload"}]
    assert [parsed(one).run for one in commands[:2]] == ["servers:serve", "servers:check_config"]
    values = dict(lines)
    assert float(values["TimeoutStopSec"]) >= ending_s(Settings())
    limits = Settings().limits
    assert int(values["LimitNOFILE"]) > limits.connections + limits.max_streams + 1_000
    assert int(values["MemoryMax"].removesuffix("M")) * 2**20 >= 2 * limits.max_memory_bytes + 150_000_000
    if (analyze := shutil.which("systemd-analyze")) is not None:
        unit = tmp_path / "projector.service"
        unit.write_text(text.replace("/opt/projector/bin/projector", sys.executable), encoding="utf-8")
        done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


# Kubernetes


def test_its_command_is_one_of_ours() -> None:
    command, of_the_image = parsed(CONTAINER["args"]), parsed(FINAL.argv("CMD"))
    assert command.run == of_the_image.run == "servers:serve"
    assert (command.host, command.port) == (of_the_image.host, of_the_image.port)
    assert command.port == PORT


def test_its_configuration_can_be_served(tmp_path: Path) -> None:
    """The files are where the pod mounts them; variables and secrets are exactly those that the pod names.

    The pod has all the time that a server may need to end.
    """
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
    before_s = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert POD["spec"]["terminationGracePeriodSeconds"] >= before_s + ending_s(settings)


def test_every_secret_is_made_by_the_command_at_its_top() -> None:
    made = set(re.findall(r"--from-literal=([\w-]+)=", KUBERNETES_TEXT))
    assert made == set(re.findall(r"--from-literal=([\w-]+)=", CLUSTER_TEXT))
    items = [volume["secret"]["items"] for volume in POD["spec"]["volumes"] if "secret" in volume]
    used = {item["key"] for one in items for item in one}
    used |= {variable["valueFrom"]["secretKeyRef"]["key"] for variable in CONTAINER["env"]}
    assert used == made


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


# a cluster of Redis


def redis_options() -> list[str]:
    """Return the options of Redis in the configuration of the pods, as its command line has them."""
    lines = PODS_OF_REDIS["ConfigMap"]["data"]["redis.conf"].splitlines()
    rows = [line.split(" ", 1) for line in lines if not line.startswith("#")]
    return [word for name, value in rows if name != "dir" for word in (f"--{name}", value.strip('"'))]


def test_both_files_have_the_same_cluster() -> None:
    servers = [one for name, one in CLUSTER["services"].items() if re.fullmatch(r"redis-\d", name)]
    assert len(servers) == PODS_OF_REDIS["StatefulSet"]["spec"]["replicas"] == 6
    assert {one["image"] for one in servers} == {POD_OF_REDIS["containers"][0]["image"]}
    others = {"volumes", "networks"}
    assert len({str({name: one[name] for name in one.keys() - others}) for one in servers}) == 1
    assert len({str([one[name] for name in sorted(others)]) for one in servers}) == 6
    sizes = {"512mb", "2gb"}
    options = [[word for word in words if word not in sizes] for words in (servers[0]["command"][1:], redis_options())]
    assert options[0] == options[1]
    assert options[0][options[0].index("--maxmemory-policy") + 1] == "noeviction"


POD_OF_REDIS: Final = PODS_OF_REDIS["StatefulSet"]["spec"]["template"]["spec"]


def test_pods_of_redis_are_reached_by_their_names() -> None:
    service, pods = PODS_OF_REDIS["Service"], PODS_OF_REDIS["StatefulSet"]["spec"]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert pods["serviceName"] == service["metadata"]["name"] == "redis"
    url = re.findall(r"redis-url=redis://(\S+)", CLUSTER_TEXT)[0]
    assert url.split(",") == [f"redis-{number}.redis:6379" for number in range(3)]
    labels = pods["template"]["metadata"]["labels"]
    for selector in (service["spec"]["selector"], pods["selector"]["matchLabels"]):
        assert selector == labels
    for kind, member in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert PODS_OF_REDIS[kind]["spec"][member] == {"matchLabels": labels}


def test_who_may_reach_redis() -> None:
    clients, own = PODS_OF_REDIS["NetworkPolicy"]["spec"]["ingress"]
    (rule,) = clients["from"][0]["podSelector"]["matchExpressions"]
    jobs = PODS_OF_REDIS["Job"]["spec"]["template"]["metadata"]["labels"]
    pods = [POD["metadata"]["labels"], PODS_OF_REDIS["StatefulSet"]["spec"]["template"]["metadata"]["labels"], jobs]
    assert rule["values"] == [one["app.kubernetes.io/name"] for one in pods]
    ports = [port["containerPort"] for port in POD_OF_REDIS["containers"][0]["ports"]]
    assert [one["ports"][0]["port"] for one in (clients, own)] == ports == [6379, 16379]


def test_pods_of_redis_may_do_no_more_than_they_need() -> None:
    for pod in (POD_OF_REDIS, PODS_OF_REDIS["Job"]["spec"]["template"]["spec"]):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"] == CONTAINER["securityContext"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        claims = {claim["metadata"]["name"] for claim in PODS_OF_REDIS["StatefulSet"]["spec"]["volumeClaimTemplates"]}
        assert mounted <= {volume["name"] for volume in pod["volumes"]} | claims


def test_servers_come_and_leave_with_the_load() -> None:
    scaler, deployment = PODS_OF_REDIS["HorizontalPodAutoscaler"]["spec"], KUBERNETES["Deployment"]
    assert scaler["scaleTargetRef"] == {
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "name": deployment["metadata"]["name"],
    }
    assert scaler["minReplicas"] == deployment["spec"]["replicas"]
    (metric,) = scaler["metrics"]
    target = float(metric["resource"]["target"]["averageValue"].removesuffix("m")) / 1000
    assert target == pytest.approx(Load().utilization, abs=0.02)

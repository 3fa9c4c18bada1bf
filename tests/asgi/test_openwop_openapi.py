"""The OpenWOP host against its own OpenAPI document, with generated requests (schemathesis)."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from projector.contracts import codec
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.upstream.demo import DemoUpstream

APP = create_app(Settings.model_validate({"openwop": {"conformance": True}}), lambda *_: DemoUpstream(pace_s=0))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

PATHS = codec.loads((files("projector.openwop") / "openapi.json").read_bytes())["paths"]

schema = schemathesis.openapi.from_asgi("/v1/openapi.json", APP).include(path=list(PATHS))


@schema.parametrize()
@settings(
    max_examples=10,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_host_conforms_to_its_description(case: Any) -> None:
    case.call_and_validate(checks=CHECKS)


def test_every_path_of_the_host_is_described() -> None:
    assert PATHS.keys() <= {path.path_format for path in APP.routes}  # type: ignore[attr-defined]  # they are routes

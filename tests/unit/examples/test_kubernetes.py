"""The manifests of the examples, as far as a schema and a look at their names can tell: no Kubernetes runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.testing
import yaml

from foretide.cli import app

PATHS = sorted((Path(__file__).parents[3] / "examples" / "kubernetes").glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def by_kind(path: Path) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in documents(path)}


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_manifests_are_what_kubernetes_takes(path: Path, version: str) -> None:
    found = documents(path)
    assert found
    for document in found:
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_manifests_name_is_there(path: Path) -> None:
    kinds = by_kind(path)
    pod = kinds["Deployment"]["spec"]["template"]
    service = kinds["Service"]
    assert pod["spec"]["serviceAccountName"] == kinds["ServiceAccount"]["metadata"]["name"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert kinds["RoleBinding"]["roleRef"]["name"] == kinds["Role"]["metadata"]["name"]
    settings = dict(line.split() for line in kinds["ConfigMap"]["data"]["spark-defaults.conf"].splitlines())
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == {settings["spark.driver.port"], settings["spark.driver.blockManager.port"]}
    assert settings["spark.driver.host"].split(".")[0] == service["metadata"]["name"]
    [container] = pod["spec"]["containers"]
    assert container["image"] == settings["spark.kubernetes.container.image"]
    claimed = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(claimed)
    assert claimed["conf"]["configMap"]["name"] == kinds["ConfigMap"]["metadata"]["name"]
    assert (
        claimed["checkpoints"]["persistentVolumeClaim"]["claimName"]
        == kinds["PersistentVolumeClaim"]["metadata"]["name"]
    )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_command_has_options_that_there_are(path: Path) -> None:
    [container] = by_kind(path)["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][:2] == ["foretide", "run"]
    told = typer.testing.CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    for argument in container["args"]:
        assert argument.partition("=")[0] in told

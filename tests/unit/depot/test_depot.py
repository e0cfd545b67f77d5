"""Places that are refused, and what object stores refuse: each says what, where and what to do."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from hadoop_cluster import HadoopCluster
from object_stores import keep_in_memory

from foretide.commands.machine.s3_server import S3Server
from foretide.depot import DepotError, objects, open_depot
from foretide.depot import hdfs as hdfs_module
from foretide.errors import ConfigError, MissingExtraError


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("s33://bucket/run", "did you mean 's3'?"),
        ("ftp://host/run", "a path, or a URI with one of: s3, s3a, gs, gcs, az, azure, hdfs, file"),
        ("s3:///run", "a bucket and a folder, such as s3://bucket/folder"),
        ("s3://bucket/run?x=1", "a bucket and a folder"),
    ],
)
def test_a_place_of_no_known_kind_is_refused(place: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_depot(place)
    assert message in str(caught.value)


def test_names_of_sparks_mean_the_same_stores(tmp_path: Path) -> None:
    assert open_depot("s3a://bucket/run/").uri == open_depot("s3://bucket/run").uri == "s3://bucket/run"
    assert open_depot(f"file://{tmp_path}").uri == open_depot(tmp_path).uri == str(tmp_path)


@pytest.mark.parametrize(
    ("uri", "extra", "module"), [("s3://bucket/run", "objects", "obstore"), ("hdfs://host/run", "hdfs", "hdfs_native")]
)
def test_without_the_extra_it_is_named(uri: str, extra: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"foretide.depot.{extra}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install 'foretide\[{extra}\]'"):
        open_depot(uri)


def test_an_error_survives_its_way_from_a_task() -> None:
    error = DepotError("s3://b/x", expected="an answer", got="none", remedy="look")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "s3://b/x: expected an answer, got none; look"


def test_a_disk_that_refuses_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DepotError, match="expected a directory, got"):
        open_depot(tmp_path / "file" / "run").check()


def test_a_store_that_does_not_heed_conditions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_in_memory(monkeypatch)
    depot = open_depot("s3://bucket/one")
    depot.check()
    assert depot.names() == []
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, key, content, **_: put(store, key, content))
    with pytest.raises(DepotError, match="expected a store that puts an object on the condition that there is none"):
        depot.check()
    assert depot.names() == []


@pytest.fixture
def fresh_clients() -> None:
    objects._store.cache_clear()


@pytest.mark.usefixtures("fresh_clients")
def test_a_server_that_is_away_is_an_error_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for name, value in S3Server(Path(), port=port).environment.items():
        monkeypatch.setenv(name, value)
    began_s = time.monotonic()
    with pytest.raises(DepotError) as caught:
        open_depot("s3://runs/one").check()
    assert time.monotonic() - began_s < 10
    assert caught.value.where == "s3://runs/one" and "AWS_ENDPOINT_URL" in caught.value.remedy
    objects._store.cache_clear()


# By which clients are told who they are, other than by what the machine itself says.
KNOWN_BY = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "MSI_")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, fresh_clients: None, tmp_path: Path) -> Iterator[None]:
    """Have no credentials, on a machine that gives none either."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    for name in os.environ:
        if name.startswith(KNOWN_BY):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://{place}")
    monkeypatch.setenv("GCE_METADATA_HOST", place)
    monkeypatch.setenv("GCE_METADATA_IP", place)
    yield
    objects._store.cache_clear()


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(
    ("uri", "set_first"),
    [
        ("s3://runs/one", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("gs://runs/one", "set GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://runs/one", "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_no_credentials_at_all_are_named_with_what_to_set(
    uri: str, set_first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_CHECK_S", 0.0)
    with pytest.raises(DepotError) as caught:
        open_depot(uri).check()
    error = caught.value
    assert (error.where, error.expected) == (uri, "credentials that may read and write there")
    assert error.got.startswith("none: neither the environment nor the machine gives any")
    assert error.remedy.startswith(set_first)


@pytest.mark.usefixtures("nobody")
def test_no_credentials_at_all_are_an_error_within_ten_seconds() -> None:
    began_s = time.monotonic()
    with pytest.raises(DepotError, match="expected credentials"):
        open_depot("s3://runs/one").check()
    assert time.monotonic() - began_s < 10


@pytest.mark.usefixtures("nobody")
def test_an_account_without_a_key_is_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_CHECK_S", 0.0)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "tides")
    place = f"{os.environ['AWS_METADATA_ENDPOINT']}/metadata/identity/oauth2/token"
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", place)
    with pytest.raises(DepotError, match="got none: neither the environment nor the machine gives any"):
        open_depot("az://runs/one").check()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_clients")
class TestRefusals:
    def test_a_bucket_that_is_not_there(self, s3: S3Server) -> None:
        assert s3.endpoint
        for act in (open_depot("s3://nobody/one").check, lambda: open_depot("s3://nobody/one").put("a", b"")):
            with pytest.raises(DepotError, match="expected the bucket s3://nobody, got none; make the bucket"):
                act()

    def test_wrong_credentials(self, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        assert s3.endpoint
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        with pytest.raises(DepotError, match="expected credentials that may read and write there"):
            open_depot("s3://runs/one").check()
        objects._store.cache_clear()


def test_a_namenode_that_is_away_is_an_error_within_ten_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    began_s = time.monotonic()
    with pytest.raises(DepotError, match=r"expected an answer of HDFS, got .*HADOOP_CONF_DIR"):
        open_depot(f"hdfs://127.0.0.1:{port}/one").check()
    assert time.monotonic() - began_s < 10


@pytest.mark.slow
def test_a_user_that_may_not_write_in_hdfs_is_told(hdfs: HadoopCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")
    hdfs_module._client.cache_clear()
    with pytest.raises(DepotError, match=r"expected a user that may read and write there, got .*HADOOP_USER_NAME"):
        open_depot(f"{hdfs.uri}/theirs/one").check()
    hdfs_module._client.cache_clear()

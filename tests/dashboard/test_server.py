"""The server only reads, only its own files, and only answers to its own name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sweeper.dashboard.files import STATIC
from sweeper.dashboard.page import Page
from sweeper.dashboard.server import is_own_name, listen, make_app, server_url
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import SetupError


@pytest.fixture
def client(study: PublishedStudy) -> TestClient:
    """A browser that opens the page."""
    return TestClient(make_app(Page([study])), base_url="http://127.0.0.1:8321")


def test_the_page_and_its_files_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script>" not in page.text
    for name in STATIC:
        assert f"static/{name}" in page.text
        assert client.get(f"/static/{name}").status_code == 200


def test_every_answer_forbids_what_the_page_does_not_need(client: TestClient) -> None:
    for path in ("/", "/static/page.js", "/studies/0", "/studies/0/curves/3", "/studies/7"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in policy


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/static/page.js", "/studies/0", "/studies/0/curves/3"])
def test_only_reading_requests_are_answered(client: TestClient, method: str, path: str) -> None:
    assert client.request(method, path).status_code == 405


def test_a_head_request_has_no_body(client: TestClient) -> None:
    answer = client.head("/")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/VENDORED",
        "/static/index.html",
        "/static/",
        "/etc/passwd",
        "/studies/1",
        "/studies/-1",
        "/studies/0/curves/x",
        "/status.json",
    ],
)
def test_other_paths_are_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_page_requests_only_new_data(client: TestClient) -> None:
    first = client.get("/studies/0").json()
    through = {name: first["tables"][name]["through"] for name in ("trials", "buckets", "spans")}
    views = ",".join(view["digest"] for view in first["views"])
    second = client.get("/studies/0", params={**through, "views": views})
    assert len(second.content) < 2000


NINES = "9" * 400


@pytest.mark.parametrize(
    "path",
    [
        *(f"/studies/0?{name}={NINES}" for name in ("trials", "buckets", "spans")),
        f"/studies/0?trials=-{NINES}",
        f"/studies/0?trials={'9' * 5000}",
        "/studies/0?trials=1_0",
        "/studies/0?trials=x",
        "/studies/0?trials=",
        "/studies/0?trials=%D9%A1",
        "/studies/0?trials=-2",
        f"/studies/{NINES}",
        f"/studies/0/curves/{NINES}",
        f"/studies/{'9' * 5000}/curves/0",
    ],
)
def test_a_number_that_no_study_has_is_a_bad_request(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, len(answer.text) < 50) == (400, True)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_largest_numbers_are_answered(client: TestClient) -> None:
    largest = "9" * 15
    query = "&".join(f"{name}={largest}" for name in ("trials", "buckets", "spans"))
    assert client.get(f"/studies/0?{query}&views={'x' * 9000}").status_code == 200
    assert client.get(f"/studies/0/curves/{largest}").json() == []
    assert client.get(f"/studies/{largest}").status_code == 404


def test_curves_come_by_trial(client: TestClient) -> None:
    curves = client.get("/studies/0/curves/3").json()
    assert {curve[0] for curve in curves} == {"train_loss", "val_loss", "val_accuracy"}
    assert all(len(epochs) == len(values) > 0 for _, _, epochs, values in curves)
    assert client.get("/studies/0/curves/99999").json() == []


def test_a_removed_run_directory_is_reported(study: PublishedStudy, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_bytes(study.run_dir.status.read_bytes())
    moved = PublishedStudy(type(study.run_dir)(tmp_path))
    client = TestClient(make_app(Page([moved])), base_url="http://localhost")
    assert client.get("/studies/0").status_code == 200
    (tmp_path / "status.json").unlink()
    gone = client.get("/studies/0")
    assert (gone.status_code, "no study has been run here" in gone.text) == (503, True)


def test_a_removed_run_directory_leaves_the_pages_of_other_studies(
    study: PublishedStudy, tmp_path: Path
) -> None:
    def comparison() -> str:
        return client.get("/studies/0").json()["views"][-1]["html"]

    shutil.copytree(study.run_dir.root, tmp_path / "other")
    other = PublishedStudy(type(study.run_dir)(tmp_path / "other"))
    client = TestClient(make_app(Page([study, other])), base_url="http://localhost")
    before = comparison()
    assert "cannot be read" not in before
    (tmp_path / "other").rename(tmp_path / "moved")
    assert client.get("/studies/1").status_code == 503
    gone = comparison()
    assert f"({tmp_path / 'other'}) cannot be read" in gone
    assert "no study has been run here" in gone
    (tmp_path / "moved").rename(tmp_path / "other")
    assert comparison() == before
    assert client.get("/studies/1").json()["tables"]["trials"]["n"] == 120


def test_a_damaged_file_is_reported_until_it_is_restored(
    study: PublishedStudy, tmp_path: Path
) -> None:
    shutil.copytree(study.run_dir.root, tmp_path / "other")
    other = PublishedStudy(type(study.run_dir)(tmp_path / "other"))
    client = TestClient(make_app(Page([other])), base_url="http://localhost")
    content = other.run_dir.buckets.read_bytes()
    other.run_dir.buckets.write_bytes(content[:99])
    assert [client.get("/studies/0").status_code for _ in range(2)] == [503, 503]
    other.run_dir.buckets.write_bytes(content)
    assert client.get("/studies/0").status_code == 200


@pytest.mark.parametrize("name", ["ensemble.json", "status.json", "metrics/other.parquet"])
def test_a_link_that_is_made_later_is_refused_and_not_followed(
    name: str, study: PublishedStudy, tmp_path: Path
) -> None:
    shutil.copytree(study.run_dir.root, tmp_path / "other")
    other = PublishedStudy(type(study.run_dir)(tmp_path / "other"))
    client = TestClient(make_app(Page([study, other])), base_url="http://localhost")
    linked = other.run_dir.root / name
    linked.unlink(missing_ok=True)
    linked.symlink_to(tmp_path / "nonsuch")
    refused = client.get("/studies/1")
    assert (refused.status_code, "follows no link" in refused.text) == (503, True)
    assert "follows no link" in client.get("/studies/0").json()["views"][-1]["html"]


@pytest.mark.parametrize(
    ("name", "host", "own"),
    [
        ("127.0.0.1:8321", "127.0.0.1", True),
        ("localhost:8321", "127.0.0.1", True),
        ("LOCALHOST", "127.0.0.1", True),
        ("[::1]:8321", "127.0.0.1", True),
        ("[::1]", "::1", True),
        ("evil.example", "127.0.0.1", False),
        ("127.0.0.1.evil.example:8321", "127.0.0.1", False),
        ("192.168.1.5:8321", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("192.168.1.5:8321", "0.0.0.0", True),
        ("lab:8321", "lab", True),
        ("evil.example:8321", "0.0.0.0", False),
        ("127.0.0.1:8321:8321", "127.0.0.1", False),
        ("127.0.0.1:x", "127.0.0.1", False),
        ("127.0.0.1:", "127.0.0.1", False),
        ("127.0.0.1:65536", "127.0.0.1", False),
        ("127.0.0.1:٨٠", "127.0.0.1", False),
        ("[127.0.0.1]:8321", "127.0.0.1", False),
        ("[::1:8321", "127.0.0.1", False),
        ("::1", "127.0.0.1", False),
        ("[localhost]", "127.0.0.1", False),
        ("evil@127.0.0.1", "127.0.0.1", False),
        ("evil:x@127.0.0.1:8321", "127.0.0.1", False),
        (" 127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1/", "127.0.0.1", False),
        ("127.0.0.1,evil.example", "127.0.0.1", False),
        ("localhost.", "127.0.0.1", False),
        ("2130706433", "0.0.0.0", False),
        ("[fe80::1]:8321", "::", True),
    ],
)
def test_the_host_header_must_name_this_server(name: str, host: str, own: bool) -> None:
    assert is_own_name(name, host) is own


def test_another_name_is_refused(client: TestClient) -> None:
    for path in ("/", "/static/page.js", "/studies/0"):
        assert client.get(path, headers={"host": "evil.example"}).status_code == 400


def test_a_port_in_use_is_refused_with_a_hint() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert server_url(listening) == f"http://127.0.0.1:{port}/"
        with pytest.raises(SetupError, match="choose another with --port"):
            listen("127.0.0.1", port)

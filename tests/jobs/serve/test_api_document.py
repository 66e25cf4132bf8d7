"""Goal: the OpenAPI document of serve says what is really asked and answered, and programs can be made from it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from pydantic import TypeAdapter

from groupledger.jobs.ask import answer_models as rows
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.app import questions
from tests.jobs.serve.serving import CLUSTER, Client, fill, served
from tools.api_examples import (
    ASKED,
    AT,
    DEPLOYED,
    END,
    FILE,
    GROUP,
    MIRRORED,
    OF_CLUSTER,
    OF_GROUP,
    SINCE,
    TOPIC,
    answers,
    fill_both,
    first_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

API = "/api/v1/"
OTHERS = {"events": "text/event-stream", "undo": "text/csv"}
"""What is not answered by JSON."""
OF_ALL_CLUSTERS = {"clusters", "queries", "query"}


@pytest.fixture(scope="module")
def warehouses(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return fill_both(tmp_path_factory.mktemp("both"))


@pytest.fixture(scope="module")
def warehouse(warehouses: tuple[Path, Path]) -> Path:
    return warehouses[0]


@pytest.fixture(scope="module")
def reported(warehouses: tuple[Path, Path]) -> dict[str, Any]:
    """The answer to each operation."""
    return answers(*warehouses)


@pytest.fixture(scope="module")
def client(warehouse: Path) -> Iterator[Client]:
    with served(warehouse) as found:
        yield found


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return questions(Warehouse(".", load_settings())).openapi()


def operations(document: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns the path and the description of each operation of the API, by its id."""
    return {
        each["operationId"]: (path, each)
        for path, methods in document["paths"].items()
        for each in methods.values()
        if path.startswith(API)
    }


def strict(schema: Any) -> Any:
    """Returns the schema, under which no object has a field that is not declared."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(each) for name, each in schema.items()}
    return {**found, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else found


def errors(schema: Any, components: dict[str, Any], value: object) -> list[str]:
    whole = strict({**schema, "components": components})
    return [f"{each.json_path}: {each.message[:300]}" for each in OAS31Validator(whole).iter_errors(value)]


def schema_of(document: dict[str, Any], operation: str) -> Any:
    return operations(document)[operation][1]["responses"]["200"]["content"]["application/json"]["schema"]


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    """Goal: others' tools can read it."""
    validate(document)


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    """Goal: each has a tag, texts, an answer with an example, and the errors that are really sent."""
    tags = {each["name"] for each in document["tags"]}
    for name, (path, each) in operations(document).items():
        assert {*each["tags"]} <= tags, name
        assert each["summary"], name
        assert each["description"], name
        assert all(one["description"] for one in each["parameters"]) if "parameters" in each else "{" not in path, name
        assert {*each["responses"]} == {"200", "400", "404", "503", "default"}, name
        for status, response in each["responses"].items():
            (media_type,) = response["content"]
            expected = OTHERS.get(name, "application/json") if status == "200" else "application/problem+json"
            assert media_type == expected, name
    assert {*operations(document)} == {*ASKED, *OTHERS}
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_examples(document: dict[str, Any]) -> None:
    """Goal: the example of each operation has the declared form."""
    for name in ASKED:
        content = operations(document)[name][1]["responses"]["200"]["content"]["application/json"]
        assert errors(content["schema"], document["components"], content["example"]) == [], name


def test_examples_are_current(reported: dict[str, Any]) -> None:
    """Goal: examples are answers of today; `python -m tools.api_examples` writes them."""
    assert json.loads(FILE.read_text()) == first_of(reported)


def test_real_answers(document: dict[str, Any], reported: dict[str, Any]) -> None:
    """Goal: each answer of the demo's day has the fields that its operation declares, and no others."""
    for name, answer in reported.items():
        assert errors(schema_of(document, name), document["components"], answer) == [], name
        assert ("known_until" in answer) == (name not in OF_ALL_CLUSTERS)
    assert all(
        reported[name][field] for name, field in (("why", "entries"), ("what_if", "answers"), ("groups", "groups"))
    )


def test_answers_about_little(document: dict[str, Any], tmp_path: Path) -> None:
    """Goal: each answer about a group with little data has the declared form, too."""
    fill(tmp_path, "pay", "orders", "pod-b")
    with served(tmp_path) as client:
        for name, (path, parameters) in ASKED.items():
            if name in {"offsets", "readers", "owner", *MIRRORED} or "audit" in name:  # these need more
                continue
            path = path.replace(f"/{DEPLOYED}", f"/{GROUP}")  # noqa: PLW2901 - only in this round
            asked = path.replace(OF_GROUP, f"{OF_CLUSTER}/groups/pay").replace(OF_CLUSTER, f"{API}clusters/{CLUSTER}")
            since = {"from": "2026-01-01T12:01:00Z"} if "from" in parameters else {}
            answer = client.get(asked + "".join(f"?{key}={value}" for key, value in since.items()))
            assert answer.status == 200, answer.text
            assert errors(schema_of(document, name), document["components"], answer.json) == [], name


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("/groups?statu=ok", "no parameter statu: it has q, status, type, team, all, limit, cursor"),
        ("/groups?status=broken", "status is one of ok, waiting_for_transaction"),
        ("/groups?type=classical", "type is one of classic, consumer, share, streams"),
        ("/groups?team=payments", "The settings have no teams"),
        ("/incidents?kind=zombies", "kind is one of illegal_generation"),
        (f"/groups/{GROUP}/what-if?since=2h", "no parameter since: it has none"),
        (f"/groups/{GROUP}/lag/total?no_commit=0", "no_commit is one of earliest, latest, none, error"),
        (f"/groups/{GROUP}/owner?at=2h&topic=t&partition=-1", "partition"),
        ("/events?group=a", "no parameter group"),
    ],
)
def test_what_is_refused(document: dict[str, Any], client: Client, asked: str, words: str) -> None:
    """Goal: a filter that does not exist is refused, and the sentence has those that do."""
    answer = client.get(f"{OF_CLUSTER}{asked}")
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert words in answer.json["detail"]
    assert errors({"$ref": "#/components/schemas/Problem"}, document["components"], answer.json) == []


def test_pages_of_incidents(client: Client) -> None:
    """Goal: pages of incidents, one after the other, are the list."""
    every = client.get(f"{OF_CLUSTER}/incidents?severity=info").json
    found: list[Any] = []
    page = client.get(f"{OF_CLUSTER}/incidents?severity=info&limit=7").json
    while page["next"] is not None:
        found += page["incidents"]
        page = client.get(f"{OF_CLUSTER}/incidents?severity=info&limit=7&cursor={page['next']}").json
    assert found + page["incidents"] == every["incidents"]
    assert page["count"] == every["count"] == len(every["incidents"]) > 7


def test_open_incidents(client: Client) -> None:
    """Goal: those that are open, and no other, of a cluster and of a group."""
    every = client.get(f"{OF_CLUSTER}/incidents?severity=info").json["incidents"]
    open_ones = [each for each in every if each["is_open"]]
    assert 0 < len(open_ones) < len(every)
    assert client.get(f"{OF_CLUSTER}/incidents?severity=info&open=true").json["incidents"] == open_ones
    name = open_ones[0]["group_id"]
    of_group = client.get(f"{OF_CLUSTER}/groups/{name}/incidents?severity=info&open=true").json["incidents"]
    assert of_group == [each for each in open_ones if each["group_id"] == name]


def test_the_page_of_the_api(document: dict[str, Any], client: Client) -> None:
    """Goal: `/docs` has each operation and object, and its links lead to places on it; it needs no script."""
    page = client.get("/docs", Accept="text/html")
    assert page.status == 200
    for name, (path, _) in operations(document).items():
        assert f'<details id="{name}">' in page.text
        assert f"<code>GET {path}</code>" in page.text
    assert {*re.findall(r'href="#(\w+)"', page.text)} <= {*re.findall(r'id="(\w+)"', page.text)}
    assert not re.search(r"(src|href)=\"(https?:)?//", page.text)
    assert "\\n" not in page.text
    assert "&#34;verdict&#34;: {\n" in page.text


LINES: dict[str, Any] = {
    "groups --all": rows.ListedGroup,
    f"readers {TOPIC}": rows.Reader,
    "incidents --severity info": rows.Incident,
    f"owner {GROUP} {TOPIC} 2 --at {AT.isoformat()}": rows.Owner,
    f"group {GROUP}": rows.TimelineEntry,
    "deploys": rows.Deploy,
    f"deploy {DEPLOYED}": rows.Deploy,
    f"rebalances {GROUP} --since {SINCE.isoformat()}": rows.Rebalance,
    f"diff {GROUP} --from {SINCE.isoformat()}": rows.Difference,
    f"why {GROUP} --since {SINCE.isoformat()}": rows.Entry | rows.Verdict,
    f"what-if {GROUP} --since {SINCE.isoformat()} --until {END.isoformat()} --setting static": rows.WhatIf,
    f"lag {GROUP}": rows.PartitionLag,
    f"offsets {GROUP} --at {AT.isoformat()}": rows.CommittedOffset,
}


@pytest.mark.parametrize("command", LINES)
def test_lines_of_the_command_line(warehouse: Path, command: str) -> None:
    """Goal: a line of --json is a row of the same answer, with known_until beside it."""
    done = CliRunner().invoke(main, [*command.split(), "--json", "--warehouse", str(warehouse)])
    assert done.exit_code == 0, done.output
    schema = TypeAdapter(LINES[command]).json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    components = {"schemas": schema.pop("$defs", {})}
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    for line in lines:
        TypeAdapter(rows.Known).validate_python(line.pop("known_until"))
        assert errors(schema, components, line) == []


def test_a_generated_client(document: dict[str, Any], client: Client, reported: dict[str, Any], tmp_path: Path) -> None:
    """Goal: a client that a generator makes of the document gets the answers, typed, and errors as problems."""
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    (tmp_path / "config.yaml").write_text("project_name_override: made\npackage_name_override: made\npost_hooks: []\n")
    command = ["generate", "--path", "openapi.json", "--config", "config.yaml", "--meta", "none", "--fail-on-warning"]
    subprocess.run([sys.executable, "-m", "openapi_python_client", *command], cwd=tmp_path, check=True)
    answer, wrong = json.loads(
        subprocess.run(
            [sys.executable, "-c", CALLS, f"http://127.0.0.1:{client.port}", SINCE.isoformat()],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    assert as_sent(answer) == reported["why"]
    assert (wrong["status"], GROUP in wrong["detail"]) == (404, True)


def as_sent(answer: Any) -> Any:
    """Returns an answer in which the client has read instants, and written them in its own form."""
    text = re.sub(r"(\.\d{3})000\+00:00", r"\1Z", json.dumps(answer))
    return json.loads(re.sub(r"(:\d\d)\+00:00", r"\1.000Z", text))


CALLS = f"""
import json, sys
from made import Client
from made.api.history import why
from made.models import Problem, Why
client = Client(base_url=sys.argv[1])
found = why.sync(cluster="demo", group="{GROUP}", client=client, since=sys.argv[2])
wrong = why.sync(cluster="demo", group="{GROUP}s", client=client)
assert isinstance(found, Why) and isinstance(wrong, Problem)
assert found.verdict.diagnosis[0].cause == "poll_timeout"
print(json.dumps([found.to_dict(), wrong.to_dict()]))
"""

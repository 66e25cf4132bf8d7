"""Goal: an S3 store that the environment names to delta-rs is passed to Hadoop, too."""

from __future__ import annotations

import pytest

from groupledger.jobs.process.object_store import s3_settings

ENDPOINT, IN_PATH, REGION = (
    f"spark.hadoop.fs.s3a.{name}" for name in ("endpoint", "path.style.access", "endpoint.region")
)


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, {}),
        ({"AWS_DEFAULT_REGION": "r", "AWS_ENDPOINT_URL": ""}, {REGION: "r"}),
        ({"AWS_ENDPOINT_URL": "http://h:1"}, {ENDPOINT: "http://h:1", IN_PATH: "true"}),
        (
            {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b", "AWS_REGION": "r"},
            {ENDPOINT: "http://b", IN_PATH: "true", REGION: "r"},
        ),
        (
            {"AWS_ENDPOINT": "https://h", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "True"},
            {ENDPOINT: "https://h", IN_PATH: "false"},
        ),
    ],
)
def test_what_hadoop_is_reported(environment: dict[str, str], settings: dict[str, str]) -> None:
    """Goal: endpoint and region by any of their names, and a bucket in the path unless it is wanted in the host."""
    assert s3_settings(environment) == settings

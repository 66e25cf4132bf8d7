"""Configures Hadoop's S3 client by the environment variables that delta-rs reads.

Credentials need no configuration: both use the environment, then the role of the machine or the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ENDPOINT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
# A name of delta-rs: whether the bucket is in the host name or in the path.
IS_BUCKET_IN_HOST = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns Spark's settings for an S3 store that is not Amazon's, and for a region, if the environment names
    them."""
    endpoint = next((environment[name] for name in ENDPOINT if environment.get(name)), None)
    region = next((environment[name] for name in REGION if environment.get(name)), None)
    settings = {}
    if endpoint is not None:
        is_in_host = environment.get(IS_BUCKET_IN_HOST, "").lower() in ("1", "true", "yes", "on", "y", "t")
        settings["spark.hadoop.fs.s3a.endpoint"] = endpoint
        settings["spark.hadoop.fs.s3a.path.style.access"] = str(not is_in_host).lower()
    if region is not None:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    return settings

"""Creates a file in an S3 bucket only if it does not exist, in one step of the store: a PUT with `If-None-Match: *`.

Hadoop's own `create` of S3A checks first and writes afterwards. Two writers that start at the same moment would both
succeed. So the request is made by the client of S3A itself, with its credentials, endpoint and retries. delta-rs
commits by the same kind of request.

A store that does not know the header overwrites silently. This is checked before the first file is made: such a store
can't keep two writers apart, so nothing is written there.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMES = frozenset({"s3", "s3a", "s3n"})
S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
WRITTEN = 200
TAKEN = 412
# Another request for the same name is under way. A second try shows whether that request has succeeded.
CONFLICT = 409
NOT_IMPLEMENTED = 501
ATTEMPTS = 10
NO_CONDITIONAL_WRITES = (
    "The store of the warehouse does not keep two writers apart: it overwrites what a PUT with If-None-Match must leave"
    " as it is. Nothing was written; use a store with conditional writes."
)


class S3Create:
    """Creates files in one bucket. The first call raises InputError if the store lets a name be created twice."""

    def __init__(self, spark: SparkSession, files: Any) -> None:
        if files.getClass().getName() != S3A or not hasattr(files, "getS3AInternals"):
            raise InputError(
                "Only Hadoop's S3A, from Hadoop 3.4 on, keeps two writers of an S3 warehouse apart: name it by s3a://,"
                " with hadoop-aws on the class path."
            )
        self._files = files
        self._client = files.getS3AInternals().getAmazonS3Client("groupledger")
        self._sdk: Any = spark.sparkContext._jvm.software.amazon.awssdk  # type: ignore[union-attr]  # noqa: SLF001
        self._is_proved = False

    def create(self, path: Any, text: str) -> bool:
        """Creates a file. Returns False if the name is taken, even if another writer was just faster."""
        if not self._is_proved:
            self._prove(path.getParent())
        return self._put(path, text)

    def _prove(self, folder: Any) -> None:
        # Named like a temporary file: readers take it for neither a cluster nor a lease.
        probe = folder.suffix(f"/.probe.{uuid.uuid4().hex}")
        try:
            refuses_second_write = self._put(probe, "") and not self._put(probe, "")
        finally:
            self._files.delete(probe, False)
        if not refuses_second_write:
            raise InputError(NO_CONDITIONAL_WRITES)
        self._is_proved = True

    def _put(self, path: Any, text: str) -> bool:
        header = self._sdk.awscore.AwsRequestOverrideConfiguration.builder().putHeader("If-None-Match", "*").build()
        request = self._sdk.services.s3.model.PutObjectRequest.builder().bucket(self._files.getBucket())
        request = request.key(self._files.pathToKey(path)).overrideConfiguration(header).build()
        body = self._sdk.core.sync.RequestBody.fromString(text)
        status = self._send(request, body)
        for _ in range(ATTEMPTS - 1):
            if status != CONFLICT:
                break
            status = self._send(request, body)
        return status == WRITTEN

    def _send(self, request: Any, body: Any) -> int:
        """Returns the status of the store's answer, of those that say whether the name was taken."""
        from py4j.protocol import Py4JJavaError

        try:
            self._client.putObject(request, body)
        except Py4JJavaError as error:
            answer = error.java_exception
            status = int(answer.statusCode()) if answer.getClass().getSimpleName() == "S3Exception" else None
            if status == NOT_IMPLEMENTED:
                raise InputError(NO_CONDITIONAL_WRITES) from error
            if status is None or status not in (TAKEN, CONFLICT):
                raise
            return status
        return WRITTEN

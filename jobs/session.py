"""The Spark session of every job: the defaults of `conf/spark-defaults.conf`, our JARs, our interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import conf
from jobs.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

SHIPPED = Path(conf.__file__).parent
SPARK_JARS = Path(__file__).resolve().parent.parent / ".jars" / "spark"


def spark_session(name: str, overrides: Mapping[str, str] | None = None, java_options: str = "") -> SparkSession:
    """The one session of this process. `overrides` win over the shipped defaults, and so does a spark-submit that has
    already started a session.
    """
    from pyspark.sql import SparkSession

    # Spark's Python workers would otherwise be whatever `python3` the system has, without our libraries.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging = f"-Dlog4j2.configurationFile=file:{SHIPPED / 'log4j2.properties'}"
    defaults = spark_defaults()
    settings = {
        **defaults,
        "spark.jars": ",".join(local_jars()),
        "spark.driver.extraJavaOptions": f"{defaults['spark.driver.extraJavaOptions']} {logging} {java_options}",
        **(overrides or {}),
    }
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def spark_defaults() -> dict[str, str]:
    text = (SHIPPED / "spark-defaults.conf").read_text()
    lines = (line.strip() for line in text.splitlines())
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def local_jars() -> list[str]:
    jars = sorted(str(path) for path in SPARK_JARS.glob("*.jar"))
    if not jars:
        raise InputError("The JARs of Delta Lake and the Kafka connector are missing: run `make setup`.")
    return jars

"""Goal: the built archive runs on a cluster by spark-submit, executors in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.jobs.demo.simulate import simulate
from groupledger.jobs.process.session import SHORT_LIVED, local_jars
from tools.build_archive import ROOT, build

pytestmark = [pytest.mark.java, pytest.mark.slow]

UNSET = ("PYSPARK", "PYTHONPATH", "SPARK_CONF_DIR")


def test_pipeline_in_a_local_cluster(tmp_path: Path) -> None:
    """Goal: `ingest` decodes on executors that have nothing but the archive and the interpreter's libraries."""
    simulate(SCENARIOS["leader-loss"], 1, tmp_path / "simulated", 1, None, lambda _text: None)
    archive = build(tmp_path / "groupledger.zip")
    # Away from the checkout, which the interpreter would find before the archive.
    job = tmp_path / "cli.py"
    job.write_bytes((ROOT / "jobs" / "cli" / "main.py").read_bytes())
    spark_home = Path(pyspark.__file__).parent
    submit = [
        *(str(spark_home / "bin" / "spark-submit"), "--master", "local-cluster[1,1,1024]"),
        *("--conf", f"spark.pyspark.python={sys.executable}", "--conf", "spark.ui.enabled=false"),
        *("--jars", ",".join(local_jars()), "--py-files", str(archive), str(job)),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(UNSET)}
    environment["SPARK_HOME"] = str(spark_home)
    environment["JAVA_TOOL_OPTIONS"] = SHORT_LIVED

    warehouse = tmp_path / "warehouse"
    command = [*submit, "ingest", "--capture", str(tmp_path / "simulated" / "capture"), "--warehouse", str(warehouse)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    records = DeltaTable(str(warehouse / "coordinator_records")).to_pyarrow_table(
        columns=["record_type", "decode_error"]
    )
    assert records.num_rows > 100
    assert records["decode_error"].null_count == records.num_rows

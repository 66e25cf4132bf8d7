#!/bin/sh
# One pass on a standalone cluster of Spark's. What its machines need is installed on each of them: a Python of the
# driver's version with requirements/project.lock at the same path, for pyarrow, pydantic and the others. What is brought
# along:
#   groupledger.zip      our code: `python -m tools.build_archive`
#   the JARs             of Delta Lake and the Kafka connector, as `make setup` has put them into .jars/spark
# The driver runs here (client mode): in cluster mode a standalone cluster takes no Python. The warehouse has to be a place
# that all machines see: an object store, HDFS, or a disk that they share. For s3a:// add the JARs of .jars/s3, and give
# the executors what docs/object_stores.md names (`--conf spark.executorEnv.AWS_REGION=...`), or a role.
set -eu
HOME_OF_LEDGER=${HOME_OF_LEDGER:-/opt/groupledger}

exec spark-submit \
    --master "${MASTER:-spark://master:7077}" \
    --deploy-mode client \
    --name groupledger \
    --conf spark.pyspark.python="$HOME_OF_LEDGER/.venv/bin/python" \
    --conf spark.driver.memory=3g \
    --conf spark.executor.memory=2g \
    --conf spark.cores.max=4 \
    --jars "$(printf '%s,' "$HOME_OF_LEDGER"/.jars/spark/*.jar | sed 's/,$//')" \
    --py-files "$HOME_OF_LEDGER/build/groupledger.zip" \
    "$HOME_OF_LEDGER/jobs/cli/main.py" \
    pipeline --bootstrap-servers broker-1:9092 --warehouse s3a://bucket/ledger

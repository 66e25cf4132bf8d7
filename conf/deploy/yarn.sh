#!/bin/sh
# One pass on YARN. What the cluster's machines lack is brought along:
#   environment.tar.gz   a packed environment with requirements/project.lock (venv-pack or conda-pack), for pyarrow,
#                        pydantic and the others; built on the same kind of machine as the cluster's
#   groupledger.zip      our code: `python -m tools.build_archive`
#   the JARs             of Delta Lake and the Kafka connector, as `make setup` has put them into .jars/spark
# Master, memory, JARs and interpreter are as they are given here; of conf/spark-defaults.conf the rest counts.
set -eu
HOME_OF_LEDGER=${HOME_OF_LEDGER:-/opt/groupledger}

# spark.driver.memory: the driver keeps Delta's logs and folds the open groups, and needs more than an executor.
# maxAppAttempts 1: a second attempt would wait for the lease of the first, and the next pass goes on anyway.
# ledger.yaml is shipped with --files, and lies in the driver's working directory then.
exec spark-submit \
    --master yarn \
    --deploy-mode cluster \
    --name groupledger \
    --archives environment.tar.gz#environment \
    --conf spark.pyspark.python=./environment/bin/python \
    --conf spark.driver.memory=3g \
    --conf spark.executor.instances=2 \
    --conf spark.executor.memory=2g \
    --conf spark.executor.memoryOverhead=1g \
    --conf spark.yarn.maxAppAttempts=1 \
    --jars "$(printf '%s,' "$HOME_OF_LEDGER"/.jars/spark/*.jar | sed 's/,$//')" \
    --py-files "$HOME_OF_LEDGER/build/groupledger.zip" \
    --files ledger.yaml \
    "$HOME_OF_LEDGER/jobs/cli/main.py" \
    pipeline --bootstrap-servers broker-1:9092 --warehouse hdfs:///ledger --conf ledger.yaml

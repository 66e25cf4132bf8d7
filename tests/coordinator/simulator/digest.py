"""Plays scenarios and writes one digest of everything that came out; run in processes of its own."""

import hashlib
import sys

from groupledger.coordinator.model.log_lines import render_line as render_server_line
from groupledger.coordinator.simulator.request_log import render_line as render_request_line
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.schemas.codec.records import encode_record

digest = hashlib.sha256()
for name in ("protocol-upgrade", "zombie-commits", "coordinator-failover", "transactional-commits"):
    simulation = prepare(SCENARIOS[name], 11)
    simulation.run(simulation.now_ms + 900_000)
    outputs = simulation.take(is_last=True)
    for batch in outputs.batches:
        for record in batch.records:
            digest.update(repr((batch.base_offset, batch.timestamp_ms, encode_record(record))).encode())
    for exchange in outputs.exchanges:
        digest.update(render_request_line(exchange).encode())
    for broker, event in outputs.events:
        digest.update(render_server_line(event, broker_id=broker).encode())
    digest.update(repr((outputs.watermarks, outputs.group_states, simulation.recorder.truth)).encode())
sys.stdout.write(digest.hexdigest())

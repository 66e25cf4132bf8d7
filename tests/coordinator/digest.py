"""Plays every scenario and writes one digest of all bytes and texts that came out; run in processes of its own."""

import hashlib
import sys

from groupledger.coordinator.model.log_lines import render_line
from groupledger.schemas.codec.records import encode_record
from lab.scenarios import SCENARIOS, CoordinatorDriver

digest = hashlib.sha256()
for scenario in SCENARIOS:
    driver = CoordinatorDriver(**scenario.settings)
    scenario.play(driver)
    for batch in driver.batches:
        for record in batch.records:
            digest.update(repr(encode_record(record)).encode())
    for event in driver.events:
        digest.update(render_line(event, broker_id=1).encode("utf-8", "surrogatepass"))
    digest.update(repr(driver.responses).encode())
sys.stdout.write(digest.hexdigest())

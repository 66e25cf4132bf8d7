"""A line of a real broker's server log written again: by the template that reads it, and by our own coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.coordinator.model.log_lines import LogEvent, render_line
from groupledger.schemas.kafka.coordinator_log import CLASSIC, OTHERS, PREFIX
from groupledger.schemas.kafka.log4j_line import parse_log_line
from groupledger.schemas.kafka.log_template import Template, current_formats

_TEMPLATES = [(kind, text, Template(text, {})) for kind, text in (*CLASSIC, *OTHERS)]


@dataclass(frozen=True)
class WrittenAgain:
    kind: str
    by_template: str  # the text without prefix
    by_coordinator: str  # the whole line


def written_again(line: str) -> tuple[str, WrittenAgain | None]:
    """Returns the text of an entry, and the text that the table writes from the values that it reads in it; None if no
    template fits."""
    parsed = parse_log_line(line, "UTC")
    assert parsed is not None
    prefix = PREFIX.match(parsed.message)
    assert prefix is not None
    message = parsed.message[prefix.end() :]
    for kind, text, template in _TEMPLATES:
        split = template.split(message)
        if split is not None:
            event = LogEvent(parsed.logged_at_us // 1_000, int(prefix["kafka_partition"] or -1), kind, split.fields)
            (rendered,) = current_formats([(kind, text)]).values()
            fits_first = current_formats((*CLASSIC, *OTHERS))[kind] == rendered
            by_coordinator = render_line(event, broker_id=int(prefix["broker_id"])) if fits_first else ""
            return message, WrittenAgain(kind, rendered.format_map(split.fields), by_coordinator)
    return message, None

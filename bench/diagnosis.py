"""Measures how true the diagnosis of real groups is, with a broker, Kafka's Java client, librdkafka and kafka-python.

The table of causes has causes that one broker and its clients can be brought to. Each of these is played
(`lab.diagnosis`) by a small group, whose name says nothing about the play. Sixty groups play side by side on one
timeline and one broker, since with more groups on two cores healthy sessions would expire. Each such round has a folder
of its own. The ledger is then asked about every group at three levels of evidence: with all sources, without the
brokers' logs, and from the topic alone.

    python -m bench.diagnosis [--repeat 1] [--minutes 4.5] [--only NAME ...] [--clients java ...] [--at-once 60]
                              [--keep FOLDER]
    python -m bench.diagnosis --restart --only well well_modern well_static     # the coordinator goes and comes back
    python -m bench.diagnosis --again FOLDER     # judges a run that was kept, with today's rules

It prints, by cause and client, whether the answer was right, left the cause among rivals, was wrong, or was silent. It
also prints all false claims, and all healthy clients that were blamed. A group is listed and not judged if its play
failed, or if a session expired because the machine was slow. The run ends with 1 if a healthy client was blamed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.jobs.process.output import json_text
from lab.diagnosis.clients import CLIENTS
from lab.diagnosis.judge import OUTCOMES, RIGHT, WRONG, judged
from lab.diagnosis.levels import LEVELS, answer, make_warehouses, said
from lab.diagnosis.plays import all_plays, in_rounds
from lab.diagnosis.run import Timeline, play_all
from lab.diagnosis.truth import read_truth

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.diagnosis.judge import Judged
    from lab.diagnosis.plays import Play
    from lab.diagnosis.truth import Played

WELL = "(nothing is wrong)"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=1, help="how many groups play each cause with each client")
    parser.add_argument("--minutes", type=float, default=4.5)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the plays; by default all")
    parser.add_argument("--clients", nargs="+", default=CLIENTS, choices=CLIENTS)
    parser.add_argument("--at-once", type=int, default=60, help="how many groups play on one broker")
    parser.add_argument("--restart", action="store_true", help="start the broker again in the middle")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where all of it stays")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="judge a run that was kept")
    parser.add_argument("--as-it-is", action="store_true", help="with --again: from the warehouses that are there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupledger-diagnosis-") as made:
        folder = (arguments.again or arguments.keep or Path(made)).resolve()
        if arguments.again is None:
            play_rounds(folder, arguments)
        rounds = sorted(each.parent for each in folder.rglob("truth.jsonl"))
        if not arguments.as_it_is:
            for each in rounds:
                make_warehouses(each)
        return report([(each, played) for each in rounds for played in read_truth(each / "truth.jsonl")])


def play_rounds(folder: Path, arguments: argparse.Namespace) -> None:
    timeline = Timeline(seconds=arguments.minutes * 60, restarts=arguments.restart)
    for of_round, plays in in_rounds(folder, [*chosen(arguments)], arguments.at_once):
        play_all(of_round, plays, timeline)


def chosen(arguments: argparse.Namespace) -> Iterator[tuple[Play, str]]:
    for name, play in all_plays().items():
        if arguments.only is None or name in arguments.only:
            for client in play.clients:
                if client in arguments.clients:
                    yield from [(play, client)] * arguments.repeat


def report(all_played: Sequence[tuple[Path, Played]]) -> int:
    """Prints the judgement at each level, of groups with the folders of their rounds."""
    played, blamed = [], 0
    for folder, each in all_played:
        if each.spoiled_by is not None:
            print(f"not judged: {each.play} with {each.client} ({folder.name}/{each.group_id}): {each.spoiled_by}")
        else:
            played.append((folder, each))
    for level in LEVELS:
        for folder in {folder for folder, _ in played}:
            (folder / f"answers-{level}.jsonl").unlink(missing_ok=True)
        found = [(each, of_group(folder, level, each)) for folder, each in played]
        print_level(level, found)
        blamed += sum(len(one.blamed) for _, one in found)
    return int(bool(blamed))


def of_group(folder: Path, level: str, played: Played) -> Judged:
    """Returns the judgement of the answer about a group, and writes the answer into the folder of its round."""
    verdict = answer(folder / level, played.group_id, played.began_ms)
    row = {"group": played.group_id, "play": played.play, "client": played.client, "verdict": verdict}
    with (folder / f"answers-{level}.jsonl").open("a") as lines:
        lines.write(json_text(row) + "\n")
    return judged(played, said(verdict))


def print_level(level: str, found: Iterable[tuple[Played, Judged]]) -> None:
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    totals, lines, groups, alarms, blamed = Counter[str](), [], 0, 0, 0
    for played, one in found:
        groups += 1
        alarms += bool(one.false_claims)
        blamed += len(one.blamed)
        for cause, outcome in one.outcomes or ((WELL, WRONG if one.false_claims else RIGHT),):
            counts[cause, played.client][outcome] += 1
            totals[outcome] += 1
        if one.false_claims or one.blamed or any(outcome != RIGHT for _, outcome in one.outcomes):
            true = ", ".join(f"{cause} {outcome}" for cause, outcome in one.outcomes) or WELL
            more = "".join(
                f"; {what}: {', '.join(names)}"
                for what, names in (("claimed falsely", one.false_claims), ("blamed", one.blamed))
                if names
            )
            lines.append(f"  {played.group_id} {played.play} {played.client}: {true}{more}")
    print(f"\n## {level}\n\n| cause | client | {' | '.join(OUTCOMES)} |\n|---|---|{'---:|' * len(OUTCOMES)}")
    for (cause, client), row in sorted(counts.items()):
        print(f"| {cause} | {client} | {' | '.join(str(row[each]) for each in OUTCOMES)} |")
    print(f"| all | all | {' | '.join(str(totals[each]) for each in OUTCOMES)} |\n")
    shares = ", ".join(f"{each} {totals[each] / max(1, totals.total()):.1%}" for each in OUTCOMES)
    print(
        f"{groups} groups, {totals.total()} causes: {shares}; false claims in {alarms} groups, {blamed} well and blamed"
    )
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())

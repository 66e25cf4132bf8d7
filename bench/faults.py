"""Injects faults at random, by a seed, while the pipeline runs, follows the remedies in its messages, and compares the
tables with an undisturbed reading of the same log.

    python -m bench.faults --seeds 3 --faults-per-seed 10 [--in-a-row 3] [--only KIND...] [--list]
    python -m bench.faults --first-seed 2 --seeds 1 --fault 7      # one fault again

For each seed an hour of ten groups is simulated (`lab.faults.growing_log`) and cut into pieces, and an undisturbed pass
reads each piece in turn. Each fault begins with the warehouse before one of these passes, and is given the piece of
that pass. At the end all tables must equal those after that pass, as multisets. Kinds of faults take turns, in an order
by the seed. With `--in-a-row`, successive faults of processes happen to one warehouse, each with the next piece, before
it is repaired and compared. Faults of a live cluster and of log imports begin with an empty warehouse, and must end
with the tables of an undisturbed reading of the same topic, or of the same files.

The property: if a command stops, its message is one sentence and its exit code fits, the remedy in the message helps,
nothing is lost, and nothing is there twice. A stop without such a sentence is counted. It fails the run only with
`--strict`, or if its kind of fault is one of `STRICT`.
"""

from __future__ import annotations

import argparse
import random
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from lab.faults import damage, kinds, live, log_imports
from lab.faults.growing_log import make_pieces
from lab.faults.processes import Launcher
from lab.faults.shim import build_shim
from lab.faults.trials import (
    OUTCOMES,
    Stage,
    Trial,
    at_rest,
    judge,
    lay_out,
    let_happen,
    make_stage,
    outcome_of,
    unread,
)
from lab.faults.warm import WarmProcess
from lab.warehouses.releases import unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lab.faults.processes import Ended
    from lab.faults.trials import Happened

FAULTS: dict[str, Callable[[Trial], None]] = kinds.FAULTS | damage.FAULTS | live.FAULTS | log_imports.FAULTS
IN_A_ROW = kinds.IN_A_ROW.keys() | kinds.OF_DELETERS.keys()
CLUSTER = "test"
ARCHIVES = sorted((Path(__file__).resolve().parents[1] / "tests/data/warehouses").glob("*.tar.gz"))
OF_RELEASE = ("east", "west")  # the clusters in each archive
NEED_TABLES = {"read-for-minutes", *kinds.OF_DELETERS, *damage.FAULTS}
AT_REST = ("deleter-sleeps", "deleter-is-killed", "deleter-fails")
# Faults that are compared with a reading of their own, and not with one of the passes over the log.
OWN_READING = live.FAULTS.keys() | log_imports.FAULTS.keys()
KILLS = {"kill-at-a-moment", "kill-at-a-call"}
# Faults that writers which are killed, stopped or refused must always survive.
STRICT = (
    *("kill-at-a-moment", "kill-at-a-call", "sleep-and-be-overtaken", "sleep-past-the-lease", "two-writers", "crowd"),
    *("deleter-sleeps", "deleter-is-killed"),
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of one fault. `unclean` are ends that users are not promised, `problems` violations of the
    property."""

    kind: str
    outcome: str
    seconds: float
    unclean: Sequence[str]
    problems: Sequence[str]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.list:
        for name, fault in FAULTS.items():
            print(f"{name:28}{first_sentence(fault)} {damage.FILES.get(name.removeprefix('damaged-'), '')}")
        return 0
    # If a signal ends it, it still stops its processes, and prints its results so far.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="groupledger-faults-") as made:
        directory = (options.directory or Path(made)).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        results: list[Result] = []
        try:
            for result in campaign(options, directory):
                results.append(result)  # noqa: PERF402 - what there is is shown, however it ends
        finally:
            print_table(results)
    is_strict = {each.kind for each in results if options.strict or each.kind in STRICT}
    return int(any(each.problems or (each.unclean and each.kind in is_strict) for each in results))


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m bench.faults", description=(__doc__ or "").split("\n\n")[0])
    found.add_argument("--seeds", type=int, default=3, help="how many seeds")
    found.add_argument("--first-seed", type=int, default=1)
    found.add_argument("--faults-per-seed", type=int, default=10)
    found.add_argument("--in-a-row", type=int, default=1, help="how many faults may happen before one comparison")
    found.add_argument("--pieces", type=int, default=3, help="into how many pieces a log is cut")
    found.add_argument("--upgrade", action="store_true", help="begin with warehouses of earlier releases, too")
    found.add_argument("--at-rest", action="store_true", help="only deleters, on warehouses of earlier releases")
    found.add_argument("--fault", type=int, help="only the fault of this number of each seed")
    found.add_argument("--only", nargs="+", metavar="KIND", choices=sorted(FAULTS), default=sorted(FAULTS))
    found.add_argument("--directory", type=Path, help="where to work, and leave what was made")
    found.add_argument("--strict", action="store_true", help="fail if any stop is not one sentence")
    found.add_argument("--list", action="store_true", help="show the kinds of faults")
    return found


def first_sentence(fault: Callable[[Trial], None]) -> str:
    what = getattr(fault, "keywords", {}).get("fault") or getattr(fault, "func", fault)
    text = what.__doc__ or ""
    return " ".join(text.split("\n\n")[0].split())


def campaign(options: argparse.Namespace, directory: Path) -> Iterator[Result]:
    shim = build_shim(directory)
    with closing(WarmProcess()) as victim, closing(WarmProcess()) as other:
        # One path for all trials: Spark's checkpoints name the files that they have read, and a cold process needs six
        # times the processor time of a warm one, so that both outlive the seeds. What is killed has a process of its
        # own, so that where nothing else happens one warm process does for the undisturbed passes and the repairs.
        warm = victim if KILLS.issuperset(options.only) else other
        launcher = Launcher(directory / "trial", shim, warm, victim)
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            yield from faults_of(seed, directory / f"seed-{seed}", launcher, options)


def faults_of(seed: int, folder: Path, launcher: Launcher, options: argparse.Namespace) -> Iterator[Result]:
    make = rest_stages if options.at_rest else make_stages
    stages = make(folder, launcher, seed, options)
    if options.upgrade:
        stages += [make_upgrade(folder, launcher, archive) for archive in ARCHIVES]
    # Of the middle one: the first may have found a cold process.
    seconds = median(each.seconds for each in stages)
    stages = [replace(each, seconds=seconds) for each in stages]
    order = random.Random(seed).sample(options.only, len(options.only))  # noqa: S311 - repeatable
    for row in rows(order, options.faults_per_seed, options.in_a_row):
        if options.fault is None or options.fault in row:
            results = try_faults(row, seed, stages, launcher)
            if any(each.problems for each in results):
                say(f"  again: {again(options, seed, min(row))}")
            yield from results


def rows(order: Sequence[str], count: int, length_max: int) -> list[dict[int, str]]:
    """Returns the kinds of `count` faults by their numbers, in groups that happen to one warehouse."""
    found: list[dict[int, str]] = []
    for number in range(count):
        kind = order[number % len(order)]
        is_next = found and len(found[-1]) < length_max and {kind, *found[-1].values()} <= IN_A_ROW
        if not is_next:
            found.append({})
        found[-1][number] = kind
    return found


def again(options: argparse.Namespace, seed: int, number: int) -> str:
    """Returns the command that tries one fault again."""
    where = ["--first-seed", seed, "--seeds", 1, "--faults-per-seed", options.faults_per_seed, "--fault", number]
    how = ["--in-a-row", options.in_a_row, "--pieces", options.pieces, *["--upgrade"] * options.upgrade]
    words = [*where, *how, *([] if options.only == sorted(FAULTS) else ["--only", *options.only])]
    return f"python -m bench.faults {shlex.join(map(str, words))}"


def make_stages(folder: Path, launcher: Launcher, seed: int, options: argparse.Namespace) -> list[Stage]:
    folder.mkdir()
    pieces = make_pieces(folder / "log", seed, options.pieces)
    if OWN_READING.issuperset(options.only):
        return [unread(launcher, pieces[-1], CLUSTER)]
    stages: list[Stage] = []
    before: Path | None = None
    for number, inputs in enumerate(pieces, 1):
        after = folder / f"after-{number}"
        stages.append(make_stage(f"piece {number}", launcher, before, inputs, after, CLUSTER))
        before = after
        say(f"seed {seed}: {stages[-1].name} in {stages[-1].seconds:.0f} s, calls {stages[-1].counts}")
    return stages


def rest_stages(folder: Path, launcher: Launcher, _: int, options: argparse.Namespace) -> list[Stage]:
    assert {*options.only} <= {*AT_REST}, f"at rest there are only {', '.join(AT_REST)}"
    folder.mkdir()
    releases = [unpacked(archive, folder / "releases") for archive in ARCHIVES]
    return [at_rest(each.name, launcher, each / "warehouse", each / OF_RELEASE[0], OF_RELEASE) for each in releases]


def make_upgrade(folder: Path, launcher: Launcher, archive: Path) -> Stage:
    """Returns the first pass of today's code over a warehouse that an earlier release has written."""
    release = unpacked(archive, folder / "releases")
    inputs, after = release / OF_RELEASE[0], release / "after"
    return make_stage(f"upgrade from {release.name}", launcher, release / "warehouse", inputs, after, OF_RELEASE[0])


def try_faults(row: Mapping[int, str], seed: int, stages: Sequence[Stage], launcher: Launcher) -> list[Result]:
    """Injects faults one after the other, and returns the outcome of each."""
    chance = {
        number: random.Random(f"{seed}/{number}/{kind}")  # noqa: S311 - repeatable
        for number, kind in row.items()
    }
    first = min(row)
    # Each fault of a row finds new inputs, as far as there are some.
    begins = stages[: max(1, len(stages) - len(row) + 1)]
    if NEED_TABLES & {*row.values()}:
        begins = [each for each in stages if any(each.before.iterdir())]
    stage = chance[first].choice(begins)
    lay_out(launcher.folder, stage.before, stage.inputs, stage.cluster)
    trial = Trial(random=chance[first], stage=stage, launcher=replace(launcher, started=[]))
    began = time.monotonic()
    happened: list[Happened] = []
    try:
        for number, each in row.items():
            trial.random = chance[number]
            if happened:
                trial.go_on(stages)
            happened.append(let_happen(trial, each, FAULTS[each]))
        problems = judge(trial)
    finally:
        trial.launcher.end_all()
    seconds = time.monotonic() - began
    print_trial(trial, seed, row, seconds, problems)
    of_repair = trial.ends[sum(len(each.ends) for each in happened) :]
    return [
        Result(
            kind=each.kind,
            outcome=outcome_of(trial, each),
            seconds=seconds / len(row),
            unclean=unclean([*each.ends, *of_repair]),
            problems=problems,
        )
        for each in happened
    ]


def unclean(ends: Sequence[Ended]) -> list[str]:
    return [f"{each.command.split(' --')[0]}: {each.code}: {each.sentence}" for each in ends if not each.is_clean]


def print_trial(trial: Trial, seed: int, row: Mapping[int, str], seconds: float, problems: Sequence[str]) -> None:
    codes = " ".join(str(each.code) for each in trial.ends)
    numbers = ", ".join(map(str, row))
    say(f"seed {seed} fault {numbers} at {trial.stage.name} ({'; '.join(trial.notes)}): codes {codes}, {seconds:.0f} s")
    for line in dict.fromkeys(each.sentence for each in trial.ends if each.is_clean and each.code > 0):
        say(f"  said: {line[:300]}")
    for line in unclean(trial.ends):
        say(f"  not one sentence: {line[:300]}")
    for line in problems:
        say(f"  WRONG: {line}")


def print_table(results: Sequence[Result]) -> None:
    columns = (*OUTCOMES, "traceback", "different", "seconds")
    print(f"{'fault':28}{'tried':>7}" + "".join(f"  {name}" for name in columns))
    for kind in [*sorted({each.kind for each in results}), None]:
        found = [each for each in results if kind in (None, each.kind)]
        outcomes = Counter(each.outcome for each in found)
        figures = [outcomes[name] for name in OUTCOMES]
        figures += [sum(bool(each.unclean) for each in found), sum(bool(each.problems) for each in found)]
        seconds = sum(each.seconds for each in found)
        cells = [f"{figure:>{len(name) + 2}}" for name, figure in zip(columns, [*figures, round(seconds)], strict=True)]
        print(f"{kind or 'all':28}{len(found):>7}" + "".join(cells))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""Runs one trial of a fault: prepares a warehouse, applies the fault, follows the remedies in messages, and compares.

A stage is one step of the pipeline: a warehouse before, inputs that have grown, and the tables after an undisturbed
pass. Every trial begins with a copy of a stage's warehouse, at the path where the stage was made, since Spark's
checkpoints name files by their paths.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import DeltaError

from lab.faults.contents import WIDTH_SHOWN, contents, differences, without
from lab.faults.shim import COUNT, PLACES

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from random import Random

    from lab.faults.processes import Ended, Launcher, Process, Victim
    from lab.faults.shim import Twist
    from lab.faults.warm import WarmCommand

LEASE_S = 8
REPAIRS_MAX = 5
NO_EFFECT, REPAIRED, REFUSED, KILLED, RESTORED = (
    *("no effect", "went on", "refused and repaired", "killed and repaired"),
    "restored and repaired",
)
OUTCOMES = (NO_EFFECT, REPAIRED, REFUSED, KILLED, RESTORED)
CALLS_GUESSED, PASS_S = 200, 40.0
WARM = 0.35  # of the time that a pass takes in a process of its own
READ = ("pipeline", "ingest")
REBUILD = "history --rebuild"
HISTORY, MAINTAIN = "history", "maintain"
VICTIMS = ("pipeline", "pipeline", "pipeline", REBUILD, MAINTAIN)
# What a rebuild of the history drops. It is kept anew up to the last round, where passes that nothing disturbs keep it
# once an hour; what follows from it is compared.
KEPT = frozenset({"commit_steps", "lag_seeds"})


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of the pipeline. `before` is the warehouse at its begin, and `after`, if there is one, the warehouse
    with which the next stage begins. `expected` has the tables after an undisturbed pass. `counts` has the number of
    calls of an undisturbed run, by command and by place of the shim, and `seconds` is the duration of a pass in a
    process of its own. If there are `at_rest`, the clusters whose history is known, then there is nothing to read, and
    only commands run that change no row."""

    name: str
    cluster: str
    before: Path
    after: Path | None = None
    inputs: Path
    expected: dict[str, Counter[str]]
    counts: Mapping[str, Mapping[str, int]]
    seconds: float
    at_rest: Sequence[str] = ()


@dataclass(kw_only=True)
class Trial:
    """Holds what a fault needs: random numbers, a warehouse, and commands to run on it.

    `is_touched` says that the fault happened. `restore` puts back the files in `saved`, which a fault has damaged.
    `source` has the arguments that name what a pass reads, if that is not the stage's inputs. A fault that makes its
    own comparison writes the problems into `judged`. `disturbed` has the ends of the commands that the fault disturbed;
    None stands for all commands that ran during the fault.
    """

    random: Random
    stage: Stage
    launcher: Launcher
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    is_touched: bool = False
    is_killed: bool = False
    was_restored: bool = False
    has_gone_on: bool = False
    saved: dict[Path, bytes] = field(default_factory=dict)
    source: Sequence[str] = ()
    judged: list[str] | None = None
    disturbed: list[Ended] | None = None

    @property
    def warehouse(self) -> Path:
        return self.launcher.folder / "warehouse"

    def note(self, text: str) -> None:
        self.notes.append(text)

    def start(
        self, command: str, *more: str, twist: Twist = COUNT, environment: Mapping[str, str] | None = None
    ) -> Process:
        return self.launcher.start(command, *self._arguments(command), *more, twist=twist, environment=environment)

    def start_warm(self, command: str, *, twist: Twist = COUNT) -> WarmCommand:
        """Starts a command in a warm process. The twist must not end that process."""
        return self.launcher.start_warm(command, *self._arguments(command), twist=twist)

    def finish(self, process: Victim) -> Ended:
        self.ends.append(process.finish())
        return self.ends[-1]

    def run(self, command: str, *more: str) -> Ended:
        self.ends.append(self.launcher.run(command, *self._arguments(command), *more))
        return self.ends[-1]

    def _arguments(self, command: str) -> Sequence[str]:
        of_pass = self.source or inputs_of(self.launcher.folder)
        return of_pass if command in READ else ()

    def go_on(self, stages: Sequence[Stage]) -> None:
        """Moves the trial to the next stage, if there is one: copies the inputs of that stage, so that the next fault
        has new records to read."""
        following = next((each for each in stages if each.before == self.stage.after), None)
        if following is not None:
            self.has_gone_on = True
            self.stage = following
            self.note(f"at {following.name}")
            bring(self.launcher.folder, following.inputs)

    def victim(self) -> str:
        """Returns a random command to disturb. If the stage begins without tables, returns `pipeline`, because no other
        command has anything to do then."""
        return self.random.choice(VICTIMS) if any(self.stage.before.iterdir()) else "pipeline"

    def moment_s(self, share: float = 1) -> float:
        """Returns a random time within a pass, in seconds from its begin. `share` is the duration of the pass as a
        share of that of a pass in a process of its own."""
        return self.random.uniform(0.05, 1.1) * self.stage.seconds * share

    def save(self, path: Path) -> None:
        """Remembers the bytes of a file, which `restore` puts back."""
        self.saved[path] = path.read_bytes()

    def restore(self) -> None:
        for path, content in self.saved.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.saved.clear()
        self.was_restored = True


def inputs_of(folder: Path) -> Sequence[str]:
    return ("--capture", str(folder / "inputs/capture"), "--samples", str(folder / "inputs"))


def lay_out(folder: Path, before: Path | None, inputs: Path, cluster: str) -> None:
    """Creates the folder of a trial anew, with a copy of the inputs and of the warehouse `before`, if there is one, and
    with settings."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bring(folder, inputs)
    if before is not None:
        shutil.copytree(before, folder / "warehouse", symlinks=True)
    (folder / "settings.yaml").write_text(f"cluster: {cluster}\nlease: {{duration_s: {LEASE_S}}}\n")


def bring(folder: Path, inputs: Path) -> None:
    """Copies inputs into the folder of a trial. They replace the former inputs, and contain all of them."""
    shutil.rmtree(folder / "inputs", ignore_errors=True)
    shutil.copytree(inputs, folder / "inputs")


def make_stage(name: str, launcher: Launcher, before: Path | None, inputs: Path, after: Path, cluster: str) -> Stage:
    """Returns a stage: runs an undisturbed pass over `inputs` in the warm process with the shim, copies the resulting
    warehouse to `after`. Then counts the calls of the other commands that faults disturb, if the stage begins with
    tables: else no other command is disturbed (`Trial.victim`)."""
    folder = launcher.folder
    lay_out(folder, before, inputs, cluster)
    began = time.monotonic()
    counts = {READ[0]: counted(launcher, READ[0], *inputs_of(folder))}
    seconds = (time.monotonic() - began) / WARM
    shutil.copytree(folder / "warehouse", after)
    others = sorted({*VICTIMS} - counts.keys()) if before is not None else ()
    counts |= {command: counted(launcher, command) for command in others}
    state_before = before or after.with_name(f"{after.name}-empty")
    state_before.mkdir(exist_ok=True)
    return Stage(
        name=name,
        cluster=cluster,
        before=state_before,
        after=after,
        inputs=inputs,
        expected=contents(after),
        counts=counts,
        seconds=seconds,
    )


def counted(launcher: Launcher, command: str, *arguments: str) -> dict[str, int]:
    process = launcher.start_warm(command, *arguments)
    ended = process.finish()
    assert ended.code == 0, ended.said
    return process.shim.counts()


def at_rest(name: str, launcher: Launcher, before: Path, inputs: Path, clusters: Sequence[str]) -> Stage:
    """Returns a stage for commands that change no row. Its warehouse is a copy of `before`, with the history of all its
    clusters, after maintenance. Maintenance fails while a stream has left rows unread for days."""
    folder, cluster = launcher.folder, clusters[0]
    lay_out(folder, before, inputs, cluster)
    for each in clusters:
        counted(launcher, HISTORY, "--cluster", each)
    counted(launcher, MAINTAIN)
    untouched = folder.with_name(f"{name}-at-rest")
    shutil.copytree(folder / "warehouse", untouched)
    calls = dict.fromkeys(VICTIMS, dict.fromkeys(PLACES, CALLS_GUESSED))
    return Stage(
        name=f"{name} at rest",
        cluster=cluster,
        before=untouched,
        inputs=inputs,
        expected=contents(untouched),
        counts=calls,
        seconds=PASS_S,
        at_rest=clusters,
    )


def unread(launcher: Launcher, inputs: Path, cluster: str) -> Stage:
    """Returns a stage for faults that make their own comparison, so that no undisturbed pass is run. Its counts and its
    duration are estimates, which only decide when faults happen."""
    before = launcher.folder.with_name("empty")
    before.mkdir(exist_ok=True)
    counts = dict.fromkeys(VICTIMS, dict.fromkeys(PLACES, CALLS_GUESSED))
    return Stage(name="all", cluster=cluster, before=before, inputs=inputs, expected={}, counts=counts, seconds=PASS_S)


def repair(trial: Trial, command: str = "pipeline", *words: str) -> bool:
    """Runs a command with `words` until it succeeds, at most `REPAIRS_MAX` times, and returns whether it did. After
    each failure it follows the remedy in the message. Damaged files that no remedy repairs are restored."""
    more: tuple[str, ...] = ()
    tried: set[str] = set()
    for _ in range(REPAIRS_MAX):
        ended = trial.run(command, *words, *more)
        if ended.code == 0:
            return True
        more = ()
        wait_as_advised(ended.sentence)
        is_removed = remove_as_advised(trial.warehouse, ended.sentence)
        if "ingest --recover" in ended.sentence and "recover" not in tried:
            tried.add("recover")
            more = ("--recover",)
        elif REBUILD in ended.sentence and "rebuild" not in tried:
            tried.add("rebuild")
            trial.run(REBUILD)
        elif is_removed:
            tried.add("again")
        elif trial.saved and ("restore it" in ended.sentence or "again" in tried):
            trial.restore()
        else:
            tried.add("again")
    return False


def repair_all(trial: Trial) -> bool:
    """Repairs a warehouse by a pass. At rest there is nothing to read, so that it folds the history of all clusters,
    which `forget` has made necessary, and maintains the tables."""
    if not trial.stage.at_rest:
        return repair(trial)
    return all(repair(trial, HISTORY, "--cluster", each) for each in trial.stage.at_rest) and repair(trial, MAINTAIN)


def wait_as_advised(sentence: str) -> None:
    """Waits until a lease runs out, if a message advises that. A process may have been unable to release its lease
    because its disk was gone."""
    match = re.search(r"wait until its lease runs out in (\d+) s", sentence)
    if match is not None:
        time.sleep(int(match[1]) + 1)


def remove_as_advised(warehouse: Path, sentence: str) -> bool:
    """Removes the folder or file that a message advises to move out of the warehouse. Returns whether the message
    advises that."""
    folder = re.search(r"move the folder (\S+) out of the warehouse and run", sentence)
    file = re.search(r"The file (\S+) of the warehouse is damaged: (?:restore it, or )?move it out", sentence)
    match = folder or file
    if match is not None:
        path = (warehouse / match[1]).resolve()
        assert warehouse.resolve() in path.parents, path
        if folder is None:
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path, ignore_errors=True)
    return match is not None


@dataclass(frozen=True, kw_only=True)
class Happened:
    """A fault that happened in a trial. `ends` has the ends of all commands that ran during it, and `disturbed` those
    of the commands that it disturbed."""

    kind: str
    ends: Sequence[Ended]
    disturbed: Sequence[Ended]
    is_touched: bool
    is_killed: bool


def let_happen(trial: Trial, kind: str, fault: Callable[[Trial], None]) -> Happened:
    """Applies one fault to a trial, and returns it. A trial may have several faults before it is judged."""
    before = len(trial.ends)
    trial.is_touched = trial.is_killed = False
    trial.note(kind)
    fault(trial)
    ends = trial.ends[before:]
    disturbed = ends if trial.disturbed is None else trial.disturbed
    return Happened(kind=kind, ends=ends, disturbed=disturbed, is_touched=trial.is_touched, is_killed=trial.is_killed)


def judge(trial: Trial) -> list[str]:
    """Repairs the trial's warehouse, compares it with the stage's expected tables, and returns a line for each
    violation."""
    if trial.judged is not None:
        return trial.judged
    found = differences_of(trial) if repair_all(trial) else [no_remedy(trial)]
    found += trial.problems
    if found and trial.saved:
        found = mend_damage(trial, found)
    return found


def no_remedy(trial: Trial) -> str:
    return f"no remedy helped; at last: {trial.ends[-1].sentence}"


def outcome_of(trial: Trial, fault: Happened) -> str:
    """Returns the outcome of a fault, one of `OUTCOMES`. Its trial must have been judged."""
    if trial.was_restored:
        return RESTORED
    if fault.is_killed:
        return KILLED
    if not fault.is_touched:
        return NO_EFFECT
    # A fault of files at rest is met by the first run that repairs.
    return REFUSED if any(ended.code for ended in fault.disturbed or trial.ends) else REPAIRED


def differences_of(trial: Trial) -> list[str]:
    left_out = KEPT if keeps_anew(trial) else frozenset()
    try:
        return differences(without(contents(trial.warehouse), left_out), without(trial.stage.expected, left_out))
    except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
        return [f"a table can't be read: {' '.join(str(error).split())[:WIDTH_SHOWN]}"]


def keeps_anew(trial: Trial) -> bool:
    """Returns whether rows of the tables `KEPT` may differ from those of the undisturbed run. They may if a command
    rebuilt the history, if the fault removed one of these tables, or if the trial went on to another stage."""
    match = [*trial.notes, *(each.said for each in trial.ends), *(each.command for each in trial.ends)]
    return trial.has_gone_on or any(word in text for word in (*KEPT, REBUILD, "history: rebuilt") for text in match)


def mend_damage(trial: Trial, differing: list[str]) -> list[str]:
    """Repairs damage that no command has noticed, and returns the remaining differences. If `validate` reports the
    damage, it tries a rebuild. If that does not help, it restores the file, as from a backup."""
    trial.note(f"not met by a run: {differing[0]}")
    if trial.run("validate").code == 1:
        trial.run(REBUILD)
        if repair(trial) and not (differing := differences_of(trial)):
            return []
    trial.restore()
    return differences_of(trial) if repair(trial) else [no_remedy(trial)]

"""Names the faults that happen to processes. Each is a function of a trial, which starts commands and disturbs them.

A fault makes all its choices with the trial's random numbers. It disturbs a command at a time, or at a call that
changes files, which the shim finds by counting such calls.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from lab.faults.shim import COUNT, PLACES, Twist
from lab.faults.trials import LEASE_S, MAINTAIN, REBUILD, WARM

if TYPE_CHECKING:
    from pathlib import Path

    from lab.faults.trials import Trial

DAY_S = 86_400
FORGET = "forget --group no-such-group"  # no word of our sentences, in which a forgotten name is replaced, too
# Commands that delete files, and about how many calls each makes, by place.
DELETERS = {MAINTAIN: {"all": 300, "_delta_log": 180}, FORGET: {"all": 450, "_delta_log": 270}}
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EROFS": errno.EROFS, "EDQUOT": errno.EDQUOT}


def some_call(trial: Trial, command: str, act: str, *, error: int = 0, clock_s: int = 0) -> Twist:
    """Returns a twist (a change to one counted call) at a random call of a random place. It lies among the calls that
    an undisturbed run of the command makes."""
    counts = trial.stage.counts[command]
    place = trial.random.choice([name for name in PLACES if counts[name]])
    at = trial.random.randint(1, counts[place])
    trial.note(f"{act} at call {at} of {place}")
    return Twist(act=act, place=place, at=at, errno=error, clock_s=clock_s)


def kill_at_a_moment(trial: Trial) -> None:
    """Sends SIGKILL at a random time, to Python alone or with its JVM. Half of the time it does this to the next run as
    well."""
    for _ in range(trial.random.randint(1, 2)):
        command, moment_s, with_java = trial.victim(), trial.moment_s(), trial.random.random() < 0.5
        trial.note(f"{command}, {moment_s:.1f} s, {'with' if with_java else 'without'} Java")
        process = trial.start(command)
        if process.sleep(moment_s):
            process.kill(with_java=with_java)
            trial.is_killed = True
        trial.finish(process)


def kill_at_a_call(trial: Trial) -> None:
    """Sends SIGKILL in the middle of a call that changes a file."""
    command = trial.victim()
    trial.note(command)
    process = trial.start(command, twist=some_call(trial, command, "hold"))
    if process.wait_for_mark():
        process.kill(with_java=trial.random.random() < 0.5)
        process.shim.until.touch()  # a JVM that is left alone goes on
        trial.is_killed = True
    trial.finish(process)


def interrupt(trial: Trial) -> None:
    """Sends SIGTERM or SIGINT at a random time, to Python alone or, as a terminal does, to its whole process group."""
    command, moment_s = trial.victim(), trial.moment_s()
    number = trial.random.choice([signal.SIGTERM, signal.SIGINT])
    to_group = trial.random.random() < 0.5
    trial.note(f"{command}, {moment_s:.1f} s, {number.name} to {'its group' if to_group else 'Python'}")
    process = trial.start(command)
    if process.sleep(moment_s):
        process.signal_group(number) if to_group else process.process.send_signal(number)
        trial.is_touched = True
    trial.finish(process)


def sleep_and_be_overtaken(trial: Trial) -> None:
    """Stops a writer in the middle of a call for longer than its lease. Meanwhile a second writer runs to its end. Then
    the first continues."""
    command = trial.victim()
    trial.note(command)
    first = trial.start_warm(command, twist=some_call(trial, command, "hold"))
    if first.wait_for_mark():
        first.signal_group(signal.SIGSTOP)
        trial.is_touched = True
        trial.run("pipeline")
        first.shim.until.touch()
        first.signal_group(signal.SIGCONT)
    trial.finish(first)


def sleep_past_the_lease(trial: Trial) -> None:
    """Stops a writer for longer than its lease while nobody else writes."""
    command, moment_s = trial.victim(), trial.moment_s(WARM)
    trial.note(f"{command}, {moment_s:.1f} s")
    process = trial.start_warm(command)
    if process.sleep(moment_s):
        process.signal_group(signal.SIGSTOP)
        time.sleep(LEASE_S * 1.5)
        process.signal_group(signal.SIGCONT)
        trial.is_touched = True
    trial.finish(process)


def deleter_sleeps(trial: Trial) -> None:
    """Stops a command that deletes files in the middle of a call for longer than its lease. Other commands write,
    rebuild and delete to their ends meanwhile. Then the first command continues."""
    command, twist = some_deletion(trial, "hold")
    later = ["pipeline", *trial.random.sample([REBUILD, MAINTAIN, FORGET, "pipeline"], 2)]
    if trial.stage.at_rest:
        later = [MAINTAIN, FORGET]
    trial.note(f"then {', '.join(later)}")
    first = trial.start_warm(command, twist=twist)
    if first.wait_for_mark():
        first.signal_group(signal.SIGSTOP)
        trial.is_touched = True
        time.sleep(LEASE_S * 1.5)
        for each in later:
            trial.run(each)
        first.shim.until.touch()
        first.signal_group(signal.SIGCONT)
    trial.finish(first)


def deleter_is_killed(trial: Trial) -> None:
    """Sends SIGKILL in the middle of a call of a command that deletes files."""
    command, twist = some_deletion(trial, "hold")
    process = trial.start(command, twist=twist)
    if process.wait_for_mark():
        process.kill(with_java=True)
        trial.is_killed = True
    trial.finish(process)


def deleter_fails(trial: Trial) -> None:
    """Makes calls of a command that deletes files fail: one call, or all calls from a random one on, with or without
    those that remove files."""
    name = trial.random.choice(sorted(ERRORS))
    command, twist = some_deletion(trial, trial.random.choice(["once", "stay", "gone"]), error=ERRORS[name])
    trial.note(name)
    process = trial.start_warm(command, twist=twist)
    trial.finish(process)
    trial.is_touched = process.shim.counts()[twist.place] >= twist.at


def some_deletion(trial: Trial, act: str, *, error: int = 0) -> tuple[str, Twist]:
    """Returns a command that now finds files to delete, and a twist at one of its calls."""
    command = trial.random.choice(sorted(DELETERS))
    calls = DELETERS[command]
    place = trial.random.choice(sorted(calls))
    at = trial.random.randint(1, calls[place])
    trial.note(f"{command}, {act} at call {at} of {place}")
    leave_what_is_deleted(trial.warehouse, trial.stage.cluster)
    return command, Twist(act=act, place=place, at=at, errno=error)


def leave_what_is_deleted(warehouse: Path, cluster: str) -> None:
    """Adds data files that look as if killed writers had left them uncommitted, and the note of a killed `forget`. So
    the next `forget` of any name deletes old files of all tables."""
    (warehouse / f"_groupledger/{cluster}/forget.json").write_text("{}")
    long_ago_s = time.time() - 90 * DAY_S
    for table in warehouse.glob("*/_delta_log"):
        for path in sorted(table.parent.rglob("*.parquet"))[:2]:
            if table not in path.parents:
                left = path.with_name(f"left-{path.name}")
                shutil.copyfile(path, left)
                os.utime(left, (long_ago_s, long_ago_s))


def another_engine(trial: Trial) -> None:
    """Lets delta-rs, which does not know leases, compact, vacuum and checkpoint tables, and clean their logs, while a
    command runs."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError, TableNotFoundError

    command = trial.victim()
    trial.note(command)
    first = trial.start_warm(command)
    while first.sleep(0.5):
        found = sorted(path.parent for path in trial.warehouse.glob("*/_delta_log/*.json"))
        if not found:
            continue
        with suppress(CommitFailedError, TableNotFoundError):  # of two engines the other was faster, or makes the table
            table = DeltaTable(trial.random.choice(found))
            table.optimize.compact()
            table.vacuum(dry_run=False, full=True)
            table.create_checkpoint()
            table.cleanup_metadata()
            trial.is_touched = True
    trial.finish(first)


def crowd(trial: Trial) -> None:
    """Starts ten random commands at once."""
    commands = [trial.victim() for _ in range(10)]
    trial.note(", ".join(commands))
    started = [trial.start(command) for command in commands]
    trial.is_touched = True
    for each in started:
        trial.finish(each)


def two_writers(trial: Trial) -> None:
    """Starts two commands at almost the same time; the clock of the first may be wrong by a day."""
    pause_s = trial.random.uniform(0, 0.7) * trial.stage.seconds * WARM
    clock_s = trial.random.choice([0, 0, DAY_S, -DAY_S])
    commands = trial.victim(), trial.victim()
    trial.note(f"{' and '.join(commands)} after {pause_s:.1f} s, clock {clock_s:+d} s")
    first = trial.start_warm(commands[0], twist=Twist(act="clock", clock_s=clock_s))
    trial.is_touched = first.sleep(pause_s)
    trial.run(commands[1])
    trial.finish(first)
    first.shim.begin(COUNT)


def clock_jump(trial: Trial) -> None:
    """Lets the clock that a command sees jump at a call, by minutes, days or a year, back or ahead."""
    command, clock_s = trial.victim(), trial.random.choice([600, -600, DAY_S, -DAY_S, 365 * DAY_S])
    trial.note(f"{command}, {clock_s:+d} s")
    trial.is_touched = True
    process = trial.start_warm(command, twist=some_call(trial, command, "clock", clock_s=clock_s))
    trial.finish(process)
    process.shim.begin(COUNT)


def storage_fails_once(trial: Trial) -> None:
    """Lets one call that changes a file fail."""
    _fail(trial, "once")


def storage_fails(trial: Trial) -> None:
    """Makes calls that change files fail from a random one on, except those that remove files, as with a full or
    read-only disk."""
    _fail(trial, "stay")


def storage_is_gone(trial: Trial) -> None:
    """Makes all calls that change files fail from a random one on, including those that remove files. The disk is left
    as after a SIGKILL, but the process continues."""
    _fail(trial, "gone")


def _fail(trial: Trial, act: str) -> None:
    command, name = trial.victim(), trial.random.choice(sorted(ERRORS))
    trial.note(f"{command}, {name}")
    process = trial.start_warm(command, twist=(twist := some_call(trial, command, act, error=ERRORS[name])))
    trial.finish(process)
    trial.is_touched = process.shim.counts()[twist.place] >= twist.at


def kill_a_worker(trial: Trial) -> None:
    """Sends SIGKILL to one of Spark's Python workers."""
    command, moment_s = trial.victim(), trial.moment_s(WARM)
    process = trial.start_warm(command)
    process.sleep(moment_s)
    while not (found := process.workers()) and process.sleep(0.01):
        pass
    trial.note(f"{command}, {moment_s:.1f} s")
    if found:
        with suppress(ProcessLookupError):  # it has ended
            os.kill(trial.random.choice(found), signal.SIGKILL)
        trial.is_touched = True
    trial.finish(process)


def short_of_memory(trial: Trial) -> None:
    """Gives the JVM a heap that is too small."""
    command, megabytes = trial.victim(), trial.random.randint(48, 160)
    trial.note(f"{command}, {megabytes} MB")
    trial.is_touched = True
    trial.finish(trial.start(command, environment={"_JAVA_OPTIONS": f"-Xmx{megabytes}m"}))


def read_for_minutes(trial: Trial) -> None:
    """Opens versions of the tables, runs maintenance, a pass and a rebuild, and then reads the opened versions. Their
    rows must be those from before."""
    from deltalake import DeltaTable

    from lab.faults.contents import rows_of

    paths = sorted(path.parent for path in trial.warehouse.glob("*/_delta_log"))
    opened = [(path.name, DeltaTable(str(path))) for path in paths]
    before = {name: rows_of(table, name) for name, table in opened}
    held = [(name, DeltaTable(str(trial.warehouse / name), version=table.version())) for name, table in opened]
    for command in (MAINTAIN, "pipeline", REBUILD, MAINTAIN):
        trial.run(command)
    trial.is_touched = True
    for name, table in held:
        if rows_of(table, name) != before[name]:
            trial.problems.append(f"a reader of {name} that had begun before saw something else")


# Those that leave a warehouse which the commands of another fault may meet as it is.
IN_A_ROW = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(kill_at_a_moment, kill_at_a_call, interrupt, sleep_and_be_overtaken, sleep_past_the_lease, two_writers),
        *(clock_jump, storage_fails_once, storage_fails, storage_is_gone, kill_a_worker, short_of_memory),
        *(another_engine, crowd),
    )
}
OF_DELETERS = {
    function.__name__.replace("_", "-"): function for function in (deleter_sleeps, deleter_is_killed, deleter_fails)
}
FAULTS = IN_A_ROW | OF_DELETERS | {"read-for-minutes": read_for_minutes}

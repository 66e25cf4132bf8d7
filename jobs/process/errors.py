"""What a job says when it can't go on: one clear sentence with the remedy, and an exit code.

Exit codes: 0 fine, 1 findings (a check did not hold), 2 wrong usage or bad input, 3 the outside failed (broker away, no
access, another writer). A job raises; only `jobs.cli.main` prints and exits.
"""


class JobError(Exception):
    """Base of what a job raises on purpose; its text is for the user."""

    exit_code = 2


class InputError(JobError):
    """Wrong usage, wrong settings, or a state of the warehouse that the job must not write to."""


class OutsideError(JobError):
    """The broker, the storage or another writer is in the way."""

    exit_code = 3

"""Defines the errors of a job: one clear sentence with the remedy, and an exit code.

Exit codes: 0 fine, 1 findings (a check did not hold), 2 wrong usage or bad input, 3 the outside failed (broker away, no
access, another writer, a full disk, a damaged file), 4 not known for all of the time that was asked, 70 a fault of
groupledger, 130 and 143 ended by a signal, 141 the reader of the output is gone. A job raises; only `jobs.cli.main`
prints and exits. Errors of libraries get their sentence in `jobs.process.outside`.
"""

FAULT = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # the code that shells use for SIGINT
UNREAD = 141  # the code that shells use for SIGPIPE, which ends other programs; Python ignores it, and gets an error


class JobError(Exception):
    """The base of errors that a job raises on purpose; the text is for the user."""

    exit_code = 2


class InputError(JobError):
    """The usage or the settings are wrong, or the warehouse is in a state that the job must not write to."""


class UnknownNameError(InputError):
    """The ledger has no cluster or group of that name."""


class NotWrittenError(InputError):
    """The warehouse lacks a table or rows that a question needs: the job that writes them has not done so yet."""


class NotKnownError(InputError):
    """The ledger does not know all of the time that was asked for: a part of it was not read yet, or can't be known."""

    exit_code = 4


class OutsideError(JobError):
    """The broker, the storage or another writer prevents the job."""

    exit_code = 3

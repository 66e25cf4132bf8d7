"""Words errors for those who read pages and their JSON. They can run no command here, and the path of the warehouse is
nothing to them: they are referred to the operator of groupledger, and the server's log has the whole sentence.

A wrong question gets its sentence unchanged, except for a command in the remedy. An error of the outside gets a general
sentence, since its own text may name files.
"""

from __future__ import annotations

import re
from traceback import walk_tb

from groupledger.jobs.gate.troubles import log_trouble
from groupledger.jobs.process.errors import JobError, OutsideError, UnknownNameError
from groupledger.jobs.process.outside import explain

COMMAND = re.compile(r"run `groupledger [^`]+`(?:(?:,? or|,| and) `[^`]+`)*(?: again| first)?")
ASK = "ask whoever runs groupledger"
OF_OURS = "This is a fault of groupledger: its log says which."
OF_THE_TABLES = f"The ledger's tables can't be read now: ask again later, or {ASK}; its log says why."
OF_THE_STATE = f"The ledger can't answer this now: {ASK}; its log says why."
# Commands and options, which a sentence for clients must not contain.
FOR_OPERATORS = re.compile("`|(?:^| )--[a-z]")


class BusyError(JobError):
    """Too many requests ask for this at the same time."""


def status_and_sentence(error: BaseException, warehouse: str) -> tuple[int, str]:
    """Returns the status and the sentence of the response for an error. Details that clients must not see are
    logged."""
    known = explain(error)
    if known is None:
        sentence = f"groupledger serve: a request failed by a fault of groupledger ({type(error).__name__})"
        log_trouble(place_of(error), sentence)
        return 500, OF_OURS
    whole = str(known)
    if isinstance(known, BusyError):
        return 503, whole
    is_outside = isinstance(known, OutsideError)
    shown = OF_THE_TABLES if is_outside else for_readers(whole, warehouse)
    if shown != whole:
        log_trouble(place_of(error), f"groupledger serve: {whole}")
    return 503 if is_outside else 404 if isinstance(known, UnknownNameError) else 400, shown


def place_of(error: BaseException) -> str:
    """Returns where an error was raised, which does not depend on the names in its sentence."""
    *_, (frame, line) = walk_tb(error.__traceback__) if error.__traceback__ else [(None, 0)]
    return f"{type(error).__name__} {frame and frame.f_code.co_filename}:{line}"


def for_readers(sentence: str, warehouse: str = "") -> str:
    """Returns a sentence without the warehouse's path and without commands."""
    shown = COMMAND.sub(ASK, sentence)
    if warehouse:
        shown = shown.replace(f" {warehouse}", "")
    return OF_THE_STATE if shown != sentence and FOR_OPERATORS.search(shown) else shown

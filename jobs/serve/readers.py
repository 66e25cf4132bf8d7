"""Words errors for those who read pages and their JSON. They can't run commands on the server, and the path of the
warehouse says nothing to them. So a sentence refers them to whoever runs groupledger, and the server's log has the full
sentence.

The sentence about a wrong question is unchanged, except for a command in the remedy. An error of the outside, such as a
storage that fails, gets a general sentence, since its own text may name files.
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
    """Says that too many requests of one kind are being answered at the same time."""


def status_and_sentence(error: BaseException, warehouse: str) -> tuple[int, str]:
    """Returns the HTTP status and the sentence of the response for an error. `warehouse` is the warehouse's path, which
    the sentence must not show. Details that clients must not see are logged."""
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
    """Returns the type of an error, and the file and line that raised it. Unlike its sentence, they do not depend on
    names."""
    *_, (frame, line) = walk_tb(error.__traceback__) if error.__traceback__ else [(None, 0)]
    return f"{type(error).__name__} {frame and frame.f_code.co_filename}:{line}"


def for_readers(sentence: str, warehouse: str = "") -> str:
    """Returns a sentence without the path `warehouse`, and with a general remedy in place of a command. If what is left
    of it still names a command or an option, returns a general sentence."""
    shown = COMMAND.sub(ASK, sentence)
    if warehouse:
        shown = shown.replace(f" {warehouse}", "")
    return OF_THE_STATE if shown != sentence and FOR_OPERATORS.search(shown) else shown

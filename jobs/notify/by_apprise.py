"""Sends messages by the library Apprise (the extra `apprise`), which knows over a hundred services, each by a URL.

The URL has secrets in it, so it is a reference in the settings, and no message shows it. Apprise has limits of its own
for each step of an exchange; here one limit holds for the whole. Signs in which chats have markup or mentions are
written as ones that look like them, since Apprise's services have many kinds of markup.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from groupledger.jobs.notify.receivers import page_of, text_of
from groupledger.jobs.process.errors import InputError, OutsideError

if TYPE_CHECKING:
    from groupledger.jobs.notify.episodes import Message
    from groupledger.jobs.notify.receivers import MessageContext

LOOK_ALIKES = str.maketrans(
    {"<": "\u2039", ">": "\u203a", "@": "\uff20", "`": "'", "*": "\u2217", "|": "\u01c0", "#": "\uff03"}
)
SEVERITIES = {"info": "info", "warning": "warning", "error": "failure"}


def check_apprise(url: str) -> None:
    """Raises InputError if the library is not installed, or does not know the URL."""
    library = _library()
    if not library.Apprise().add(url):
        raise InputError("Apprise does not know the URL of a receiver: see its list of services.")


def send_by_apprise(url: str, message: Message, context: MessageContext, timeout_s: int) -> None:
    """Sends a message. Raises OutsideError, whose text is only the end of a sentence, if it was not sent in time."""
    library = _library()
    sender = library.Apprise()
    sender.add(url)
    episode, is_over = message.episode, message.event == "resolved"
    page = None if episode is None else page_of(episode, context)
    text = text_of(message, context).translate(LOOK_ALIKES)
    kind = "success" if is_over or episode is None else SEVERITIES[episode.severity]
    sent: list[Any] = []

    def send() -> None:
        sent.append(
            sender.notify(
                title=f"groupledger: {context.cluster}",
                body=text if page is None else f"{text}\n{page}",
                notify_type=kind,
                body_format="text",
                interpret_escapes=False,
            )
        )

    sending = threading.Thread(target=send, name="apprise", daemon=True)
    sending.start()
    sending.join(timeout_s)
    if sending.is_alive():
        raise OutsideError("it did not answer in time")
    if not sent or not sent[0]:
        raise OutsideError("Apprise could not send it")


def _library() -> Any:
    try:
        import apprise
    except ImportError as error:
        raise InputError(
            "Receivers of the kind apprise need the extra: install it with `pip install 'groupledger[apprise]'`."
        ) from error
    return apprise

"""A broker without a server: kombu's, whose messages are files, but each of them appears whole.

Kombu's own writes a message where its readers look, so that one of them may find it empty, and end.
"""

import os
import time
import uuid
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Write each message aside, and then give it its name."""

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        name = os.path.join(self.data_folder_out, f"{time.monotonic_ns()}_{uuid.uuid4()}.{queue}.msg")
        try:
            with open(f"{name}.part", "w") as file:
                file.write(dumps(message))  # type: ignore[no-untyped-call]
            os.rename(file.name, name)
        except OSError as error:
            raise ChannelError(f"cannot add {name} to the folder") from error


class Transport(filesystem.Transport):
    Channel = Channel

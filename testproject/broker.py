"""A broker without a server: kombu's, whose messages are files, but each of them appears whole.

Kombu's own writes a message where its readers look, so that one of them may find it empty, and end.
"""

import os
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Make the folders, and write each message aside before it gets its name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        for folder in (self.data_folder_in, self.data_folder_out, self.processed_folder, self.control_folder):
            Path(folder).mkdir(parents=True, exist_ok=True)

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]
        name = os.path.join(self.data_folder_out, f"{time.monotonic_ns()}_{uuid.uuid4()}.{queue}.msg")
        try:
            with open(f"{name}.part", "w") as file:
                file.write(dumps(payload))  # type: ignore[no-untyped-call]
            os.rename(file.name, name)
        except OSError as error:
            raise ChannelError(f"cannot add {name} to the folder") from error


class Transport(filesystem.Transport):
    Channel = Channel

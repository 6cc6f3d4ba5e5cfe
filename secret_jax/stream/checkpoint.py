"""Checkpoints: the progress of a fit in a folder, in files that are never partial.

Every file is written beside its place, forced onto the disk and renamed; one that was
cut short has another name and is never read. The files are pickles: the folder must be
the user's own.
"""

import json
import os
import pickle
from pathlib import Path
from time import monotonic
from typing import Any

from secret_jax.stream.batches import StreamError
from secret_jax.tree.archive import replacing

# Maximum time of a pass that a killed fit loses, in seconds.
USUAL_PAUSE = 60.0


class Checkpoint:
    """Named states of one fit, in one folder.

    ``folder``: made if it is not there. None: nothing is kept. ``identity``: values
    that must be equal for a fit to continue; as JSON; ``pause``: seconds between two
    states, of which the last one is kept; ``suffix``: suffix of the file names of this
    process.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        identity: dict[str, Any],
        pause: float = USUAL_PAUSE,
        suffix: str = "",
    ):
        self._folder = None if folder is None else Path(folder)
        self._identity = json.loads(json.dumps(identity))
        self._pause, self._suffix, self._last = pause, suffix, monotonic()
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def is_due(self) -> bool:
        """Whether a state should be saved."""
        return self._folder is not None and monotonic() - self._last >= self._pause

    def load(self, name: str) -> Any:
        """Load a saved state; None if there is none."""
        path = self._path(name)
        if path is None or not path.exists():
            return None
        try:
            identity, state = pickle.loads(path.read_bytes())
        except Exception as error:  # damage shows in many ways
            raise StreamError(
                f"The checkpoint {str(path)!r} is damaged: {error}. Remove the file "
                "to begin again."
            ) from None
        for key, value in self._identity.items():
            if identity.get(key) != value:
                raise StreamError(
                    f"The checkpoint {str(path)!r} is that of another fit: its {key} "
                    f"is {identity.get(key)!r}, and now {value!r}. Name another "
                    "folder, or remove this one."
                )
        return state

    def save(self, name: str, state: Any) -> None:
        """Save a state, replacing the last one of that name."""
        path = self._path(name)
        if path is None:
            return
        try:
            with replacing(path) as file:
                pickle.dump((self._identity, state), file)
        except OSError as error:
            raise OSError(
                error.errno,
                f"The checkpoint {str(path)!r} could not be written: "
                f"{error.strerror or error}. The last whole one is still there: make "
                "room and run the same fit again, which goes on from it",
            ) from error
        self._last = monotonic()

    def _path(self, name: str) -> Path | None:
        return self._folder and self._folder / f"{name}{self._suffix}.state"

"""One family of exceptions. Every message names the value, where it stands, and what would be right."""


class DualqError(Exception):
    """Anything that dualq refuses to do, with the reason in one line."""


class ModelError(DualqError, ValueError):
    """A model that is not a Markov decision process, or an argument that does not fit it."""


class LogError(DualqError, ValueError):
    """A log, or a row of it, that cannot be used as it is."""


class LabelError(LogError, ModelError):
    """A state or an action that the log, or the model, does not have."""


class InfeasibleError(DualqError, ValueError):
    """Limits that no policy can keep.

    conflict   the names of limits that cannot be kept together, none of them to spare
    least      {name: the best value that each of them can reach alone}: the smallest for <=, the largest for >=
    nearest    {name: bound} for every limit: the bounds given, loosened as little as it takes
    """

    def __init__(
        self,
        message: str,
        *,
        conflict: tuple[str, ...] = (),
        least: dict[str, float] | None = None,
        nearest: dict[str, float] | None = None,
    ):
        super().__init__(message)
        self.conflict, self.least, self.nearest = conflict, least or {}, nearest or {}


class CheckpointError(DualqError):
    """A file written by dualq that is damaged, or that belongs to other settings."""

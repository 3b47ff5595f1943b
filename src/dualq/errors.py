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
    """Limits that no policy can keep."""


class CheckpointError(DualqError):
    """A file written by dualq that is damaged, or that belongs to other settings."""

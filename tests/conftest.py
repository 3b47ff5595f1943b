"""Property tests draw the same examples every time, and none fails because a machine is slow."""

from hypothesis import settings

settings.register_profile("dualq", deadline=None, derandomize=True)
settings.load_profile("dualq")

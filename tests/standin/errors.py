"""What keeps the stand-in from being used."""


class StandInError(Exception):
    """The stand-in cannot be used here; the message says why, and what to do."""

"""The pause after a worker's crash before its process is started again."""

_PAUSE = 0.1
_LONGEST_PAUSE = 30.0
_REST = 10.0
_LONGEST_REST = 300.0


def pause_before_start(crashes: int, most: int) -> float:
    """Return seconds before the next start: 0.1, 0.4, 1.6 … 30; of a defunct one 10, 20 … 300.

    Args:
        crashes: in a row.
        most: crashes in a row, from which on the worker is defunct.
    """
    if crashes >= most:
        return min(_LONGEST_REST, _REST * 2.0 ** (crashes - most))
    return min(_LONGEST_PAUSE, _PAUSE * 4.0 ** max(0, crashes - 1))

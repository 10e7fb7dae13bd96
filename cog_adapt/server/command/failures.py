"""The client's errors as errors of the command line, which name its flags."""

import contextlib
from collections.abc import Iterator

from cog_adapt.client import ClientError, RefusedInput, Unauthorized
from cog_adapt.server.errors import InputError, UnavailableError


@contextlib.contextmanager
def client_errors() -> Iterator[None]:
    """Raise each error of the client as the error that a command shows.

    Raises:
        InputError: a value of the caller is refused.
        UnavailableError: the server cannot be reached, or does not do what is asked.
    """
    try:
        yield
    except RefusedInput as error:
        flag = "--" if error.field == "url" else ""
        raise InputError(f"{flag}{error}") from error
    except Unauthorized as error:
        raise UnavailableError(f"{error} Give a key with that scope by --key.") from error
    except ClientError as error:
        raise UnavailableError(str(error)) from error

"""Which installed distributions a requirement brings."""

from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OWN = "cog-adapt"


def brought(requirements):
    """Return the installed distributions that requirements name and bring, by name."""
    found: dict[str, Distribution] = {}
    seen, waiting = set(), [Requirement(each) for each in requirements]
    while waiting:
        required = waiting.pop()
        if str(required) in seen or required.name == OWN:
            continue
        seen.add(str(required))
        try:
            each = distribution(required.name)
        except PackageNotFoundError:
            continue
        found[canonicalize_name(required.name)] = each
        waiting += [new for new in map(Requirement, each.requires or []) if holds(new, required)]
    return found


def holds(new, required):
    """Whether a distribution that is required with these extras requires another."""
    marker = new.marker
    return not marker or any(marker.evaluate({"extra": x}) for x in ("", *required.extras))


def lines(text):
    """The requirements in a file's text, comments and files that it names left out."""
    return [line for line in text.splitlines() if line and line[0] not in "#-"]

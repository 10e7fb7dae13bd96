"""The errors of the phases, and of the check that proves them.

RunnerError
├── SetupError                the process cannot begin
│   ├── ConfigError           an option is wrong (also ValueError)
│   ├── WeightsError          weights cannot be used
│   └── GradientFlowError     a gradient check failed; the message is its report
├── InputError                the caller's values do not fit (also ValueError)
├── AdaptationError           a gradient step could not be taken
│   └── NotFiniteError        its loss or a gradient is not finite
└── ModeError                 gradients asked for where they cannot flow (also RuntimeError)

A program built on the phases may add errors of its own to this tree, as `cog_adapt` does. Every
message names the value, the limit and the remedy.
"""


class RunnerError(Exception):
    """Anything that a program refuses, or cannot do, with a model that it runs."""


class SetupError(RunnerError):
    """The process cannot begin."""


class ConfigError(SetupError, ValueError):
    """An option is wrong."""


class WeightsError(SetupError):
    """Weights cannot be used."""


class GradientFlowError(SetupError):
    """The gradient check failed; the message is its report."""


class InputError(RunnerError, ValueError):
    """The caller's values do not fit."""

    caller_error = True  # so that a server shows only its message


class AdaptationError(RunnerError):
    """A gradient step could not be taken."""


class NotFiniteError(AdaptationError):
    """The loss or a gradient of a step is not finite."""


class ModeError(RunnerError, RuntimeError):
    """Gradients were asked for where they cannot flow: a programming error."""

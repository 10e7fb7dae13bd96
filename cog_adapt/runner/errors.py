"""The errors of the runner.

RunnerError
├── SetupError                the process cannot serve
│   ├── ConfigError           a setting is wrong (also ValueError)
│   ├── WeightsError          weights or an adapter file cannot be used
│   └── GradientFlowError     the self-test failed
├── InputError                the caller's values do not fit (also ValueError)
│   └── AdapterNotFound       no adapter of that id or name is this caller's
├── AdaptationError           a gradient step could not be taken
│   ├── NotFiniteError        its loss or a gradient is not finite
│   └── UnfitTrunkError       frozen blocks cannot be run ahead of a step (`adaptation/`)
├── PredictionError           the model could not answer
├── TaskError                 a function of the task raised an error of its own
├── StoreError                an adapter or checkpoint could not be written
│   └── NotServedError        adapters are not found until other servers' changes are known
├── UnavailableError          the runner takes no more work: it is closed, or its base changed,
│                             or its device failed
└── ModeError                 gradients asked for where they cannot flow (also RuntimeError)

Every message names the value, the limit and the remedy. A `BaseException` that is no
`Exception` (Cog's cancellation, for one) is never turned into one of these.
"""

from gradient_check.phases.errors import AdaptationError as AdaptationError
from gradient_check.phases.errors import ConfigError as ConfigError
from gradient_check.phases.errors import GradientFlowError as GradientFlowError
from gradient_check.phases.errors import InputError as InputError
from gradient_check.phases.errors import ModeError as ModeError
from gradient_check.phases.errors import NotFiniteError as NotFiniteError
from gradient_check.phases.errors import RunnerError as RunnerError
from gradient_check.phases.errors import SetupError as SetupError
from gradient_check.phases.errors import WeightsError as WeightsError


class AdapterNotFound(InputError):
    """No adapter of that id or name is this caller's: unknown, or another's."""


class PredictionError(RunnerError):
    """The model could not answer."""


class TaskError(RunnerError):
    """A function of the task raised an error of its own, which is the cause."""


class StoreError(RunnerError):
    """An adapter or checkpoint could not be written."""


class NotServedError(StoreError):
    """Adapters are not found now: this process may not know what other servers have removed."""


class UnavailableError(RunnerError):
    """The runner takes no more work: it is closed, or its base changed, or its device failed."""

"""The model runner: inference and adaptation of one model in one process; knows no transport.

`model_runner.py` owns the model and its thread; `loading.py` loads it, `request.py` holds the
values of one request. The code that trains and switches modes is the kernel of another package,
`gradient_check`, which proves it. The rooms, each of which imports only those below it:

    requests/                 one request from its values to its answer; a training, a replay
    selftest/                 the test that a process must pass before it serves
    known/  model/            the caches of earlier adaptations; the loaded model and its work
    auto/                     a head in closed form at once, then gradients where they pay
    scheduling/  storage/     the order of work on the model thread; adapters that owners keep
    adaptation/  inference/   gradient steps on a replica; answers. Neither imports the other
    modules/  heads/          the base and its adapters; heads by linear algebra alone
    devices/  task/           the device and its threads; `Task`, and the bounded calls of its hooks
    data/                     callers' examples and files
"""

import os

# Torch reads this variable at its first import, and only the modules below import torch. With it,
# waiting threads spin for a moment, because waking them takes longer, and then sleep
# (`devices/waiting_threads.py`).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")

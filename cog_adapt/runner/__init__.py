"""The model runner: inference and adaptation of one model in one process; knows no transport.

`few_shot.py` answers one request, `training.py` makes a lasting adapter, `replay.py` repeats one;
`model_runner.py` owns the model and its thread. What trains and switches modes is the kernel of
another package, `gradient_check`, which proves it. The rooms, each of which imports only those
below it:

    planning/                 one adaptation, from its plan to what is kept of it
    known/                    adaptations by content, features, requests and receipts
    selftest/  storage/       the gate before serving; adapters as things that owners keep
    auto/                     a head in closed form at once, then gradients where they pay
    generation/  scheduling/  answers that grow a token at a time; who runs next on the model thread
    adaptation/  inference/   gradient steps on a replica; answers. Neither sees the other
    heads/  modules/          a head by algebra alone; the base and its adapters
    devices/  data/           which device, and its threads; callers' examples
"""

import os

# Read when torch is first imported, which only modules below do: threads that wait spin for a
# moment, because waking them takes longer, and then sleep (`devices/waiting_threads.py`).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")

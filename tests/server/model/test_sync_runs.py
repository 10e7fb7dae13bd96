import pytest

SOURCE = """
import sys, threading, time
from typing import Any
import cog

class Runner(cog.BaseRunner):
    def run(self, code: str) -> Any:
        names = {"cog": cog, "self": self}
        exec(code, names)
        return names.get("out")
"""


@pytest.fixture(scope="module")
def model(launch):
    return launch(SOURCE)


def test_x(model):
    for code in ["out=1","print('hi'); out=[1,2]","raise ValueError('boom')","out=cog.current_scope().record_metric('a',1)", "import time\nt=time.time()\nwhile time.time()<t+0.1: pass\nout=(i for i in range(3))","import sys; sys.exit(2)"]:
        t=model.run(code=code)
        print(t.reports)
    import time
    N=300
    t0=time.time()
    for i in range(N): model.run(code="")
    print("ms per run", (time.time()-t0)/N*1000)

"""Each call of Replicate's clients but `collections`, and where each client makes it."""

import pytest

from tests.cog_adapt.replicate.packages import HERE

SOURCES = {
    "Python 1": ("test_clients.py", "test_trainings.py", "test_traps.py"),
    "Python 2": ("python2_calls.py", "python2_trainings.py"),
    "JavaScript": ("javascript_calls.cjs", "javascript_trainings.cjs", "test_clients.py"),
}
NO_HELPER = "this client has no such call"
CALLS = {
    "run a model": (
        *('client.run("any/name", input', 'client.run("any/name", input'),
        'client.run("any/name", {',
    ),
    "run a version": (
        *('client.run(f"any/name:{version.id}"', 'client.run(f"any/name:{version}"'),
        "client.run(`any/name:${version}`",
    ),
    "run an adapter": (
        *('client.run(f"any/name:{reference}"', 'client.run("any/name:python2"'),
        'client.run("any/name:javascript"',
    ),
    "run, and wait a second": ("wait=1", "wait=1", "timeout: 1"),
    "use": (NO_HELPER, 'replicate.use("any/name")', NO_HELPER),
    "stream": ("client.stream(", "client.stream(", "client.stream("),
    "a file, uploaded": ('"file": file', "def run_with_a_file():", '"run with a file"'),
    "a file in the body": (
        *('file_encoding_strategy="base64"', 'file_encoding_strategy="base64"'),
        'fileEncodingStrategy: "data-uri"',
    ),
    "predictions.create": ("client.predictions.create(",) * 3,
    "predictions.get": ("made.reload()", "client.predictions.get(", "client.predictions.get("),
    "predictions.cancel": ("made.cancel()", "client.predictions.cancel(", "predictions.cancel("),
    "predictions.wait": ("made.wait()", "client.predictions.wait(", "client.wait("),
    "predictions.list": ("client.predictions.list()", "predictions.list()", "predictions.list"),
    "the next page": (
        "list(page.next)",
        "for each in client.predictions.list()",
        "client.paginate(",
    ),
    "trainings.create": ("client.trainings.create(",) * 3,
    "trainings.get": ("made.reload()", "client.trainings.get(", "client.trainings.get("),
    "trainings.cancel": ("client.trainings.cancel(",) * 3,
    "trainings.list": ("client.trainings.list()",) * 3,
    "files.create": ("client.files.create(",) * 3,
    "files.get": ("client.files.get(",) * 3,
    "files.list": ("client.files.list()",) * 3,
    "files.delete": ("client.files.delete(",) * 3,
    "files.download": (NO_HELPER, "client.files.download(", NO_HELPER),
    "models.get": ('client.models.get("any/name")', "client.models.get(", "client.models.get("),
    "versions.list": ("versions.list()", "versions.list(", "versions.list("),
    "versions.get": ("versions.get(", "versions.get(", "versions.get("),
    "deployments.get": ("client.deployments.get(",) * 3,
    "deployments.predictions.create": (
        *("deployment.predictions.create(", "client.deployments.predictions.create("),
        "client.deployments.predictions.create(",
    ),
    "account": ("client.accounts.current()", "client.account.get()", "client.accounts.current()"),
    "hardware": ("client.hardware.list()",) * 3,
    "webhooks.default.secret": (
        *("client.webhooks.default.secret()", "client.webhooks.default.secret.get()"),
        "client.webhooks.default.secret.get()",
    ),
    "a webhook's signature": ("Webhooks.validate(", NO_HELPER, "validateWebhook("),
    "a failed run": ("pytest.raises(ModelError", "def failure():", '"failed stream"'),
    "a refused input": ('match="nothing is no input"', "def wrong_input():", '"wrong input"'),
}
"""A call, and a text of the sources of each client, in the order of `SOURCES`."""


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_made_by_each_client_that_has_it(call):
    for text, files in zip(CALLS[call], SOURCES.values(), strict=True):
        sources = "".join((HERE / name).read_text() for name in files)
        assert text in sources or text == NO_HELPER, (text, files)

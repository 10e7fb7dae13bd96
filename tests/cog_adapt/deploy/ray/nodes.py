"""A Ray cluster of three nodes on this machine: a head without replicas, and two that have one."""

import os
import signal
from typing import Any

import psutil
import psycopg

PORT = 8000
_REPLICA = "ray::ServeReplica"


class Nodes:
    """The cluster; the tests' process is its driver.

    Args:
        database: the conninfo of the records, to see which server has a run.
    """

    def __init__(self, database: str) -> None:
        import ray
        from ray.cluster_utils import Cluster

        self._database = database
        head = {"num_cpus": 0, "include_dashboard": False, "dashboard_port": 8265}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        ray.init(address=self._cluster.address, log_to_driver=False, configure_logging=False)
        self._workers: list[Any] = []
        for _ in range(2):
            self.add_worker()

    def add_worker(self) -> None:
        self._workers.append(self._cluster.add_node(num_cpus=2))

    def serve(self, **options: Any) -> None:
        """Deploy the application, and return when its replicas are healthy."""
        from ray import serve

        from deploy.ray.app import app
        from deploy.ray.options import Options

        serve.start(proxy_location="HeadOnly", http_options={"port": PORT})
        serve.run(app(Options(**options)))

    def replicas(self) -> list[int]:
        """The process ids of the replicas."""
        commands = {each.pid: each.info["cmdline"] for each in psutil.process_iter(["cmdline"])}
        return [pid for pid, words in commands.items() if words and _REPLICA in words[0]]

    def server_of(self, name: str) -> int | None:
        """The process id of the replica that has a run; None before one has it."""
        with psycopg.connect(self._database) as connection:
            row = connection.execute(
                "SELECT pid FROM records JOIN servers ON servers.id = records.server "
                "WHERE records.id = %s",
                [name],
            ).fetchone()
        return row[0] if row else None

    def kill_replica(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def kill_node_of(self, pid: int) -> None:
        """Kill the node with a replica, as a machine that loses its power."""
        raylet = psutil.Process(pid).ppid()
        node = next(each for each in self._workers if raylet in _processes_of(each))
        self._workers.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        import ray
        from ray import serve

        serve.shutdown()
        ray.shutdown()
        self._cluster.shutdown()


def _processes_of(node: Any) -> set[int]:
    return {each.process.pid for kind in node.all_processes.values() for each in kind}

"""A private PostgreSQL for tests and benchmarks, on a Unix socket of its own."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg


def find_binaries() -> Path | None:
    """Return the folder of Debian's newest programs, or of those on the PATH; None without any."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = debian[-1] if debian else shutil.which("initdb")
    return Path(found).parent if found else None


class Cluster:
    """A database server, started when made. Root starts it as the user `postgres`.

    Raises:
        RuntimeError: one of its programs failed; the message has the log.
    """

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._run("initdb", "--auth=trust", "--no-sync", "--username=postgres")
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stop the server as a crash does, without a word to its clients."""
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def empty(self) -> str:
        """Return the URL of its one database, emptied."""
        place = f"host={self.folder} user=postgres dbname=postgres"
        with psycopg.connect(place) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def remove(self) -> None:
        """Stop the server, and remove its files."""
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self.folder / "data"), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        log = self.folder / "commands"
        with log.open("a") as output:
            done = subprocess.run(
                command, stdout=output, stderr=output, cwd="/", timeout=60, check=False
            )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {log.read_text()}")

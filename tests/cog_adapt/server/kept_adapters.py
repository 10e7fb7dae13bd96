"""Adapters that a predictor keeps in memory, in the shape of docs/predictor-protocol.md.

It needs neither torch nor this package, so it serves as a file of a predictor too.
"""

import hashlib
import threading

SLOTS = {"name", "notes", "expires_at", "pinned", "shared"}


class InputError(ValueError):
    caller_error = True


class AdapterNotFound(InputError):
    pass


class StoreError(Exception):
    pass


class KeptAdapters:
    """Keeps what is taken; a file's content is its adapter."""

    def __init__(self):
        self.kept, self.callbacks, self.threads, self.described = {}, [], set(), []
        self.asked = []  # what the front process has asked for
        self.answers = threading.Event()  # cleared: nothing is answered
        self.answers.set()

    def describe(self, owner):
        self._note()
        self.described.append(owner)
        self._name(owner)
        return [found for (whose, _), (found, _) in self.kept.items() if owner in (None, whose)]

    def export(self, owner, adapter_id, format, folder):
        self._note()
        _, content = self._find(owner, adapter_id)
        path = folder / f"{adapter_id}.{'zip' if format == 'peft' else format}"
        path.write_bytes(format.encode() + b":" + content)
        return path

    def take(self, owner, path):
        self._note()
        content = path.read_bytes()
        if content == b"disk full":
            raise StoreError("no space is left; remove some adapters")
        if content == b"fault":
            raise RuntimeError("secret internals")
        if content.startswith(b"bad"):
            raise InputError("the file is no adapter; send safetensors or PEFT's .zip")
        return self.put(owner, content)

    def put(self, owner, content, **more):
        """Keep one; a run does so too."""
        name = hashlib.sha256(content).hexdigest()[:16]
        found = {"id": name, "owner": owner, "name": None, "version": None, "notes": None}
        found |= {"created_at": f"2026-11-22T10:00:{len(self.kept):02}+00:00", "shared": []}
        found |= {"recipe": {"method": "lora"}, "bytes": len(content), "hits": 0, "parent": None}
        found |= {"examples_digest": "e" * 64, "used_at": None, "pinned": False, **more}
        self.kept[owner, name] = found, content
        self._tell(owner, name, found)
        return found

    def change(self, owner, adapter_id, changes):
        self._note()
        found, _ = self._find(owner, adapter_id)
        if unknown := sorted(changes.keys() - SLOTS):
            raise InputError(f"{unknown[0]!r} cannot be changed; allowed: {', '.join(SLOTS)}")
        if name := changes.get("name"):
            versions = [
                each["version"]
                for (whose, _), (each, _) in self.kept.items()
                if (whose, each["name"]) == (owner, name)
            ]
            found["version"] = max(versions, default=0) + 1
        found.update(changes)
        self._tell(owner, adapter_id, found)
        return found

    def remove(self, owner, adapter_id):
        self._note()
        self._find(owner, adapter_id)
        del self.kept[owner, adapter_id]
        self._tell(owner, adapter_id, None)
        children = [
            name for (_, name), (each, _) in self.kept.items() if each["parent"] == adapter_id
        ]
        return {"removed": True, "children": children}

    def watch(self, callback):
        self.callbacks.append(callback)

    def _name(self, owner):
        """Find out whose an old file is: its owner has to ask."""
        for (whose, name), (found, content) in [*self.kept.items()]:
            if whose == f"not yet {owner}":
                del self.kept[whose, name]
                self.kept[owner, name] = found | {"owner": owner}, content
                self._tell(whose, name, None)
                self._tell(owner, name, self.kept[owner, name][0])

    def _find(self, owner, adapter_id):
        if (owner, adapter_id) not in self.kept:
            raise AdapterNotFound(f"there is no adapter {adapter_id!r}")
        return self.kept[owner, adapter_id]

    def _tell(self, owner, adapter_id, found):
        for callback in self.callbacks:
            callback(owner, adapter_id, found)

    def _note(self):
        self.threads.add(threading.current_thread().name)
        self.answers.wait(30)

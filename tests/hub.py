"""A Hugging Face hub on this machine, for the hub's real client."""

import hashlib

COMMIT = "a" * 40


class HubFolders:
    """A hub that serves folders as models."""

    def __init__(self, folders=None):
        self.folders = folders or {}  # by name, e.g. "org/model"
        self.refused = {}  # by name: the answer instead
        self.served = []  # names of the files that were downloaded

    def answer(self, method, path, _body, _headers):
        """Answer a request about a model, or send one of its files."""
        path = path.partition("?")[0].strip("/").removeprefix("api/models/").split("/")
        name = "/".join(path[:2])
        if name in self.refused:
            return self.refused[name]
        if name not in self.folders:
            return 404, b"", {"X-Error-Code": "RepoNotFound"}
        if path[2] == "resolve":
            content = self.folders[name].joinpath(*path[4:]).read_bytes()
            self.served += ["/".join(path[4:])] * (method == "GET")
            return 200, content, {"ETag": hashlib.sha256(content).hexdigest(), "X-Repo-Commit": COMMIT}
        if path[2] == "revision" and path[3] not in {"main", COMMIT}:
            return 404, b"", {"X-Error-Code": "RevisionNotFound"}
        folder = self.folders[name]
        files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
        if path[2] == "tree":
            entries = [{"type": "file", "path": at, "size": file.stat().st_size, "oid": "b" * 40} for at, file in files.items()]
            return 200, entries, {}
        return 200, {"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]}, {}

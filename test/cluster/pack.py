"""pack.py ARCHIVE: writes container images as one archive that ctr images import takes.

Standard input has a line for each image, of fields divided by tabs: its names (divided by commas), its user, its
entrypoint ("-" for none, then bash is the command), its variables (divided by spaces) and its layers, which are tar
files, from the lowest to the topmost.
A layer that several images share is in the archive once. Equal layers give equal archives."""
import functools
import hashlib
import io
import json
import pathlib
import sys
import tarfile

archive = pathlib.Path(sys.argv[1])


@functools.cache
def digest(layer):
    with open(layer, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def add(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


manifest, seen = [], set()
new = archive.with_suffix(".new")
with tarfile.open(new, "w") as tar:
    for line in sys.stdin:
        names, user, entrypoint, variables, *layers = line.rstrip("\n").split("\t")
        env = variables.split()
        if not any(v.startswith("PATH=") for v in env):
            env.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        start = {"Cmd": ["bash"]} if entrypoint == "-" else {"Entrypoint": [entrypoint]}
        config = json.dumps({
            "architecture": "amd64", "os": "linux",
            "config": {"User": user, "Env": env, **start},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest(layer) for layer in layers]},
        }).encode()
        name = hashlib.sha256(config).hexdigest() + ".json"
        manifest.append({"Config": name, "RepoTags": names.split(","), "Layers": [digest(layer) + ".tar" for layer in layers]})
        if name not in seen:
            add(tar, name, config)
        for layer in layers:
            if digest(layer) not in seen:
                tar.add(layer, digest(layer) + ".tar")
        seen.update([name], map(digest, layers))
    add(tar, "manifest.json", json.dumps(manifest).encode())
new.rename(archive)

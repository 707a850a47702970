"""Makes stand-ins for the CUDA libraries that a torch wheel is linked with, so that it loads where they are not.

    standins.py SITE-PACKAGES

torch's wheel needs 3 GB of NVIDIA's libraries even to be imported, and the registry has none for CPUs only. Of a
library that neither the wheel nor the system has, the stand-in defines what the wheel's own libraries take
from it. Each function returns 100, which is CUDA's "no device", so torch finds no GPU and computes on CPUs.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

# What is asked for a text would crash over 100.
TEXT = re.compile(r"Get(Error|Status)(String|Name)$|ncclGetLastError$")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wanted(libraries):
    """The libraries that are needed, by whose version a symbol is, and the symbols that nobody here defines."""
    needed, of_version, undefined, defined = set(), {}, set(), set()
    for lib in libraries:
        needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", lib)))
        file = None
        for line in output("readelf", "-V", "-W", lib).splitlines():
            if m := re.search(r"File: (\S+)", line):
                file = m[1]
            elif file and (m := re.search(r"Name: (\S+)", line)):
                of_version[m[1]] = file
        for line in output("nm", "-D", "--with-symbol-versions", lib).splitlines():
            *_, kind, name = line.split()
            if kind == "U":
                undefined.add(name)
            elif kind not in "wv":
                defined.add(name.split("@")[0])
    return needed, of_version, {u for u in undefined if u.split("@")[0] not in defined}


def write(library, symbols, folder):
    """Compiles one stand-in; symbols are names, with @VERSION where they have one."""
    versions = collections.defaultdict(list)
    code = ""
    for symbol in sorted(symbols):
        name, _, version = symbol.partition("@")
        versions[version].append(name)
        code += f'const char *{name}(void) {{ return "no CUDA here"; }}\n' if TEXT.search(name) else f"long {name}(void) {{ return 100; }}\n"
    script = "".join(f"{v} {{ global: {'; '.join(n)}; }};\n" for v, n in versions.items() if v)
    with tempfile.TemporaryDirectory() as work:
        source, symbol_map = pathlib.Path(work, "standin.c"), pathlib.Path(work, "standin.map")
        source.write_text(code)
        symbol_map.write_text(script)
        with_versions = [f"-Wl,--version-script,{symbol_map}"] if script else []
        output("gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library}", *with_versions, "-o", folder / library, source)


def main():
    folder = pathlib.Path(sys.argv[1], "torch", "lib")
    libraries = sorted(folder.glob("*.so*"))
    needed, of_version, undefined = wanted(libraries)
    system = set(re.findall(r"^\s+(\S+) \(", output("/sbin/ldconfig", "-p"), re.M))
    missing = sorted(needed - system - {lib.name for lib in libraries})
    symbols = {lib: set() for lib in missing}
    for symbol in undefined:
        name, _, version = symbol.partition("@")
        version = version.lstrip("@")
        if not version and not re.match("_?Py", name):
            symbols[missing[0]].add(name)  # any library will do
        elif of_version.get(version) in symbols:
            symbols[of_version[version]].add(f"{name}@{version}")
    for lib in missing:
        write(lib, symbols[lib], folder)
    sys.stdout.write(f"{sum(map(len, symbols.values()))} functions in stand-ins for {len(missing)} libraries: {' '.join(missing)}\n")


if __name__ == "__main__":
    main()

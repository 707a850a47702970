"""suite DIR [ARGUMENT...]: mpi4py's own test suite, whose folder is DIR. Rank 0 tells of every test, the others of their failures."""
import os
import runpy
import sys

folder = sys.argv[1]
sys.path.insert(0, folder)
sys.argv = [os.path.join(folder, "main.py"), "-v" if os.environ.get("MPIUP_RANK") == "0" else "-q", "--no-builddir"] + sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")

"""suite DIR TMP [ARGUMENT...]: mpi4py's own test suite, whose folder is DIR. Rank 0 tells of every test, the others of
their failures. TMP takes the files of tests; all hosts see it."""
import os
import runpy
import sys
import tempfile

folder, tempfile.tempdir = sys.argv[1:3]
sys.path.insert(0, folder)
ranks = [os.environ[name] for name in ("MPIUP_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK") if name in os.environ]
verbosity = "-v" if ranks[0] == "0" else "-q"
sys.argv = [os.path.join(folder, "main.py"), verbosity, "--no-builddir"] + sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")

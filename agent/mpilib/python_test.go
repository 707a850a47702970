package mpilib

import "testing"

func TestPython(t *testing.T) {
	venv := tree{"venv/bin/python": "-> ../../usr/bin/python3", "venv/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n",
		"usr/bin/python3": "-> python3.11", "usr/bin/python3.11": program(), "work/train.py": "from mpi4py import MPI\n", "work/plain.py": "print(1)\n"}
	extension := func(needs string) image { return image{needed: []string{needs}, notExecutable: true} }
	const site = "venv/lib/python3.11/site-packages/mpi4py/"
	wheel := venv.with(tree{site + "MPI.mpich.cpython-311-x86_64-linux-gnu.so": extension("libmpi.so.12"), site + "MPI.openmpi.cpython-311-x86_64-linux-gnu.so": extension("libmpi.so.40")})
	for _, c := range []looked{
		{name: "built here", tree: both.with(venv).with(tree{site + "MPI.cpython-311-x86_64-linux-gnu.so": extension("libmpi.so.40")}),
			command: "/venv/bin/python -u train.py", protocol: PMIx, library: ompi4Name, sure: true, why: "mpi4py of /venv/bin/python loads"},
		{name: "may not be used", tree: both.with(venv).with(tree{site + "MPI.cpython-311-x86_64-linux-gnu.so": extension("libmpi.so.40")}),
			command: "/venv/bin/python plain.py", protocol: PMIx, library: ompi4Name},
		{name: "a module", tree: both.with(venv).with(tree{site + "MPI.abi3.so": extension("libmpich.so.12")}),
			command: "/venv/bin/python -m mpi4py.bench", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "a script of it", tree: both.with(venv).with(tree{site + "MPI.abi3.so": extension("libmpich.so.12"), "venv/bin/tool": "#!/venv/bin/python\nimport mpi4py"}),
			command: "/venv/bin/tool", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "a wheel takes the environment's", tree: both.with(wheel).with(tree{"venv/lib/libmpi.so.12": mpich5}),
			command: "/venv/bin/python train.py", protocol: PMI1, library: "MPICH 5.0.2 (/venv/lib/libmpi.so.12)", sure: true},
		{name: "a wheel passes what is no library", tree: both.with(wheel).with(tree{"venv/lib/libmpi.so": "INPUT(libmpi.so.40)", "venv/lib/libmpi.so.40": ompi5}),
			command: "/venv/bin/python train.py", protocol: PMIx, library: "Open MPI 5.0.7 (/venv/lib/libmpi.so.40)", sure: true},
		{name: "a wheel takes the system's", tree: both.with(wheel), command: "/venv/bin/python train.py", protocol: PMIx, library: ompi4Name, sure: true},
		{name: "a wheel is told the file", tree: both.with(wheel).with(tree{"opt/m/libmpi.so.12": mpich5}), env: []string{"MPI4PY_LIBMPI=/opt/m/libmpi.so.12"},
			command: "/venv/bin/python train.py", protocol: PMI1, library: "MPICH 5.0.2 (/opt/m/libmpi.so.12)", sure: true},
		{name: "a wheel is told the kind", tree: wheel.with(tree{"usr/lib/libmpi.so.12": mpich5, "usr/lib/libmpi.so.40": ompi5}), env: []string{"MPI4PY_MPIABI=Open-MPI"},
			command: "/venv/bin/python train.py", protocol: PMIx, library: "Open MPI 5.0.7 (/usr/lib/libmpi.so.40)", sure: true},
		{name: "a wheel without a library", tree: wheel, command: "/venv/bin/python train.py", protocol: PMI1, why: "no MPI library was found"},
		{name: "Debian's package", tree: both.with(venv).with(tree{"usr/lib/python3/dist-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so": extension("libmpi.so.40")}),
			command: "python3 train.py", protocol: PMIx, library: ompi4Name, sure: true},
		{name: "the system's is not for the environment", tree: both.with(venv).with(tree{"usr/lib/python3/dist-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so": extension("libmpi.so.40")}),
			command: "/venv/bin/python train.py", protocol: PMI1},
		{name: "the user's own", tree: both.with(venv).with(tree{"home/u/.local/lib/python3.11/site-packages/mpi4py/MPI.abi3.so": extension("libmpich.so.12")}),
			command: "python3 train.py", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "PYTHONPATH", tree: both.with(venv).with(tree{"opt/p/mpi4py/MPI.abi3.so": extension("libmpich.so.12")}), env: []string{"PYTHONPATH=:/opt/p"},
			command: "python3 train.py", protocol: PMI1, library: mpich4Name, sure: true},
		{name: "conda", tree: tree{"c/bin/python": "-> python3.12", "c/bin/python3.12": image{rpath: "$ORIGIN/../lib"}, "c/lib/libmpi.so.12": mpich4,
			"c/lib/python3.12/site-packages/mpi4py/MPI.cpython-312-x86_64-linux-gnu.so": image{needed: []string{"libmpi.so.12"}, rpath: "$ORIGIN/../../../../lib"}},
			command: "/c/bin/python -c import_mpi4py", protocol: PMI1, library: "MPICH 4.0.2 (/c/lib/libmpi.so.12)", sure: true},
		{name: "horovod", tree: both.with(venv).with(tree{"venv/lib/python3.11/site-packages/horovod/torch/mpi_lib_v2.cpython-311-x86_64-linux-gnu.so": extension("libmpi.so.40")}),
			command: "/venv/bin/python plain.py", protocol: PMIx, library: ompi4Name, why: "horovod of"},
		{name: "a program it is told to run", tree: both.with(venv), command: "/venv/bin/python plain.py ./mpich", protocol: PMI1, library: mpich4Name},
	} {
		c.run(t)
	}
}

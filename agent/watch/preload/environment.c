/* Before main: what the agent says is taken out of the environment, so that neither the program nor anything that it starts finds it.

   A rank is often started by another program: a shell with a script, env, numactl, taskset. The process that is in MPI in the end has to have
   the library too. So a process that has no MPI hands it on to what takes its place (execve and its kin in the same process), and a shell to what
   it starts: in the environment of that call alone, and only where what is started takes the names out again as soon as it has come so far. A
   static program, one for another processor, one with a sanitizer that wants to be first, or one with rights of its own is handed nothing. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include "environment.h"
#include "system.h"
#include "wrap.h"

extern char **environ __attribute__((weak));

char page_file[LONGEST_PATH];
static char own_file[LONGEST_PATH]; /* this library, as LD_PRELOAD named it */
static long started_as;             /* the process that began with this library */
static int is_shell, hands_on;
static uintptr_t page_size = 4096;
int (*vdso_clock)(clockid_t, struct timespec *);

static const char page_name[] = "MPIUP_WATCH_PAGE=", preload_name[] = "LD_PRELOAD=";

uintptr_t page_bytes(void) { return page_size; }

static size_t length(const char *s) {
	size_t n = 0;
	while (s[n])
		n++;
	return n;
}

static const char *after(const char *s, const char *with) {
	while (*with && *s == *with)
		s++, with++;
	return *with ? 0 : s;
}

static int keep(char *to, const char *from) {
	size_t n = length(from);
	if (n >= LONGEST_PATH)
		return 0;
	for (size_t i = 0; i <= n; i++)
		to[i] = from[i];
	return 1;
}

static void wipe(char *s) {
	while (*s)
		*s++ = 0;
}

/* remove_at takes one string out of the environment. */
static void remove_at(char **at) {
	do
		at[0] = at[1];
	while (*at++);
}

/* take_out takes the page's name and this library's own, the last of LD_PRELOAD, out of the environment, also where others read it (/proc/PID/environ). */
static void take_out(char **env) {
	char **preload = 0;
	for (char **at = env; *at;) {
		const char *page = after(*at, page_name);
		if (page) {
			keep(page_file, page);
			wipe(*at);
			remove_at(at);
			continue;
		}
		if (after(*at, preload_name))
			preload = at;
		at++;
	}
	if (!page_file[0] || !preload)
		return;
	char *list = *preload + sizeof preload_name - 1;
	char *last = list;
	for (char *c = list; *c; c++)
		if (*c == ':')
			last = c + 1;
	if (!keep(own_file, last))
		return;
	wipe(last);
	if (last > list) {
		last[-1] = 0;
		return;
	}
	wipe(*preload);
	remove_at(preload);
}

/* What the kernel has told the process stands behind its environment. */
static void read_auxiliary(char **env) {
	while (*env)
		env++;
	for (const ElfW(auxv_t) *a = (const ElfW(auxv_t) *)(env + 1); a->a_type != AT_NULL; a++) {
		if (a->a_type == AT_PAGESZ)
			page_size = a->a_un.a_val;
#if defined(__x86_64__)
		if (a->a_type == AT_SYSINFO_EHDR)
			vdso_clock = (int (*)(clockid_t, struct timespec *))vdso_function(a->a_un.a_val, "__vdso_clock_gettime");
#else
		if (a->a_type == AT_SYSINFO_EHDR)
			vdso_clock = (int (*)(clockid_t, struct timespec *))vdso_function(a->a_un.a_val, "__kernel_clock_gettime");
#endif
	}
}

static int runs_shell(void) {
	static const char *const shells[] = {"sh", "dash", "bash", "ksh", "mksh", "zsh", "busybox"};
	char name[LONGEST_PATH];
	long n = CALL4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", name, sizeof name - 1);
	if (failed(n))
		return 0;
	name[n] = 0;
	const char *base = name;
	for (const char *c = name; *c; c++)
		if (*c == '/')
			base = c + 1;
	for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
		const char *rest = after(base, shells[i]);
		if (rest && !*rest)
			return 1;
	}
	return 0;
}

/* start runs before all other constructors where the libc is glibc, which hands it what main gets, and before the program's where it is musl. */
__attribute__((constructor)) static void start(int argc, char **argv, char **env) {
	if (argc < 0 || !argv || env != argv + argc + 1 || argv[argc])
		env = &environ ? environ : 0;
	if (!env)
		return;
	char **first = env;
	read_auxiliary(env);
	take_out(first);
	if (!page_file[0] || !own_file[0])
		return;
	started_as = CALL1(SYS_getpid, 0);
	is_shell = runs_shell();
	int found = rewrite_imports();
	hands_on = !(found & FOUND_MPI);
	if (found)
		map_page();
}

void stop_handing_on(void) { hands_on = 0; }

static int begins_with(const char *s, const char *with) { return after(s, with) != 0; }

/* Whether a program that is linked with that library has to have it first. */
static int wants_to_be_first(const char *library) {
	return begins_with(library, "libasan.so") || begins_with(library, "libtsan.so") || begins_with(library, "libhwasan.so") || begins_with(library, "libclang_rt.");
}

static int read_at(long fd, void *to, size_t n, uint64_t at) { return CALL4(SYS_pread64, fd, to, n, at) == (long)n; }

/* Whether no library of a program has to be the first one. Whoever cannot be read is not handed the library. */
static int needs_nothing_first(long fd, const ElfW(Ehdr) *head) {
	ElfW(Phdr) load[8], dynamic = {0};
	size_t loads = 0;
	int interpreted = 0;
	for (size_t i = 0; i < head->e_phnum && i < 64; i++) {
		ElfW(Phdr) p;
		if (!read_at(fd, &p, sizeof p, head->e_phoff + i * sizeof p))
			return 0;
		if (p.p_type == PT_LOAD && loads < 8)
			load[loads++] = p;
		if (p.p_type == PT_DYNAMIC)
			dynamic = p;
		interpreted |= p.p_type == PT_INTERP;
	}
	if (!interpreted)
		return 0;
	uint64_t strings = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (uint64_t at = 0; at < dynamic.p_filesz && at < 4096; at += sizeof(ElfW(Dyn))) {
			ElfW(Dyn) d;
			char name[16] = {0};
			if (!read_at(fd, &d, sizeof d, dynamic.p_offset + at))
				return 0;
			if (d.d_tag == DT_NULL)
				break;
			if (pass == 0 && d.d_tag == DT_STRTAB)
				for (size_t i = 0; i < loads; i++)
					if (d.d_un.d_ptr >= load[i].p_vaddr && d.d_un.d_ptr < load[i].p_vaddr + load[i].p_filesz)
						strings = d.d_un.d_ptr - load[i].p_vaddr + load[i].p_offset;
			if (pass == 1 && d.d_tag == DT_NEEDED) {
				CALL4(SYS_pread64, fd, name, sizeof name - 1, strings + d.d_un.d_val);
				if (wants_to_be_first(name))
					return 0;
			}
		}
		if (!strings)
			return 0;
	}
	return 1;
}

/* suits says whether a program may be handed the library; a script is what its first line names. */
static int suits(const char *file, int depth) {
	long fd = CALL4(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (failed(fd))
		return 0;
	union {
		ElfW(Ehdr) elf;
		char text[128];
	} head;
	struct stat what;
	int good = 0;
	long n = -1;
	n = CALL2(SYS_fstat, fd, &what);
	if (!failed(n) && S_ISREG(what.st_mode) && !(what.st_mode & (S_ISUID | S_ISGID)) && failed(CALL4(SYS_fgetxattr, fd, "security.capability", 0, 0)) &&
	    (n = CALL4(SYS_pread64, fd, head.text, sizeof head.text - 1, 0)) > 4) {
		head.text[n] = 0;
		if (begins_with(head.text, "#!") && depth == 0) {
			char *from = head.text + 2;
			while (*from == ' ' || *from == '\t')
				from++;
			char *to = from;
			while (*to && *to != ' ' && *to != '\t' && *to != '\n')
				to++;
			good = *to && (*to = 0, suits(from, 1));
		} else if (n >= (long)sizeof head.elf && begins_with(head.text, ELFMAG)) {
			good = head.elf.e_ident[EI_CLASS] == ELFCLASS64 && head.elf.e_phentsize == sizeof(ElfW(Phdr)) && needs_nothing_first(fd, &head.elf) &&
#if defined(__x86_64__)
			       head.elf.e_machine == EM_X86_64;
#else
			       head.elf.e_machine == EM_AARCH64;
#endif
		}
	}
	CALL1(SYS_close, fd);
	return good;
}

/* A process that did not begin with the library is one that the program has started, by fork or vfork. */
static int may_hand_on(void) { return hands_on && (is_shell || CALL1(SYS_getpid, 0) == started_as); }

/* What an environment needs more: two strings, in the caller's own memory, as it may share all other with another process (vfork). */
struct handed {
	char page[sizeof page_name + LONGEST_PATH], preload[sizeof preload_name + LONGEST_PATH];
};

enum { MOST_STRINGS = 4096, LONGEST_PRELOAD = LONGEST_PATH };

static char *join(char *to, const char *a, const char *b) {
	char *at = to;
	while (*a)
		*at++ = *a++;
	while (*b)
		*at++ = *b++;
	*at = 0;
	return to;
}

static size_t strings_in(char *const *env) {
	size_t n = 0;
	while (env && env[n])
		n++;
	return n;
}

/* with_library fills an environment of strings_in(env) + 3 places; 0 where it does not fit. */
static char **with_library(char **to, struct handed *h, char *const *env) {
	size_t n = 0;
	const char *others = "";
	for (size_t i = 0; env && env[i]; i++) {
		if (after(env[i], preload_name))
			others = after(env[i], preload_name);
		else if (!after(env[i], page_name))
			to[n++] = env[i];
	}
	if (length(others) + 1 + length(own_file) >= LONGEST_PATH)
		return 0;
	to[n++] = join(h->page, page_name, page_file);
	join(h->preload, preload_name, others);
	if (*others)
		join(h->preload, h->preload, ":");
	to[n++] = join(h->preload, h->preload, own_file);
	to[n] = 0;
	return to;
}

#define HAND_ON(file, env, call)                                                        \
	const char *const program = may_hand_on() ? (const char *)(file) : 0;           \
	if (program && suits(program, 0)) {                                             \
		size_t strings = strings_in((char *const *)(env));                      \
		if (strings < MOST_STRINGS) {                                           \
			struct handed handed;                                           \
			char *places[strings + 3];                                      \
			char **with = with_library(places, &handed, (char *const *)(env)); \
			if (with)                                                       \
				return call;                                            \
		}                                                                       \
	}

WRAPPER(execve, 3) {
	HAND_ON(a, c, NEXT(execve, 3)(a, b, (word)with));
	return NEXT(execve, 3)(a, b, c);
}

/* libc's function with an environment beside one without: it is in the same library. */
WRAPPER(execv, 2) {
	word (*with_environment)(word, word, word) = (word(*)(word, word, word))function_beside(NEXT(execv, 2), "execve");
	if (with_environment) {
		HAND_ON(a, environ, with_environment(a, b, (word)with));
	}
	return NEXT(execv, 2)(a, b);
}

/* Where execvp finds a program: the first file of that name on PATH. */
static const char *search(char *to, const char *name, char *const *env) {
	const char *path = 0;
	for (const char *c = name; *c; c++)
		if (*c == '/')
			return name;
	for (size_t i = 0; env && env[i]; i++)
		if (after(env[i], "PATH="))
			path = after(env[i], "PATH=");
	while (path && *path) {
		size_t n = 0;
		while (path[n] && path[n] != ':')
			n++;
		if (n > 0 && n + 1 + length(name) < LONGEST_PATH) {
			for (size_t i = 0; i < n; i++)
				to[i] = path[i];
			to[n] = 0;
			join(to, to, "/");
			join(to, to, name);
			if (!failed(CALL3(SYS_faccessat, AT_FDCWD, to, 1 /* X_OK */)))
				return to;
		}
		path += path[n] ? n + 1 : n;
	}
	return 0;
}

WRAPPER(execvp, 2) {
	char found[LONGEST_PATH];
	word (*with_environment)(word, word, word) = (word(*)(word, word, word))function_beside(NEXT(execvp, 2), "execvpe");
	if (with_environment && a) {
		HAND_ON(search(found, (const char *)a, environ), environ, with_environment(a, b, (word)with));
	}
	return NEXT(execvp, 2)(a, b);
}

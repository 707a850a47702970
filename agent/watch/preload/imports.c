/* How a program's calls come to the wrappers: each object of a process has a table of slots, one for each function that it imports, which the
   loader fills. What the slots of MPI's functions have is kept, and the wrappers are put there. Nothing is exported: dlsym, weak references,
   dladdr and tools behind PMPI_ find what they find without this library, and MPI's own libraries are left alone.

   A slot is rewritten where that changes nothing but who is called:
   - it is one by which the program calls. Where code also takes a function's address from it, the program sees where it leads, as by dladdr:
     it stays as it is, and those calls are not measured. That takes a look at the code (only_called);
   - what it leads to is known. The loader fills some slots at their first call only: what it would find is looked up here, by its own rules, and
     where two libraries have the name and its choice cannot be known for certain, the slot stays as it is.

   This is done once before main, for all that is loaded then, and again by what a program asks of dlsym after it has opened something. No
   function of the loader is called but dl_iterate_phdr, so that dlerror says what it said before. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "system.h"
#include "wrap.h"

#pragma weak dl_iterate_phdr

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#else
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

enum { OBJECTS = 1024, PENDING = 512, LONGEST_CODE = 32 << 20 /* bytes, some 30 ms: more is not looked through */ };

/* An object is the program, or a library that it has loaded. */
struct object {
	uintptr_t base, low, high; /* where its segments lie */
	const ElfW(Phdr) *segments;
	size_t segments_n;
	const char *file, *soname;
	const ElfW(Dyn) *dynamic;
	const ElfW(Sym) *symbols;
	const char *strings;
	const uint32_t *gnu_hash, *hash;
	const ElfW(Rela) *calls, *data;
	size_t calls_n, data_n, relative_n;
	uintptr_t sealed, sealed_end; /* what the loader has made read-only */
	int own;     /* this library */
	int of_mpi;  /* MPI itself, NCCL itself, or a tool that stands before MPI */
	int visited; /* by the search that is going on */
};

static struct object objects[OBJECTS];
static unsigned char of_mpi[OBJECTS]; /* of objects that were there before */
static size_t objects_n, at_start, done;
static unsigned long long adds, subs;
static int busy, found;
struct mpi_library library;

static int same(const char *a, const char *b) {
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static int begins(const char *s, const char *with) {
	while (*with && *s == *with)
		s++, with++;
	return !*with;
}

static int has(const char *s, const char *part) {
	for (; *s; s++)
		if (begins(s, part))
			return 1;
	return 0;
}

static const char *base_name(const char *path) {
	const char *name = path;
	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

/* An address in a dynamic section: glibc has added the base to it, musl has not, and neither has in one that is read-only. */
static uintptr_t address(const struct object *o, ElfW(Addr) a) { return a < o->base ? a + o->base : a; }

static int read_object(struct object *o, const struct dl_phdr_info *info) {
	*o = (struct object){.base = info->dlpi_addr, .segments = info->dlpi_phdr, .segments_n = info->dlpi_phnum, .file = info->dlpi_name ? info->dlpi_name : "", .soname = "", .low = UINTPTR_MAX};
	for (size_t i = 0; i < o->segments_n; i++) {
		const ElfW(Phdr) *p = &o->segments[i];
		uintptr_t from = o->base + p->p_vaddr;
		if (p->p_type == PT_LOAD) {
			o->low = from < o->low ? from : o->low;
			o->high = from + p->p_memsz > o->high ? from + p->p_memsz : o->high;
		} else if (p->p_type == PT_DYNAMIC) {
			o->dynamic = (const ElfW(Dyn) *)from;
		} else if (p->p_type == PT_GNU_RELRO) {
			o->sealed = from;
			o->sealed_end = from + p->p_memsz;
		}
	}
	if (!o->dynamic)
		return 0;
	size_t soname = 0, calls = 0, data = 0;
	for (const ElfW(Dyn) *d = o->dynamic; d->d_tag != DT_NULL; d++) {
		uintptr_t at = address(o, d->d_un.d_ptr);
		switch (d->d_tag) {
		case DT_SYMTAB: o->symbols = (const ElfW(Sym) *)at; break;
		case DT_STRTAB: o->strings = (const char *)at; break;
		case DT_GNU_HASH: o->gnu_hash = (const uint32_t *)at; break;
		case DT_HASH: o->hash = (const uint32_t *)at; break;
		case DT_JMPREL: o->calls = (const ElfW(Rela) *)at; break;
		case DT_PLTRELSZ: calls = d->d_un.d_val; break;
		case DT_PLTREL:
			if (d->d_un.d_val != DT_RELA)
				return 0;
			break;
		case DT_RELA: o->data = (const ElfW(Rela) *)at; break;
		case DT_RELASZ: data = d->d_un.d_val; break;
		case DT_RELACOUNT: o->relative_n = d->d_un.d_val; break;
		case DT_SONAME: soname = d->d_un.d_val; break;
		}
	}
	if (!o->symbols || !o->strings)
		return 0;
	o->calls_n = o->calls ? calls / sizeof(ElfW(Rela)) : 0;
	o->data_n = o->data ? data / sizeof(ElfW(Rela)) : 0;
	if (soname)
		o->soname = o->strings + soname;
	o->own = (uintptr_t)objects >= o->low && (uintptr_t)objects < o->high;
	return 1;
}

static struct object *object_at(uintptr_t address) {
	for (size_t i = 0; i < objects_n; i++)
		if (address >= objects[i].low && address < objects[i].high)
			return &objects[i];
	return 0;
}

static uint32_t gnu_hash_of(const char *name) {
	uint32_t h = 5381; /* the hash of DT_GNU_HASH, by Bernstein */
	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

static uint32_t hash_of(const char *name) { /* System V gABI, "Hash Table" */
	uint32_t h = 0;
	for (; *name; name++) {
		h = (h << 4) + (unsigned char)*name;
		h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
	}
	return h;
}

/* What a symbol gives to the address found so far; AMBIGUOUS where there are two, as of several versions, or where a function chooses it. */
static const uintptr_t AMBIGUOUS = 1;

static uintptr_t take(const struct object *o, const ElfW(Sym) *s, const char *name, uintptr_t so_far) {
	if (s->st_shndx == SHN_UNDEF || !s->st_value || !same(o->strings + s->st_name, name))
		return so_far;
	int kind = ELF64_ST_TYPE(s->st_info);
	int binding = ELF64_ST_BIND(s->st_info);
	if (binding == STB_LOCAL || kind == STT_TLS)
		return so_far;
	uintptr_t here = kind == STT_GNU_IFUNC ? AMBIGUOUS : o->base + s->st_value;
	return so_far && so_far != here ? AMBIGUOUS : here;
}

/* defined_in is the address of what an object defines by that name, 0 where it does not. */
static uintptr_t defined_in(const struct object *o, const char *name) {
	uintptr_t at = 0;
	if (o->gnu_hash) { /* buckets, first symbol, words of the filter, its shift; filter, buckets, chains, of which the last has bit 0 */
		uint32_t buckets_n = o->gnu_hash[0];
		uint32_t first = o->gnu_hash[1];
		const uint32_t *buckets = (const uint32_t *)((const ElfW(Addr) *)(o->gnu_hash + 4) + o->gnu_hash[2]);
		const uint32_t *chain = buckets + buckets_n;
		uint32_t h = gnu_hash_of(name);
		uint32_t i = buckets_n ? buckets[h % buckets_n] : 0;
		if (i < first)
			return 0;
		for (;; i++) {
			uint32_t of = chain[i - first];
			if ((of | 1) == (h | 1))
				at = take(o, &o->symbols[i], name, at);
			if (of & 1)
				return at;
		}
	}
	if (o->hash && o->hash[0])
		for (uint32_t i = o->hash[2 + hash_of(name) % o->hash[0]]; i; i = o->hash[2 + o->hash[0] + i])
			at = take(o, &o->symbols[i], name, at);
	return at;
}

/* Whether a library goes by the name by which another one needs it. */
static int is_called(const struct object *o, const char *name) {
	return same(o->soname, name) || same(o->file, name) || same(base_name(o->file), base_name(name));
}

/* visit marks the libraries that an object needs, and those that they need. */
static void visit(struct object *o) {
	static struct object *queue[OBJECTS];
	size_t n = 0;
	for (size_t i = 0; i < objects_n; i++)
		objects[i].visited = 0;
	queue[n++] = o;
	o->visited = 1;
	for (size_t at = 0; at < n; at++)
		for (const ElfW(Dyn) *d = queue[at]->dynamic; d->d_tag != DT_NULL; d++)
			for (size_t i = 0; d->d_tag == DT_NEEDED && i < objects_n; i++)
				if (!objects[i].visited && is_called(&objects[i], queue[at]->strings + d->d_un.d_val)) {
					objects[i].visited = 1;
					queue[n++] = &objects[i];
				}
}

/* looked_up is what the loader will bind o's import of that name to; 0 where that is not certain. For what is loaded with the program it takes the
   first in order of loading. What is opened later looks there first, unless it was opened otherwise (RTLD_DEEPBIND), and then into what it
   needs; and before that into what was opened for all, which is known to nobody else. */
static uintptr_t looked_up(struct object *o, const char *name) {
	size_t number = (size_t)(o - objects);
	uintptr_t at = 0;
	for (size_t i = 0; !at && i < at_start; i++)
		at = objects[i].own ? 0 : defined_in(&objects[i], name);
	if (number < at_start)
		return at == AMBIGUOUS ? 0 : at;
	visit(o);
	for (size_t i = at_start; i < objects_n; i++) {
		uintptr_t another = defined_in(&objects[i], name);
		if (!another || another == at)
			continue;
		if (at || !objects[i].visited)
			return 0;
		at = another;
	}
	return at == AMBIGUOUS ? 0 : at;
}

/* A slot that may be rewritten. */
struct slot {
	uintptr_t *at;
	const struct row *row;
	int calls, loads; /* by how many instructions */
};

static const struct row *row_of(const char *name) {
	int known = (name[0] == 'M' || name[0] == 'm') ? (name[1] | 32) == 'p' && (name[2] | 32) == 'i' && name[3] == '_' : begins(name, "nccl") || same(name, "dlsym") || same(name, "prctl") || begins(name, "execv");
	if (known)
		for (const struct row *r = __start_rows; r < __stop_rows; r++)
			if (same(r->name, name))
				return r;
	return 0;
}

/* Of a function that a slot leads to, one wrapper knows one; another one of the same name is another library's. */
static int take_next(const struct row *row, uintptr_t to) {
	uintptr_t known = (uintptr_t)__atomic_load_n(row->next, __ATOMIC_RELAXED);
	if (known && known != to && object_at(known))
		return 0;
	__atomic_store_n(row->next, (void *)to, __ATOMIC_RELAXED);
	return 1;
}

/* target is what a slot leads to, or will once it is called; 0 where it stays as it is. */
static uintptr_t target(struct object *o, const ElfW(Rela) *r, const char *name, uintptr_t has_now) {
	const ElfW(Sym) *s = &o->symbols[ELF64_R_SYM(r->r_info)];
	if (s->st_shndx != SHN_UNDEF)
		return 0; /* its own function */
	struct object *in = has_now ? object_at(has_now) : 0;
	if (!in || in->own)
		return 0;
	if (in != o)
		return has_now;
	return ELF64_R_TYPE(r->r_info) == JUMP_SLOT ? looked_up(o, name) : 0;
}

#if defined(__x86_64__)
/* count_uses looks for instructions that use the slots, which lie between low and high: calls and jumps through them, tests whether they are 0, and
   whatever else. What is no instruction and looks like one counts as whatever else. */
static void count_uses(const struct object *o, struct slot *slots, size_t n, uintptr_t low, uintptr_t high) {
	for (size_t i = 0; i < o->segments_n; i++) {
		const ElfW(Phdr) *p = &o->segments[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || !(p->p_flags & PF_R) || p->p_filesz < 16 || p->p_filesz > LONGEST_CODE)
			continue;
		const unsigned char *code = (const unsigned char *)(o->base + p->p_vaddr);
		for (size_t at = 3; at + 5 <= p->p_filesz; at++) {
			int32_t distance;
			__builtin_memcpy(&distance, code + at, sizeof distance);
			uintptr_t to = (uintptr_t)code + at + 4 + (uintptr_t)(intptr_t)distance;
			if (LIKELY(to + 1 < low || to > high))
				continue;
			const int is_call = code[at - 2] == 0xff && (code[at - 1] == 0x15 || code[at - 1] == 0x25);     /* call, jmp *slot(%rip) */
			const int is_test = code[at - 3] == 0x48 && code[at - 2] == 0x83 && code[at - 1] == 0x3d && code[at + 4] == 0; /* cmpq $0, slot(%rip) */
			for (size_t k = 0; k < n; k++) {
				if (is_test && to + 1 == (uintptr_t)slots[k].at)
					continue;
				if (to == (uintptr_t)slots[k].at)
					*(is_call ? &slots[k].calls : &slots[k].loads) += 1;
			}
		}
	}
}
#else
/* Another processor's instructions make an address in two steps: nobody looks, and slots of data stay as they are. */
static void count_uses(const struct object *o, struct slot *slots, size_t n, uintptr_t low, uintptr_t high) {
	(void)o, (void)slots, (void)n, (void)low, (void)high;
}
#endif

/* write_slots puts the wrappers into an object's slots. */
static void write_slots(const struct object *o, const struct slot *slots, size_t n) {
	int sealed = 0;
	for (size_t i = 0; i < n; i++)
		sealed |= (uintptr_t)slots[i].at >= o->sealed && (uintptr_t)slots[i].at < o->sealed_end;
	/* The loader rounds both down. */
	const uintptr_t in_page = page_bytes() - 1;
	uintptr_t from = o->sealed & ~in_page;
	uintptr_t to = o->sealed_end & ~in_page;
	int writable = sealed && from < to && !failed(CALL3(SYS_mprotect, from, to - from, PROT_READ | PROT_WRITE));
	for (size_t i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)slots[i].at;
		if (at >= from && at < to && !writable)
			continue;
		__atomic_store_n(slots[i].at, (uintptr_t)slots[i].row->wrapper, __ATOMIC_RELEASE);
		found |= begins(slots[i].row->name, "nccl") ? FOUND_NCCL : (slots[i].row->name[0] | 32) == 'm' ? FOUND_MPI : 0;
	}
	if (writable)
		CALL3(SYS_mprotect, from, to - from, PROT_READ);
}

static void rewrite(struct object *o) {
	static struct slot slots[PENDING];
	size_t n = 0;
	for (size_t i = 0; i < o->calls_n && n < PENDING; i++) {
		const ElfW(Rela) *r = &o->calls[i];
		if (ELF64_R_TYPE(r->r_info) != JUMP_SLOT)
			continue;
		const char *name = o->strings + o->symbols[ELF64_R_SYM(r->r_info)].st_name;
		const struct row *row = row_of(name);
		uintptr_t *at = (uintptr_t *)(o->base + r->r_offset);
		uintptr_t to = row ? target(o, r, name, *at) : 0;
		if (to && take_next(row, to))
			slots[n++] = (struct slot){.at = at, .row = row};
	}
	size_t calls = n;
	uintptr_t low = UINTPTR_MAX;
	uintptr_t high = 0;
	for (size_t i = o->relative_n; i < o->data_n && n < PENDING; i++) {
		const ElfW(Rela) *r = &o->data[i];
		if (ELF64_R_TYPE(r->r_info) != GLOB_DAT)
			continue;
		const char *name = o->strings + o->symbols[ELF64_R_SYM(r->r_info)].st_name;
		const struct row *row = row_of(name);
		uintptr_t *at = (uintptr_t *)(o->base + r->r_offset);
		if (!row || !target(o, r, name, *at))
			continue;
		slots[n++] = (struct slot){.at = at, .row = row};
		low = (uintptr_t)at < low ? (uintptr_t)at : low;
		high = (uintptr_t)at > high ? (uintptr_t)at : high;
	}
	if (n > calls)
		count_uses(o, slots + calls, n - calls, low, high);
	size_t kept = calls;
	for (size_t i = calls; i < n; i++)
		if (slots[i].calls > 0 && slots[i].loads == 0 && take_next(slots[i].row, *slots[i].at))
			slots[kept++] = slots[i];
	if (kept > 0)
		write_slots(o, slots, kept);
}

/* Whether an object is MPI's or NCCL's own, or a tool's: what those call is their own affair. A program that has a tool linked in is none. */
static int is_of_mpi(const struct object *o) {
	static const char *const signs[] = {"PMPI_Init", "MPI_Init", "mpi_init_", "mpi_init_f08_", "ncclAllReduce", "dlsym"};
	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		if (o != objects && defined_in(o, signs[i]))
			return 1;
	return 0;
}

/* note_library notes MPI's own functions. */
static void note_library(void) {
	library = (struct mpi_library){0};
	struct object *mpi = 0;
	size_t n = 0;
	for (size_t i = 0; i < objects_n; i++)
		if (defined_in(&objects[i], "PMPI_Init") || (objects[i].of_mpi && defined_in(&objects[i], "MPI_Comm_compare"))) {
			mpi = &objects[i];
			n++;
		}
	if (n != 1)
		return;
	void **const to[] = {&library.compare, &library.rank, &library.size, &library.thread_level, &library.from_fortran};
	static const char *const names[] = {"PMPI_Comm_compare", "PMPI_Comm_rank", "PMPI_Comm_size", "PMPI_Query_thread", "PMPI_Comm_f2c"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		uintptr_t at = defined_in(mpi, names[i]);
		if (!at)
			at = defined_in(mpi, names[i] + 1);
		*to[i] = at == AMBIGUOUS ? 0 : (void *)at;
	}
	uintptr_t copy = defined_in(&objects[0], "ompi_mpi_comm_world"); /* a program that is linked to fixed places has its own, and all use that */
	library.open_mpi_world = (void *)(copy ? copy : defined_in(mpi, "ompi_mpi_comm_world"));
	library.abi = has(base_name(mpi->file), "libmpi_abi");
}

static int collect(struct dl_phdr_info *info, size_t size, void *arg) {
	(void)size, (void)arg;
	if (objects_n < OBJECTS && read_object(&objects[objects_n], info))
		objects_n++;
	return 0;
}

/* all is called with the first object, under the loader's lock of its list, and does everything. */
static int all(struct dl_phdr_info *info, size_t size, void *arg) {
	(void)arg;
	size_t before = objects_n;
	int again = subs != (size >= sizeof *info ? info->dlpi_subs : 0);
	if (size >= sizeof *info) {
		adds = info->dlpi_adds;
		subs = info->dlpi_subs;
	}
	objects_n = 0;
	dl_iterate_phdr(collect, 0);
	if (!before)
		at_start = objects_n;
	size_t first = again || !before ? 0 : done; /* what is new stands at the end */
	for (size_t i = 0; i < objects_n; i++)
		objects[i].of_mpi = of_mpi[i] = i < first ? of_mpi[i] : is_of_mpi(&objects[i]);
	for (size_t i = first; i < objects_n; i++)
		if (!objects[i].own && !objects[i].of_mpi)
			rewrite(&objects[i]);
	done = objects_n;
	if (found & FOUND_MPI)
		note_library();
	return 1;
}

static int is_new(struct dl_phdr_info *info, size_t size, void *arg) {
	(void)arg;
	return size >= sizeof *info && info->dlpi_adds == adds && info->dlpi_subs == subs ? 2 : 1;
}

/* function_beside is what the library of a function defines by another name. */
void *function_beside(const void *function, const char *name) {
	const struct object *o = object_at((uintptr_t)function);
	uintptr_t at = o ? defined_in(o, name) : 0;
	return at == AMBIGUOUS ? 0 : (void *)at;
}

/* vdso_function is one that the kernel gives to each process, in a library that stands in memory alone. */
void *vdso_function(uintptr_t vdso, const char *name) {
	const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)vdso;
	struct dl_phdr_info info = {.dlpi_addr = vdso, .dlpi_name = "", .dlpi_phdr = (const ElfW(Phdr) *)(vdso + head->e_phoff), .dlpi_phnum = head->e_phnum};
	for (size_t i = 0; i < head->e_phnum; i++)
		if (info.dlpi_phdr[i].p_type == PT_LOAD) {
			info.dlpi_addr = vdso - info.dlpi_phdr[i].p_vaddr;
			break;
		}
	struct object o;
	uintptr_t at = read_object(&o, &info) ? defined_in(&o, name) : 0;
	return at == AMBIGUOUS ? 0 : (void *)at;
}

/* rewrite_imports says what was found, of FOUND_MPI and FOUND_NCCL. */
int rewrite_imports(void) {
	if (dl_iterate_phdr && !__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) {
		dl_iterate_phdr(all, 0);
		__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
	}
	return found;
}

/* rewrite_new_imports does it for what was loaded since. */
void rewrite_new_imports(void) {
	if (dl_iterate_phdr(is_new, 0) == 2)
		return;
	if (rewrite_imports())
		map_page();
}

/* A program that has opened a library asks for what it wants of it by dlsym. The call is left as it is, with the place that it came from, which
   tells dlsym where to look. */
WRAPPER(dlsym, 2) {
	rewrite_new_imports();
	return NEXT(dlsym, 2)(a, b);
}

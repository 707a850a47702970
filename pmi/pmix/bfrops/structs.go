package bfrops

func (w *Writer) timeval(t Timeval) {
	w.signed(64, t.Sec)
	w.signed(64, t.Usec)
}

func (r *Reader) timeval() Timeval { return Timeval{r.signed(64), r.signed(64)} }

func (w *Writer) proc(p Proc) {
	w.str(p.Namespace)
	w.unsigned(32, uint64(p.Rank))
}

func (r *Reader) proc() Proc { return Proc{r.str(), uint32(r.unsigned(32))} }

func (w *Writer) info(i Info) {
	w.str(i.Key)
	w.unsigned(32, uint64(i.Flags))
	w.tagged(i.Value)
}

func (r *Reader) info() Info { return Info{r.str(), uint32(r.unsigned(32)), r.tagged()} }

func (w *Writer) kval(k KVal) {
	w.str(k.Key)
	w.tagged(k.Value)
}

func (r *Reader) kval() KVal { return KVal{r.str(), r.tagged()} }

func (w *Writer) pdata(p PData) {
	w.proc(p.Proc)
	w.str(p.Key)
	w.tagged(p.Value)
}

func (r *Reader) pdata() PData { return PData{r.proc(), r.str(), r.tagged()} }

// Kinds of a buffer: pmix_bfrop_buffer_type_t.
const (
	NonDesc   = 1
	FullyDesc = 2
)

func (w *Writer) buffer(b Buffer) {
	kind := uint64(NonDesc)
	if b.Desc {
		kind = FullyDesc
	}
	w.unsigned(8, kind)
	w.bytes(b.Data)
}

func (r *Reader) buffer() Buffer {
	kind := r.unsigned(8)
	if kind != NonDesc && kind != FullyDesc {
		r.fail("a buffer of kind %d", kind)
	}
	return Buffer{kind == FullyDesc, r.bytes()}
}

func (w *Writer) procInfo(p ProcInfo) {
	w.proc(p.Proc)
	w.str(p.Host)
	w.str(p.Exe)
	w.pid(uint64(p.PID))
	w.unsigned(8, uint64(p.State))
}

func (r *Reader) procInfo() ProcInfo {
	return ProcInfo{r.proc(), r.str(), r.str(), uint32(r.pid()), uint8(r.unsigned(8))}
}

func (w *Writer) envar(e Envar) {
	w.str(e.Name)
	w.str(e.Value)
	w.unsigned(8, uint64(e.Separator))
}

func (r *Reader) envar() Envar { return Envar{r.str(), r.str(), byte(r.unsigned(8))} }

func (w *Writer) array(a Array) {
	w.tag(a.Type)
	if a.Bare && a.Type == Undef && w.d.flex {
		return
	}
	w.size(uint64(len(a.Data)))
	for _, v := range a.Data {
		w.value(a.Type, v)
	}
}

func (r *Reader) array() Array {
	t := r.tag()
	if t == Undef {
		return r.noArray()
	}
	n := r.fits(r.size())
	return Array{Type: t, Data: list[any](r, t, n)}
}

// noArray reads the rest of an array without a type, which has no values: a size of 0 or, from libpmix 6.1
// on, nothing. What follows tells them apart, since counts and lengths of what is there are not 0.
func (r *Reader) noArray() Array {
	if r.d.flex && (len(r.b) == 0 || r.b[0] != 0) {
		return Array{Bare: true}
	}
	if n := r.size(); n > 0 {
		r.fail("an array of %d values of no type", n)
	}
	return Array{Data: []any{}}
}

func (w *Writer) app(a App) {
	w.str(a.Cmd)
	w.int(int64(len(a.Argv)))
	w.strings(a.Argv)
	w.signed(32, int64(len(a.Env)))
	w.strings(a.Env)
	w.str(a.Dir)
	w.int(int64(a.MaxProcs))
	w.infos(a.Infos)
}

func (r *Reader) app() App {
	return App{r.str(), r.strings(r.int()), r.strings(r.signed(32)), r.str(), int(r.int()), r.infos()}
}

func (w *Writer) query(q Query) {
	w.signed(32, int64(len(q.Keys)))
	w.strings(q.Keys)
	w.infos(q.Qualifiers)
}

func (r *Reader) query() Query { return Query{r.strings(r.signed(32)), r.infos()} }

func (w *Writer) strings(list []string) {
	for _, s := range list {
		w.str(s)
	}
}

func (r *Reader) strings(n int64) []string {
	if n < 0 {
		r.fail("%d strings", n)
		return nil
	}
	out := make([]string, 0, min(r.fits(uint64(n)), 64))
	for range r.fits(uint64(n)) {
		if r.values++; r.err != nil || r.values > maxValues {
			r.fail("more than %d values", maxValues)
			return nil
		}
		out = append(out, r.str())
	}
	return out
}

func (w *Writer) infos(infos []Info) {
	w.size(uint64(len(infos)))
	for _, i := range infos {
		w.info(i)
	}
}

func (r *Reader) infos() []Info { return list[Info](r, InfoType, r.fits(r.size())) }

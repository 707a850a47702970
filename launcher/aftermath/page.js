'use strict';
(() => {
const $ = id => document.getElementById(id);
const R = JSON.parse($('report').textContent);
const el = (name, text, cls) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const begun = Date.parse(R.begun), ended = Date.parse(R.ended) > begun ? Date.parse(R.ended) : begun;
const events = R.events || [], ranks = R.ranks || [], rows = R.rows || [], hosts = R.hosts || [];
const last = Math.max((ended - begun) / 1000, ...events.slice(-1).map(e => e.at), 0.001);
const clock = s => s < 60 ? s.toFixed(s < 10 ? 2 : 1) + ' s' : s < 3600 ? Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s' : Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
const rankName = r => (r.job ? 'job ' + r.job + ' ' : '') + 'rank ' + r.rank;

// The head and the verdict.
$('title').textContent = 'Job ' + R.job + ': ' + (R.command || []).map((w, i) => i ? w : w.split('/').pop()).join(' ');
$('summary').textContent = new Date(begun).toISOString().replace('T', ' ').slice(0, 19) + ' UTC on ' + R.launcher + ', mpiup ' + R.mpiup +
  (ended > begun ? ', for ' + clock(last) + ', exit code ' + R.exit_code : ', without an end');
$('note').textContent = R.note || '';
if (R.verdict) {
  const v = R.verdict, box = $('verdict-text');
  $('verdict').hidden = false;
  box.append(el('div', v.kind, 'kind'));
  for (const [list, title] of [[v.evidence, ''], [R.places, ''], [v.others, 'besides'], [v.advice, 'do'], [R.quoted, 'the file says']]) {
    if (!list || !list.length) continue;
    const ul = el('ul');
    for (const l of list) ul.append(el('li', (title ? title + ': ' : '') + l));
    box.append(ul);
  }
  const whose = ranks.find(r => v.rank !== undefined && r.rank === v.rank && (r.job || 0) === (v.job || 0));
  if (whose && whose.last) box.append(el('pre', whose.last.join('\n')));
}

// Tables.
const table = (id, heads, lines) => {
  const t = $(id), head = el('tr');
  heads.forEach((h, i) => head.append(el('th', h, lines.length && (typeof lines[0][i] === 'number' || lines[0][i] instanceof Node && lines[0][i].className === 'n') ? 'n' : '')));
  const thead = el('thead'); thead.append(head);
  const body = el('tbody');
  for (const line of lines) {
    const tr = el('tr');
    for (const c of line) tr.append(c instanceof Node ? c : el('td', c === undefined ? '' : String(c), typeof c === 'number' ? 'n' : ''));
    body.append(tr);
  }
  t.replaceChildren(thead, body);
};
const num = text => el('td', text, 'n');
const ticks = (lo, hi, most) => { // round numbers from lo to hi
  if (!(hi > lo)) return [lo];
  const raw = (hi - lo) / most, ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find(f => f * ten >= raw * .999) * ten, out = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9 && out.length < 50; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
};
const spans = list => { // [0,1,2,5] as 0-2,5
  const out = []; list = [...new Set(list)].sort((a, b) => a - b);
  for (let i = 0; i < list.length; i++) { let j = i; while (list[j + 1] === list[j] + 1) j++; out.push(i === j ? list[i] : list[i] + '-' + list[j]); i = j; }
  return out.join(',');
};
table('hosts', ['host', 'ranks', 'CPUs', 'GPUs', 'node', 'address', 'agent'], hosts.map(h => [h.name, spans(ranks.filter(r => r.host === h.name && !r.job).map(r => r.rank)), h.cpus || 0, h.gpus || 0, h.node, h.address, h.agent]));
const svg = (name, at) => { const e = document.createElementNS('http://www.w3.org/2000/svg', name); for (const k in at) e.setAttribute(k, at[k]); return e; };
const titled = (e, text) => { e.append(Object.assign(svg('title', {}), { textContent: text })); return e; };
const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// Where the time went: of all ranks, by cause.
const causes = { waiting: ['waiting for hosts', '#999999'], starting: ['starting', '#cc79a7'], init: ['in MPI_Init', '#8a6a92'], 'before-step': ['before the first step', '#56b4e9'], running: ['running', '#0072b2'],
  stalled: ['stalled', '#d55e00'], slow: ['waiting for a slow rank', '#e69f00'], lost: ['lost, since it was done again', '#b3261e'], restarting: ['restarting', '#f0e442'], over: ['over before others', '#c9ced6'] };
const spent = R.spent || [], all = spent.reduce((n, s) => n + s.rank_s, 0);
if (all > 0) {
  $('hours').hidden = false;
  const bar = svg('svg', { viewBox: '0 0 1000 28', preserveAspectRatio: 'none', role: 'img' });
  let at = 0;
  for (const s of spent) {
    const [text, fill] = causes[s.cause] || [s.cause, '#888888'], wide = s.rank_s / all * 1000;
    bar.append(titled(svg('rect', { x: at.toFixed(2), y: 0, width: Math.max(wide, .5).toFixed(2), height: 28, fill }), text + ': ' + (wide / 10).toFixed(1) + ' %'));
    at += wide;
  }
  $('hours-bar').append(bar);
  table('spent', ['', 'cause', 'share', 'of ranks', 'of GPUs'], spent.map(s => {
    const [text, fill] = causes[s.cause] || [s.cause, '#888888'], key = svg('svg', { width: 12, height: 12 }), cell = el('td');
    key.append(svg('rect', { width: 12, height: 12, fill })); cell.append(key);
    return [cell, text, num((s.rank_s / all * 100).toFixed(1) + ' %'), num(clock(s.rank_s)), num(s.gpu_s ? clock(s.gpu_s) : '')];
  }));
}
if ((R.waits || []).length) {
  $('waits-section').hidden = false;
  table('waits', ['s', 'for rank', 'share of the time', 'why', ''], R.waits.map(w => [Number(w.at.toFixed(1)), (w.ranks || []).length ? spans(w.ranks) : 'one, then another', num((w.share * 100).toFixed(0) + ' %'), w.cause, w.text]));
}

const failed = r => r.end && r.end !== 'exit code 0';
table('ranks', ['rank', 'host', 'CPUs', 'pid', 'end', 'last lines'], ranks.map(r => [rankName(r), r.host, r.cpus, r.pid || num(''), el('td', r.end || 'runs', failed(r) ? 'bad' : ''), el('td', (r.last || []).slice(-3).join(' ⏎ '))]));
const showEvents = () => {
  const find = $('event-find').value.toLowerCase();
  const list = events.filter(e => !find || [e.kind, e.host, e.ranks, e.text].join(' ').toLowerCase().includes(find));
  $('event-count').textContent = list.length + ' of ' + events.length + (R.dropped_events ? ', ' + R.dropped_events + ' were dropped' : '');
  table('events', ['s', 'what', 'host', 'ranks', ''], list.map(e => [num(e.at.toFixed(3)), e.kind, e.host, e.ranks, e.text]));
};
$('event-find').addEventListener('input', showEvents);
showEvents();
for (const p of R.programs || []) {
  const d = el('details'); d.append(el('summary', (p.argv || []).join(' '))); d.append(el('pre', (p.env || []).join('\n') || 'no variables of its own'));
  $('programs').append(d);
}

// Rows of ranks. Time goes from t0 to t1; the run's phases stand above, and a host's rows together, under its name. Where no look has been yet, as in a
// run of seconds, the phase tells what a rank did.
const phases = R.phases || [], phaseAt = t => { let p = ''; for (const s of phases) if (s.at <= t + 5e-4) p = s.phase; return p; };
const phaseWords = { gathering: 'waiting for hosts', placing: 'placing', launching: 'starting', wiring: 'in MPI_Init', running: 'running', stopping: 'stopping', done: 'over' };
const phaseTones = { gathering: 'e', placing: 'e', launching: 'p', wiring: 's', running: 'r', stopping: 'e', done: 'e' };
const lines = phases.length ? [{ phases: true }] : [];
// over says that a rank is no longer there: it has ended, or its host is lost.
const over = did => did === 'e' || did === 'l';
// stretches are what a row's rank did from when to when.
const stretches = row => {
  const out = [], at = row.at, cuts = phases.map(p => p.at);
  const push = (from, to, did) => { if (to > from) out.push({ from, to, did }); };
  const split = (from, to) => { // started, or about to be: by the run's phases
    let t = from;
    for (const c of cuts.filter(c => c > from && c < to).concat(to)) { const p = phaseAt(t); push(t, c, p === 'launching' ? 'p' : p === 'wiring' ? 's' : p === 'running' ? 'r' : 's'); t = c; }
  };
  const launch = phases.filter(p => p.phase === 'launching').map(p => p.at);
  for (let i = 0; i < at.length; i++) {
    if (row.did[i] === 's') { // the time before it, since the ranks were to start
      const since = Math.max(...launch.filter(t => t <= at[i]), i ? at[i - 1] : 0);
      if (launch.length && since < at[i] && (i === 0 || over(row.did[i - 1]))) push(since, at[i], 'p');
    }
    const to = i + 1 < at.length ? at[i + 1] : last;
    if (row.did[i] === 's' && phases.length) split(at[i], to); else push(at[i], to, row.did[i]);
  }
  return out;
};
for (const name of [...new Set(hosts.map(h => h.name).concat(rows.map(r => r.host)))]) {
  const own = rows.filter(r => r.host === name);
  if (own.length) { lines.push({ host: name }); for (const row of own) lines.push({ row, did: stretches(row), bad: ranks.some(r => failed(r) && r.rank === row.rank && r.host === row.host && (r.job || 0) === (row.job || 0)) }); }
}
const tickClock = s => s === 0 ? '0 s' : s < 60 ? Number(s.toPrecision(6)) + ' s' : clock(s).replace(' min 0 s', ' min').replace(' h 0 min', ' h');
const box = $('rows'), canvas = $('canvas'), left = 110, bottom = 18;
const high = lines.length > 200 ? 4 : lines.length > 60 ? 8 : 14;
let t0 = 0, t1 = last, picked = lines.findIndex(l => l.row), touched = false;
const memory = Object.fromEntries((R.memory || []).map(m => [m.host, m]));
const size = b => b >= 2 ** 30 ? (b / 2 ** 30).toFixed(1) + ' GiB' : (b / 2 ** 20).toFixed(0) + ' MiB';
const lineHigh = l => l.phases ? 18 : l.host ? 16 : high;
const place = []; let total = 0;
for (const l of lines) { place.push(total); total += lineHigh(l); }
const draw = () => {
  const wide = box.clientWidth, scale = window.devicePixelRatio || 1, tall = total + bottom;
  canvas.width = wide * scale; canvas.height = tall * scale; canvas.style.height = tall + 'px';
  const c = canvas.getContext('2d'); c.scale(scale, scale);
  c.font = '11px system-ui,sans-serif'; c.textBaseline = 'middle';
  const x = t => left + (t - t0) / (t1 - t0) * (wide - left - 8);
  const tone = { s: color('s'), w: color('w'), b: color('b'), i: color('i'), e: color('e'), l: color('l'), p: color('p'), r: color('r') }, fg = color('fg'), edge = color('line');
  lines.forEach((l, n) => {
    const y = place[n];
    if (l.phases) {
      c.fillStyle = fg; c.fillText('phase', 4, y + 9);
      phases.forEach((p, i) => {
        const from = Math.max(p.at, t0), to = Math.min(i + 1 < phases.length ? phases[i + 1].at : last, t1), text = phaseWords[p.phase] || p.phase;
        if (to <= from) return;
        const wide = Math.max(x(to) - x(from), 1);
        c.fillStyle = color(phaseTones[p.phase] || 'e'); c.fillRect(x(from), y + 2, wide, 13);
        c.fillStyle = edge; c.fillRect(x(from), y + 2, 1, 13);
        if (c.measureText(text).width + 8 < wide) { c.fillStyle = fg; c.fillText(text, x(from) + 5, y + 9); }
      });
      return;
    }
    if (l.host) {
      const m = memory[l.host], most = m && (Number(m.limit) || Math.max(...m.values.map(Number)));
      c.fillStyle = color('m');
      for (let i = 0; most && i < m.at.length; i++) {
        const from = Math.max(m.at[i], t0), to = Math.min(i + 1 < m.at.length ? m.at[i + 1] : last, t1), tall = Math.min(m.values[i] / most, 1) * 14;
        if (to > from) c.fillRect(x(from), y + 15 - tall, Math.max(x(to) - x(from), 1), tall);
      }
      c.fillStyle = fg; c.fillText(l.host, 4, y + 8, m ? left - 8 : wide - 8); return;
    }
    if (high >= 8) { c.fillStyle = fg; c.fillText(rankName(l.row), 14, y + high / 2, left - 18); }
    for (const d of l.did) {
      const from = Math.max(d.from, t0), to = Math.min(d.to, t1);
      if (to <= from) continue;
      c.fillStyle = tone[d.did] || edge;
      c.fillRect(x(from), y + 1, Math.max(x(to) - x(from), 1), high - (high > 4 ? 2 : 1));
    }
    const end = l.bad ? l.did.findLast(d => over(d.did)) : undefined, at = l.bad ? (end ? end.from : last) : NaN;
    if (at >= t0 && at <= t1) { c.fillStyle = color('bad'); c.fillRect(x(at) - 1, y + 1, 4, high - (high > 4 ? 2 : 1)); }
    if (touched && n === picked) { c.strokeStyle = fg; c.strokeRect(left - 1, y + .5, wide - left - 6, high - 1); }
  });
  for (const e of events) {
    if (!['lost', 'again', 'stopping', 'signal'].includes(e.kind) || e.at < t0 || e.at > t1) continue;
    c.fillStyle = color('bad'); c.fillRect(x(e.at), 0, 1.5, total);
  }
  c.fillStyle = fg; c.textAlign = 'center';
  for (const t of ticks(t0, t1, Math.max(2, Math.floor((wide - left) / 90)))) {
    c.fillStyle = edge; c.fillRect(x(t), total, 1, 4);
    c.fillStyle = fg; c.fillText(tickClock(t), Math.min(Math.max(x(t), left + 12), wide - 22), total + 11);
  }
  c.textAlign = 'left';
};
const words = { p: 'is started', s: 'has started; not all have met yet', r: 'runs, and was not looked at yet', w: 'works', b: 'uses a CPU and shows nothing else', i: 'waits', e: 'has ended', l: 'is lost with its host' };
const point = (n, t) => {
  const l = lines[n], m = l && l.host && memory[l.host];
  if (m) { let used = 0; m.at.forEach((at, i) => { if (at <= t) used = m.values[i]; }); $('pointed').textContent = l.host + ' at ' + clock(t) + ': ' + size(used) + ' of memory' + (Number(m.limit) ? ' of ' + size(m.limit) : ', no limit'); }
  if (l && l.phases) $('pointed').textContent = 'the run at ' + clock(t) + ': ' + (phaseWords[phaseAt(t)] || phaseAt(t));
  if (!l || !l.row) return;
  picked = n; touched = true;
  const is = l.did.findLast(d => d.from <= t), did = is ? words[is.did] : 'not started yet';
  $('pointed').textContent = rankName(l.row) + ' on ' + l.row.host + ' at ' + clock(t) + ': ' + did;
  draw();
};
const where = e => { const b = canvas.getBoundingClientRect(); return [t0 + (e.clientX - b.left - left) / (b.width - left - 8) * (t1 - t0), place.findLastIndex(y => y <= e.clientY - b.top)]; };
const zoom = (f, at) => { const mid = at === undefined ? (t0 + t1) / 2 : at; t0 = Math.max(0, mid - (mid - t0) * f); t1 = Math.min(last, mid + (t1 - mid) * f); if (t1 - t0 < 0.001) t1 = t0 + 0.001; draw(); };
canvas.addEventListener('pointermove', e => { const [t, n] = where(e); if (t >= t0) point(n, t); });
box.addEventListener('wheel', e => { if (e.ctrlKey || e.shiftKey) { e.preventDefault(); zoom(e.deltaY > 0 || e.deltaX > 0 ? 1.25 : 0.8, where(e)[0]); } }, { passive: false });
box.addEventListener('dblclick', e => zoom(0.5, where(e)[0]));
box.addEventListener('keydown', e => {
  const step = (t1 - t0) / 10;
  const move = { ArrowLeft: () => { const d = Math.min(step, t0); t0 -= d; t1 -= d; draw(); }, ArrowRight: () => { const d = Math.min(step, last - t1); t0 += d; t1 += d; draw(); },
    ArrowDown: () => { let n = picked + 1; while (lines[n] && !lines[n].row) n++; if (lines[n]) point(n, (t0 + t1) / 2); }, ArrowUp: () => { let n = picked - 1; while (lines[n] && !lines[n].row) n--; if (lines[n]) point(n, (t0 + t1) / 2); },
    '+': () => zoom(0.8), '-': () => zoom(1.25), '0': () => { t0 = 0; t1 = last; draw(); } }[e.key];
  if (move) { e.preventDefault(); move(); }
});
window.addEventListener('resize', draw);
matchMedia('(prefers-color-scheme:dark)').addEventListener('change', draw);
if (rows.length) draw(); else box.replaceChildren(el('p', 'the report has no rows of ranks'));

// Curves of --watch, over the run's time.
const brief = v => { const a = Math.abs(v); return a >= 1e9 || a > 0 && a < 1e-3 ? v.toExponential(1).replace('e+', 'e') : a >= 1e6 ? Number((v / 1e6).toPrecision(4)) + ' M' : a >= 1e4 ? Number((v / 1e3).toPrecision(4)) + ' k' : String(Number(v.toPrecision(4))); };
for (const c of R.curves || []) {
  $('progress').hidden = false;
  const v = c.values.map(Number), fine = v.filter(Number.isFinite), lo = fine.length ? Math.min(...fine) : 0, hi = fine.length ? Math.max(...fine) : 1;
  const f = el('figure'), s = svg('svg', { viewBox: '0 0 320 170', role: 'img' }), x0 = 46, y0 = 148;
  const px = t => (x0 + t / last * (314 - x0)).toFixed(1), py = y => (hi > lo ? y0 - (y - lo) / (hi - lo) * (y0 - 8) : y0 / 2).toFixed(1);
  const label = (x, y, anchor, text) => s.append(Object.assign(svg('text', { x, y, 'text-anchor': anchor }), { textContent: text }));
  for (const y of ticks(lo, hi, 5)) { s.append(svg('line', { x1: x0, x2: 314, y1: py(y), y2: py(y) })); label(x0 - 4, Number(py(y)) + 3, 'end', brief(y)); }
  for (const t of ticks(0, last, 4)) { s.append(svg('line', { x1: px(t), x2: px(t), y1: 8, y2: y0 })); label(px(t), y0 + 13, 'middle', tickClock(t)); }
  let d = '', pen = 'M';
  v.forEach((y, i) => { if (Number.isFinite(y)) { d += pen + px(c.at[i]) + ' ' + py(y); pen = 'L'; } else { pen = 'M'; s.append(svg('circle', { cx: px(c.at[i]), cy: 75, r: 3 })); } });
  s.append(svg('path', { d }));
  const text = c.name + ' of rank ' + c.rank + ': ' + v[0] + ' to ' + v[v.length - 1] + (fine.length ? ', from ' + lo + ' to ' + hi : '') + (c.every > 1 ? ', each ' + c.every + 'th' : '');
  titled(s, text);
  f.append(s, el('figcaption', text)); $('curves').append(f);
}

// The log. A block: its text, where its lines begin, and of each line whose it is. What is found are lines of each block, null for all of them, and how
// many there were before.
const blocks = []; let found = [], before = [0];
const order = 'diwe';
const unpack = async b64 => {
  const raw = Uint8Array.from(atob(b64), c => c.charCodeAt(0));
  return new Response(new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
};
const load = async () => {
  const scripts = [...document.querySelectorAll('script.block')];
  if (!scripts.length) return;
  $('log-section').hidden = false;
  const names = new Set();
  for (const s of scripts) {
    const [meta, text] = s.textContent.split(' '); s.remove();
    const b = JSON.parse(await unpack(meta)); b.text = await unpack(text); b.low = b.text.toLowerCase();
    if (b.low.length !== b.text.length) b.low = b.text.replace(/[A-Z]+/g, m => m.toLowerCase()); // some letters are two when small
    const off = new Uint32Array(b.by.length + 1); let at = 0;
    for (let i = 0; i < b.by.length; i++) { off[i] = at; at = b.text.indexOf('\n', at) + 1; }
    off[b.by.length] = at; b.off = off; blocks.push(b);
    b.stream = Uint8Array.from(b.stream, c => c.charCodeAt(0)); b.deep = Uint8Array.from(b.level, c => order.indexOf(c)); b.at = Float64Array.from(b.at, t => t === null ? NaN : t);
    b.by = Uint32Array.from(b.by);
    for (const [, h] of b.who) if (h) names.add(h);
    $('log-count').textContent = 'unpacking: ' + blocks.length + ' of ' + scripts.length;
  }
  for (const h of [...names].sort()) { const o = el('option', h); o.value = h; $('f-host').append(o); }
  filter();
};
const rankSet = text => {
  if (!text.trim()) return null;
  const set = new Set();
  for (const part of text.split(',')) { const [a, b] = part.split('-').map(Number); if (!(a >= 0) || (b !== undefined && !(b >= a)) || b - a > 1e5) return undefined; for (let r = a; r <= (b === undefined ? a : b); r++) set.add(r); }
  return set;
};
const filter = () => {
  const began = performance.now(), text = $('f-text').value, exact = text !== text.toLowerCase(), set = rankSet($('f-rank').value);
  const host = $('f-host').value, stream = $('f-stream').value, level = Number($('f-level').value);
  const from = $('f-from').value.trim() === '' ? null : Number($('f-from').value) * 1000, to = $('f-to').value.trim() === '' ? null : Number($('f-to').value) * 1000;
  if (set === undefined || Number.isNaN(from) || Number.isNaN(to)) { $('log-count').textContent = 'write ranks as 0,4-7 and times in seconds'; return; }
  found = []; before = [0];
  let all = 0;
  const code = stream.charCodeAt(0), some = set || host || stream || level > 0 || from !== null || to !== null;
  blocks.forEach(b => {
    const n = b.by.length, whom = Uint8Array.from(b.who, ([r, h]) => (!set || set.has(r)) && (!host || h === host) ? 1 : 0);
    all += n;
    const fits = !some ? () => true : i => whom[b.by[i]] === 1 && (!stream || b.stream[i] === code) && b.deep[i] >= level && (from === null || b.at[i] >= from) && (to === null || b.at[i] <= to);
    let list = null, k = 0;
    if (text || some) list = new Uint32Array(n);
    if (text) {
      const hay = exact ? b.text : b.low;
      for (let at = hay.indexOf(text), i = 0; at >= 0; at = hay.indexOf(text, b.off[i])) {
        let step = 1; // to the line that has it, which is the next one or far away
        while (i + step < n && b.off[i + step] <= at) { i += step; step *= 2; }
        while (step > 0) { if (i + step < n && b.off[i + step] <= at) i += step; step >>= 1; }
        if (fits(i)) list[k++] = i;
        if (++i >= n) break;
      }
    } else if (some) for (let i = 0; i < n; i++) if (fits(i)) list[k++] = i;
    found.push(list && list.slice(0, k)); before.push(before[before.length - 1] + (list ? k : n));
  });
  const count = before[before.length - 1];
  const left = JSON.parse($('log').textContent).left;
  $('log-count').textContent = count + ' of ' + all + ' lines' + (left ? '; ' + left + ' more had no room on this page' : '');
  document.body.dataset.searchMs = (performance.now() - began).toFixed(1);
  $('log-space').style.height = Math.min(count * 18, 3e7) + 'px'; $('log-view').scrollTop = 0; view();
};
const view = () => {
  const v = $('log-view'), pre = $('log-lines'), n = Math.ceil(v.clientHeight / 18) + 20, first = Math.max(0, Math.floor(v.scrollTop / 18) - 10);
  pre.replaceChildren(); pre.style.top = first * 18 + 'px';
  for (let k = first, m = 0; k < Math.min(first + n, before[before.length - 1]); k++) {
    while (before[m + 1] <= k) m++;
    const b = blocks[m], i = found[m] ? found[m][k - before[m]] : k - before[m], [r, h] = b.who[b.by[i]];
    const at = Number.isNaN(b.at[i]) ? '' : (b.at[i] / 1000).toFixed(2) + ' ';
    pre.append(el('span', (at + (r >= 0 ? '[' + r + '] ' : '') + (h ? h + ' ' : '')), 'who'), el('span', b.text.slice(b.off[i], b.off[i + 1]), 'l-' + b.level[i]));
  }
};
let timer = 0;
$('log-form').addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(filter, 80); });
$('log-form').addEventListener('submit', e => { e.preventDefault(); filter(); });
$('log-view').addEventListener('scroll', () => requestAnimationFrame(view));
document.addEventListener('DOMContentLoaded', () => requestAnimationFrame(() => setTimeout(load, 0)));
})();

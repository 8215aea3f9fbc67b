// What the mock's positions waited for and its devices were idle for: times that add up, the same for a seed.

const RANKS = ["chat", "search", "vision", "train", "batch"];
const DAYS = 9;

/** Parts of a whole: integers that add up to it. */
function parted(whole, weights) {
  const sum = weights.reduce((a, b) => a + b, 0);
  const parts = weights.map((it) => Math.floor((whole * it) / sum));
  parts[0] += whole - parts.reduce((a, b) => a + b, 0);
  return parts;
}

const longestFirst = (waits) => waits.filter((it) => it.ns > 0).sort((a, b) => b.ns - a.ns);

/** What a position of a tenant waited for; of those that ran nothing, or of the epoch before, nobody knows. */
export function waitedOf(random, tenant, cost, known) {
  if (!known) return { waited_ns: null, waits: null };
  const rank = RANKS.indexOf(tenant);
  const whole = Math.round(cost * (0.05 + rank * 1.7 * random() + random()));
  const before = RANKS[Math.floor(random() * Math.max(1, rank))];
  const causes = [
    ["bus", null, 0.1],
    ["own", null, random()],
    ["window", random() < 0.5 ? before : null, random() * 2],
    ["device", before, random()],
    ["worker", null, 0.06],
  ];
  if (rank > 0) causes.push(["priority", before, rank * 2 * random()]);
  if (random() < 0.2) causes.push(["share", RANKS[(rank + 1) % RANKS.length], random() * 3]);
  if (tenant === "batch") causes.push(["cap", "batch", random() * 3]);
  if (tenant === "batch" && random() < 0.1) causes.push(["memory", "batch", 6]);
  const parts = parted(whole, causes.map(([, , weight]) => weight));
  return { waited_ns: whole, waits: longestFirst(causes.map(([cause, of], at) => ({ cause, of, ns: parts[at] }))) };
}

/** When a position was where. */
export function timesOf(it) {
  if (it.waited_ns === null) return null;
  const ended_ns = (it.at_ms ?? Date.now()) * 1e6;
  const started_ns = ended_ns - it.measured_ns;
  const announced_ns = started_ns - it.waited_ns;
  const at = (share) => announced_ns + Math.round(it.waited_ns * share);
  return { announced_ns, granted_ns: at(0.8), accepted_ns: at(0.86), begun_ns: at(0.88), started_ns, ended_ns };
}

const at = (sorted, share) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;

/** What positions come to. */
export function summaryOf(positions) {
  const ran = positions.filter((it) => it.measured_ns);
  const timed = ran.filter((it) => it.waited_ns !== null);
  const sums = new Map();
  for (const { waits } of timed)
    for (const { cause, of, ns } of waits) {
      const key = `${cause} ${of}`;
      sums.set(key, { cause, of, ns: (sums.get(key)?.ns ?? 0) + ns });
    }
  const waited = timed.map((it) => it.waited_ns).sort((a, b) => a - b);
  const sum = (all, of) => all.reduce((whole, it) => whole + of(it), 0);
  return {
    positions: timed.length,
    untimed: ran.length - timed.length,
    kernels: sum(ran, (it) => it.kernels ?? 0),
    ran_ns: sum(ran, (it) => it.measured_ns),
    waited_ns: sum(waited, (it) => it),
    waited_p50_ns: at(waited, 0.5),
    waited_p99_ns: at(waited, 0.99),
    waited_max_ns: waited.at(-1) ?? 0,
    waits: longestFirst([...sums.values()]),
  };
}

/** A device's days, the oldest first. */
export function daysOf(gpu, random) {
  const today = Date.parse(new Date().toISOString().slice(0, 10));
  return Array.from({ length: DAYS }, (_, number) => {
    const whole = number === DAYS - 1 ? 40_000e9 : 86_400e9;
    const [busy_ns, idle_ns] = parted(whole, [0.2 + random(), 0.05 + random() * 0.7]);
    const causes = [
      ["program", null, 3 * random()],
      ["empty", null, number < 3 ? 2 * random() : 0],
      ["cap", "batch", gpu === 2 ? 0 : random() / 2],
      ["bus", null, random() / 3],
      ["worker", null, random() / 9],
      ["unknown", null, number === 4 ? random() : 0],
    ];
    const parts = parted(idle_ns, causes.map(([, , weight]) => weight + 1e-9));
    const idle = longestFirst(causes.map(([cause, of], at) => ({ cause, of, ns: parts[at] })));
    return { day: new Date(today - (DAYS - 1 - number) * 86_400_000).toISOString().slice(0, 10), busy_ns, idle_ns, idle };
  });
}

/** Without the names of tenants that somebody may not know of. */
export function seenWaits(waits, sees) {
  const sums = new Map();
  for (const { cause, of, ns } of waits ?? []) {
    const shown = of && sees(of) ? of : null;
    const key = `${cause} ${shown}`;
    sums.set(key, { cause, of: shown, ns: (sums.get(key)?.ns ?? 0) + ns });
  }
  return waits && longestFirst([...sums.values()]);
}

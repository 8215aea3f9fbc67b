// What the mock answers to whoever asks why.
import { randomOf } from "./cluster.mjs";
import { missing } from "./refusal.mjs";
import { daysOf, seenWaits, summaryOf, timesOf } from "./why.mjs";

/** A position as whoever is logged in sees it. */
export const positionOf = (mock, it) => ({ ...it, waits: seenWaits(it.waits, (name) => mock.sees(name)) });

/** What some of the positions waited for, as whoever is logged in sees it. */
function summary(mock, fits) {
  const sums = summaryOf(mock.cluster.positions.filter(fits));
  return { ...sums, waits: seenWaits(sums.waits, (name) => mock.sees(name)) };
}

/** What the record explains. */
export const WHY = [
  [
    /^GET \/tenants\/([^/]+)\/why$/,
    (mock, [name]) => {
      if (!mock.cluster.tenants.has(name) || !mock.sees(name)) throw missing(`tenant "${name}"`);
      return { tenant: name, ...summary(mock, (it) => it.tenant === name) };
    },
  ],
  [
    /^GET \/sessions\/([^/]+)\/why$/,
    (mock, [id]) => {
      const at = mock.cluster.sessions.findIndex((it) => it.id === id);
      const tenant = mock.cluster.sessions[at]?.tenant ?? mock.cluster.positions.find((it) => it.session === id)?.tenant;
      if (!tenant || !mock.sees(tenant)) throw missing(`session "${id}"`);
      const waits_for = at < 0 ? null : mock.cluster.sessionView(mock.cluster.sessions[at], at).waits;
      return { session: id, tenant, waits_for, ...summary(mock, (it) => it.session === id) };
    },
  ],
  [
    /^GET \/devices\/([^/]+)\/why$/,
    (mock, [number]) => {
      const gpu = mock.cluster.gpus.find((it) => String(it.gpu) === number);
      if (!gpu) throw missing(`device "${number}"`);
      return { gpu: gpu.gpu, days: daysOf(gpu.gpu, randomOf(gpu.gpu + 3)) };
    },
  ],
  [
    /^GET \/order\/([^/]+)\/why$/,
    (mock, [id]) => {
      const found = mock.cluster.positions.find((it) => it.id === id);
      if (!found || !mock.sees(found.tenant)) throw missing(`position "${id}" that has ended`);
      return { ...positionOf(mock, found), times: timesOf(found) };
    },
  ],
];

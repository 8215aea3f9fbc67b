// The parts that compute, tried in the browser that they are for.
import { open } from "./browser.mjs";

/** Runs in the page: what is wrong, a line each. */
async function inPage() {
  const wrong = [];
  const same = (what, had, wanted) => {
    if (JSON.stringify(had) !== JSON.stringify(wanted))
      wrong.push(`${what}: ${JSON.stringify(had)}, not ${JSON.stringify(wanted)}`);
  };
  const { Ring } = await import("/weave/ring.js");
  const { Cutter } = await import("/app/stream.js");
  const { RecordLine, before } = await import("/weave/record.js");
  const { Camera } = await import("/weave/camera.js");
  const { geometry } = await import("/weave/geometry.js");
  const format = await import("/app/format.js");
  const { shadeOf } = await import("/app/colours.js");
  const { attainmentOf, targetsMet } = await import("/pages/tenants.js");

  const tenant = (slo_ns, attainment) => ({ settings: { slo_ns }, attainment });
  const idle = tenant(20e6, undefined);
  const met = tenant(20e6, { target_ns: 20e6, attained: 0.995 });
  const late = tenant(20e6, { target_ns: 20e6, attained: 0.5 });
  same("a target without traffic is one", attainmentOf(idle)?.text, "no traffic");
  same("without a target there is none", attainmentOf(tenant(0, undefined)), null);
  same("targets met", targetsMet([met, late, idle, tenant(0)]), { value: "1 of 2", note: "99 of 100 requests in time; 1 without traffic" });
  same("targets without traffic", targetsMet([idle]).value, "–");
  same("no targets", targetsMet([tenant(0)]), { value: "–", note: "no target is set" });

  const position = (global, more) => ({
    id: `2.${global}`,
    gpu: global % 2,
    worker: "w",
    position: global,
    tenant: `t${global % 3}`,
    session: `s${global}`,
    ordinal: 1,
    kind: "run",
    first: 1,
    last: 2,
    priority: 0,
    kernels: 1,
    cost_ns: 1e6,
    measured_ns: 2e6,
    outcome: "ran",
    adopted: false,
    at_ms: null,
    ...more,
  });
  const ring = new Ring(4);
  for (let global = 1; global <= 40; global++)
    ring.push(position(global));
  same("ring keeps the newest", [ring.oldest, ring.next, ring.idOf(ring.oldest)], [24, 40, "2.25"]);
  same("ring finds", [ring.find("2.30"), ring.find("2.3")], [29, -1]);
  same("ring reads", [ring.read(39).session, ring.read(39).measured_ns], ["s40", 2e6]);
  same("ring goes beside on the lane", ring.beside(39, -1), 37);
  same("ring forgets names of sessions", ring.sessions.list.length <= 32, true);
  ring.push(position(41, { outcome: null, measured_ns: null }));
  ring.push(position(41));
  same(
    "ring brings a position up to date",
    [ring.next, ring.read(40).outcome, ring.read(40).measured_ns],
    [41, "ran", 2e6],
  );
  ring.push(position(43, { outcome: "void" }));
  same("nothing ran at a void position", ring.width[41 & ring.mask], 0);

  const grant = (measured_ns, outcome = null) => position(50, { kind: "standing", worker: "v", measured_ns, outcome });
  const lone = new Ring(6);
  const widths = () => Array.from({ length: lone.next }, (_, at) => lone.width[at]);
  lone.stand([grant(9e6)]);
  same("what a standing grant ran before anybody looked is not drawn", lone.next, 0);
  lone.stand([grant(10e6)]);
  lone.stand([grant(10e6)]);
  lone.stand([grant(13e6)]);
  same("a standing grant is drawn as it runs", widths(), [1e6, 3e6]);
  same("a part of it is no position", [lone.find("2.50"), lone.read(1).part, lone.read(1).measured_ns], [-1, true, 13e6]);
  lone.push(grant(14e6, "ran"));
  same("each of its nanoseconds is drawn once", [widths(), lone.read(2).measured_ns], [[1e6, 3e6, 1e6], 14e6]);
  same("it is a position once it has ended", [lone.find("2.50"), lone.read(2).part, lone.standing.size], [2, false, 0]);
  lone.stand([{ ...grant(2e6), position: 51 }]);
  same("one that began while we looked is drawn whole", widths().at(-1), 2e6);
  for (let at = 0; at < 3000; at++) lone.stand([{ ...grant(1), position: 100 + at }]);
  same("what is known of standing grants stays small", lone.standing.size, 1024);

  const waits = [7, 5, 4, 3, 2].map((ns, at) => ({ cause: `c${at}`, of: at % 2 ? "t1" : null, ns }));
  ring.push(position(44, { waited_ns: 21, waits }));
  ring.push(position(45));
  same(
    "ring keeps the longest waits, and what the others come to",
    [ring.read(42).waited_ns, ring.read(42).waits.map((it) => [it.cause, it.of, it.ns])],
    [21, [["c0", null, 7], ["c1", "t1", 5], ["c2", null, 4], ["c3", "t1", 3], ["others", null, 2]]],
  );
  same("a wait that is not recorded", [ring.read(43).waited_ns, ring.read(43).waits], [null, null]);

  const timed = new Ring(4);
  timed.push(position(2, { at_ms: 5000 }));
  timed.push(position(4, { at_ms: 5002 }));
  timed.push(position(6, { at_ms: 5100 }));
  same("a lane's blocks follow one another", timed.start[1] - timed.start[0], 2e6);
  same("idle time is left between", Math.round((timed.start[2] - timed.start[1]) / 1e6), 98);

  const cutter = new Cutter();
  same("an event in parts is none yet", cutter.take("event: position\nid: 1.2\nda"), []);
  same("events are cut", cutter.take('ta: {"a":1}\n\n: still here\n\ndata: x\ndata: y\n\nid'), [
    { event: "position", id: "1.2", data: '{"a":1}' },
    { event: "message", id: null, data: "x\ny" },
  ]);

  const line = new RecordLine();
  line.segments = [
    { epoch: 2, first: 5, last: 14 },
    { epoch: 4, first: 1, last: 10 },
  ];
  same(
    "the ends of the record",
    [line.idAt(0), line.idAt(1), line.oldest, line.newest],
    ["2.5", "4.10", "2.5", "4.10"],
  );
  for (const id of ["2.5", "2.14", "4.1", "4.10"]) same("a place in the record", line.idAt(line.placeOf(id)), id);
  line.grow("5.1");
  same("a new epoch", line.newest, "5.1");
  same("the order of ids", [before("2.9", "2.10"), before("2.10", "3.1"), before("3.1", "2.10")], [true, true, false]);

  const camera = new Camera();
  camera.right = 10e9;
  camera.zoom(0.5, 9e9);
  same("zoom stays at its moment", [camera.span, camera.right], [2e9, 9.5e9]);

  for (const [width, height, count] of [
    [1000, 400, 3],
    [1000, 400, 64],
    [300, 320, 16],
  ]) {
    const { lanes } = geometry(
      width,
      height,
      1,
      Array.from({ length: count }, (_, gpu) => count - gpu),
    );
    const apart = lanes.every((it, at) => !at || it.y >= lanes[at - 1].y + lanes[at - 1].height);
    same(
      `${count} lanes fit`,
      [lanes.length, lanes[0].gpu, apart, lanes.at(-1).y + lanes.at(-1).height <= height],
      [count, 1, true, true],
    );
  }

  same("sizes", ["8 GiB", "1.5 MiB", "0", "12", "x"].map(format.parseBytes), [8 * 2 ** 30, 1.5 * 2 ** 20, 0, 12, null]);
  same("times", ["25 ms", "500us", "0", "3 h"].map(format.parseNanos), [25e6, 5e5, 0, null]);
  same(
    "words",
    [format.nanos(1234), format.nanos(2.5e9), format.bytes(1536), format.percent(0.5), format.percent(0.0001), format.percent(null)],
    ["1.23 µs", "2.50 s", "1.50 KiB", "50.0 %", "< 0.1 %", "–"],
  );

  localStorage.clear();
  const names = Array.from({ length: 19 }, (_, at) => `tenant-${at}`);
  const shades = names.map(shadeOf);
  same(
    "19 tenants and the five of the cluster are told apart",
    new Set([...shades, ...["chat", "search", "train", "vision", "batch"].map(shadeOf)]).size,
    24,
  );
  same("a tenant's colour stays", names.map(shadeOf), shades);
  return wrong;
}

export async function units({ browser, base, fail }) {
  const { page, context } = await open(browser);
  await page.goto(base);
  for (const it of await page.evaluate(inPage)) fail(it);
  await context.close();
  console.log("units: done");
}

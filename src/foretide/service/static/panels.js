// Everything around the charts: facts, tiles, decision log, events, workers, comparison.

import { clock, level, make, number, percent, replace, seconds } from "./format.js";
import { STATUS, tell } from "./story.js";

const RUN_STATUS = { running: "good live", finished: "", failed: "bad", interrupted: "warn", lost: "bad" };

export function about(root, record) {
  const { run } = record;
  const facts = [["policy", run.policy], ["forecaster", run.forecaster], ["trace", run.trace], ["td", run.td_s ? seconds(run.td_s) : ""], ["began", run.began.slice(0, 19).replace("T", " ") + " UTC"]];
  replace(root, make("h1", {}, run.name, " ", make("span", { class: `chip ${RUN_STATUS[run.status] || ""}`, id: "status" }, run.status)),
    ...facts.filter(([, value]) => value).map(([name, value]) => make("span", {}, `${name} `, make("b", {}, value))),
    make("span", {}, run.id));
}

export function tiles(root, record) {
  const last = (values) => values.at(-1) ?? null, pool = record.topology.nodes.reduce((sum, node) => sum + (node.maximum || 0), 0);
  const active = last(record.observed), input = last(record.input), expected = last(record.forecast.mean);
  const decided = record.decisions.filter((one) => one.changes.length).at(-1);
  const busiest = record.row ? record.row.utilisation.reduce((best, value, place) => (value > best.value ? { value, place } : best), { value: -1, place: 0 }) : null;
  const entries = [
    ["input", number(input), "/s", expected === null ? "" : `next interval ${number(expected)}/s`],
    ["replicas", active === null ? "–" : String(active), `of ${pool}`, pool ? `${percent(active / pool)} of the pool` : ""],
    ["busiest operator", busiest && busiest.value >= 0 ? percent(busiest.value) : "–", "", busiest ? record.topology.layout.operators[busiest.place] : ""],
    ["queue", number(last(record.queue)), "events", ""],
    ["latency p95", seconds(last(record.latency.p95)), "", `p50 ${seconds(last(record.latency.p50))}, p99 ${seconds(last(record.latency.p99))}`],
    ...promise(record),
    ["last change", decided ? clock(record.time(decided.at_s)) : "–", "", decided ? changes(decided, 2) : "none yet"],
  ];
  replace(root, ...entries.map(([what, value, unit, more]) => make("div", { class: "tile" }, make("div", { class: "what" }, what), make("div", { class: "value" }, `${value} `, make("small", {}, unit)), make("div", { class: "more" }, more))));
}

function promise({ outlook, kept }) {
  if (outlook.level === null) return [];
  const words = `p50 ${seconds(outlook.p50.at(-1))} and p95 ${seconds(outlook.p95.at(-1))} expected`;
  return [[`promise p${Math.round(1000 * outlook.level) / 10} < ${seconds(outlook.promised.at(-1))}`, kept === null ? "–" : percent(kept), "of intervals kept", words]];
}

export function changes(decision, most = 6) {
  const shown = decision.changes.slice(0, most).map((change) => `${change.operator} ${change.from} → ${change.to}`);
  const more = decision.changes.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

export function decisions(table, record) {
  const rows = record.decisions.slice().reverse().map((one) => {
    const open = () => tell(record, one.id);
    const why = one.failure || one.detail || one.notes.join("; ");
    const words = changes(one) || (one.status === "skipped" || one.failure ? "" : "no change");
    return make("tr", { tabindex: 0, role: "button", "data-id": one.id, onclick: open, onkeydown: (event) => { if (event.key === "Enter") open(); } },
      make("td", {}, clock(record.time(one.at_s))), make("td", {}, make("span", { class: `chip ${STATUS[one.status] || ""}` }, one.status)),
      make("td", { class: "num" }, one.planned === null ? "–" : `${one.observed} → ${one.planned}`), make("td", {}, words, why ? make("div", { class: "note" }, why) : null));
  });
  replace(table.tBodies[0], ...(rows.length ? rows : [make("tr", {}, make("td", { colspan: 4, class: "empty" }, "No decision yet."))]));
}

export function events(list, record) {
  const rows = record.events.slice().reverse().map((event) => make("li", { class: event.severity }, make("span", { class: "note" }, clock(record.time(event.at_s))), make("span", {}, make("span", { class: "kind" }, event.kind), ` ${event.message}`)));
  replace(list, ...(rows.length ? rows : [make("li", {}, make("span"), make("span", { class: "empty" }, "Nothing happened yet."))]));
}

// What a glance should tell; the rest is in the API.
const SHOWN = {
  worker: [["cpu", "CPU", "%"], ["queueing_ms", "queueing", "ms"], ["execution_ms", "execution", "ms"], ["sending_ms", "sending", "ms"], ["inbound_rate", "events in", "/s"], ["gc_share", "GC", "%"], ["memory_share", "memory", "%"]],
  machine: [["cpu_user", "user", "%"], ["cpu_system", "system", "%"], ["cpu_iowait", "I/O wait", "%"], ["cpu_busiest", "busiest core", "%"], ["pressure_cpu", "held up for a core", "%"], ["load1", "load", ""], ["disk_busy", "disk", "%"]],
};

export function workers(root, record) {
  const found = [...record.features.values()];
  if (!found.length) return replace(root, make("p", { class: "empty" }, "No features of workers were recorded for this run."));
  return replace(root, ...["worker", "machine"].map((kind) => {
    const rows = found.filter((one) => one.level === kind).sort((a, b) => a.owner.localeCompare(b.owner, "en", { numeric: true }));
    if (!rows.length) return null;
    const columns = SHOWN[kind].filter(([name]) => rows.some((one) => Number.isFinite(one.values[name])));
    const judged = kind === "worker";
    return make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, kind), judged ? make("th", {}, "health") : null, ...columns.map(([, label]) => make("th", {}, label)), make("th", {}, "seen"))),
      make("tbody", {}, ...rows.map((one) => make("tr", {}, make("td", { class: "nowrap" }, one.owner, one.level === "worker" ? make("div", { class: "note" }, one.machine) : null),
        judged ? make("td", { class: "health" }, ...health(record, one.owner)) : null,
        ...columns.map(([name, , unit]) => make("td", { class: "nowrap" }, feature(one.values[name], unit))), make("td", { class: "note" }, clock(record.time(one.at_s)))))));
  }));
}

// Which feature is drawn: all that were seen, workers' first.
export function picker(select, record) {
  const names = ["worker", "machine"].flatMap((level) => {
    const found = [...record.features.values()].find((one) => one.level === level);
    return found ? Object.keys(found.values).map((name) => `${level} ${name}`) : [];
  });
  if (select.options.length === names.length) return;
  const chosen = select.value || "worker queueing_ms";
  replace(select, ...names.map((name) => make("option", { value: name, selected: name === chosen }, name.replace(" ", ": ").replaceAll("_", " "))));
}

const COLOURS = ["--forecast", "--planned", "--observed", "--requested", "--p99", "--input", "--queue"];

// A line for each worker or machine; those beyond the colours share them.
export function featureLines(history, record) {
  const owners = Object.keys(history.owners).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return owners.map((owner, place) => {
    const { at_s: at, values } = history.owners[owner];
    return { label: owner, color: COLOURS[place % COLOURS.length], at: at.map((one) => record.time(one)), values };
  });
}

const VERDICT = { suspected: "warn", bypassed: "bad", "slow, kept": "warn", "on probation": "warn" };

function health(record, worker) {
  const found = record.health.get(worker);
  const last = record.judged[worker];
  const times = last && last.predicted ? make("div", { class: "note" }, `queueing ${number(last.measured.queueing_ms)} ms, next ${number(last.predicted.queueing_ms)} ms predicted`) : null;
  if (!found) return [make("span", { class: "note" }, last ? `fine by ${last.policy}` : "no complaint"), times];
  return [make("span", { class: `chip ${VERDICT[found.verdict]}` }, found.verdict), make("div", { class: "note" }, `${clock(record.time(found.at_s))} ${found.reason}`), times];
}

function feature(value, unit) {
  if (!Number.isFinite(value)) return "–";
  const text = `${number(value)}${unit === "%" ? " %" : unit === "ms" ? " ms" : unit}`;
  if (unit !== "%") return text;
  const bar = make("i", { class: level(value / 100) });
  bar.style.width = `${Math.max(0, Math.min(100, value))}%`;
  return make("span", {}, text, make("meter-bar", {}, bar));
}

// Each metric of SPEC P8, how to write it, and whether less is better.
const METRICS = [
  ["replicas, mean", "replicas_mean", (value) => number(value), true], ["saved resources", "saved", percent, false],
  ["slot-seconds", "slot_seconds", (value) => number(value, 4), true], ["latency p50", "latency_p50_ms", (value) => seconds(value / 1000), true],
  ["latency mean", "latency_mean_ms", (value) => seconds(value / 1000), true], ["latency p95", "latency_p95_ms", (value) => seconds(value / 1000), true],
  ["latency p99", "latency_p99_ms", (value) => seconds(value / 1000), true], ["processed ÷ received", "processed", (value) => number(value, 4), false],
  ["throughput degradation", "degradation", (value) => number(value), true], ["error of input", "error_input", (value) => number(value), true],
  ["error of replicas", "error_replica", (value) => number(value), true], ["changes", "changes", (value) => number(value), true],
  ["first plan after", "first_plan_s", seconds, true], ["latency p95, first 30 s", "cold_p95_ms", (value) => seconds(value / 1000), true],
  ["latency p95, after that", "warm_p95_ms", (value) => seconds(value / 1000), true],
  ["promise kept", "slo", ({ kept, intervals }) => (intervals ? percent(kept / intervals) : "–"), null],
  ["longest queue", "queued_most", (value) => number(value), true], ["events", "events", (value) => number(value, 4), null],
];

export function comparison(section, first, second, scores) {
  const head = make("tr", {}, make("th", {}, "metric"), ...[first, second].map(({ run }) => make("th", { class: "num" }, `${run.name} · ${run.policy || run.id}`)));
  const rows = METRICS.map(([label, name, write, less]) => {
    const values = scores.map((score) => score[name] ?? null), known = values.every(Number.isFinite);
    const best = known && less !== null && values[0] !== values[1] ? values.indexOf((less ? Math.min : Math.max)(...values)) : -1;
    return make("tr", {}, make("td", {}, label), ...values.map((value, place) => make("td", { class: `num${place === best ? " best" : ""}` }, value === null ? "–" : write(value))));
  });
  section.querySelector("small").textContent = `metrics of both runs so far; dashed in the charts: ${second.run.name} · ${second.run.policy || second.run.id}`;
  replace(section.querySelector(".scroll"), make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

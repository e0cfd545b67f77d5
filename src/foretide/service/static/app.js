// The dashboard: which run, what of it, and when to draw it again.

import { follow, get, runPath, send } from "./api.js";
import { Chart } from "./chart.js";
import { Dag } from "./dag.js";
import { make, number, replace, seconds } from "./format.js";
import * as operator from "./operator.js";
import * as panels from "./panels.js";
import { Record } from "./record.js";

const $ = (id) => document.getElementById(id);
const NOTHING = { steerable: false, obstacle: "", paused: false, overrides: [] };
// Draw at most this often, however fast data comes.
const DRAW_MS = 250;
const RUNS_MS = 10000;

const view = { record: null, other: null, control: NOTHING, stop: null, due: null, stale: new Set(), history: null };
const charts = {
  input: new Chart($("chart-input"), { format: (value) => number(value) }),
  slots: new Chart($("chart-slots"), { format: (value) => number(value) }),
  queue: new Chart($("chart-queue"), { format: (value) => number(value) }),
  latency: new Chart($("chart-latency"), { format: seconds, log: true }),
  feature: new Chart($("chart-feature"), { format: (value) => number(value) }),
};
const dag = new Dag($("dag"), (id) => operator.open(view.record, view.control, id, setControl));

function asked() {
  const given = new URLSearchParams(location.hash.slice(1));
  return { run: given.get("run") || "latest", compare: given.get("compare") || "", range: given.get("range") ?? "600" };
}

function ask(change) {
  const next = { ...asked(), ...change };
  location.hash = new URLSearchParams(Object.entries(next).filter(([, value]) => value !== null)).toString();
}

function notice(text) {
  $("notice").hidden = !text;
  $("notice").textContent = text || "";
}

async function listRuns() {
  const { runs } = await get("v1/runs?last=200");
  const { run, compare } = asked();
  const option = (one, chosen) => make("option", { value: one.id, selected: one.id === chosen || (chosen === "latest" && one === runs[0]) }, `${one.name} · ${one.policy || "no policy"} · ${one.began.slice(5, 16).replace("T", " ")}${one.status === "running" ? " · running" : ""}`);
  replace($("run"), ...runs.map((one) => option(one, run)));
  replace($("compare"), make("option", { value: "" }, "nothing"), ...runs.filter((one) => one.id !== $("run").value).map((one) => option(one, compare)));
  if (!runs.length) notice("No runs are recorded yet. Start one with “foretide run”, or give another store with “foretide serve --store FILE”.");
  return runs.length;
}

async function open() {
  if (view.stop) view.stop();
  view.stop = null;
  const { run, compare, range } = asked();
  $("range").value = range;
  try {
    if (!(await listRuns())) return;
    const span = Number(range) || null;
    const [record, other, control] = await Promise.all([Record.load(run, span), compare ? Record.load(compare, span) : null, get(runPath(run, "/control"))]);
    Object.assign(view, { record, other, history: null });
    notice("");
    dag.show(record.topology);
    setControl(control);
    mark("all");
    paint();
    await Promise.all([compareScores(), loadFeature()]);
    listen();
  } catch (error) {
    notice(error.message);
    $("live").textContent = "no data";
  }
}

function listen() {
  const { record } = view;
  const words = { live: ["live", "chip good live"], lost: ["reconnecting", "chip warn"], ended: ["recorded", "chip"] };
  const show = (state) => { [$("live").textContent, $("live").className] = words[state]; };
  show(record.run.status === "running" ? "lost" : "ended");
  if (record.run.status !== "running") return;
  view.stop = follow(record.run.id, record.run.cursor, (kind, data) => {
    record.apply(kind, data);
    if (kind === "features") extend(data);
    mark(kind === "end" ? "all" : kind);
  }, show);
}

// Remember what has to be drawn anew, and do so soon.
function mark(kind) {
  view.stale.add(kind);
  if (!view.due) view.due = setTimeout(() => { view.due = null; requestAnimationFrame(paint); }, DRAW_MS);
}

function paint() {
  const { record, stale } = view;
  if (!record) return;
  const is = (...kinds) => stale.has("all") || kinds.some((kind) => stale.has(kind));
  if (is()) panels.about($("about"), record);
  if (is("measurement") && record.row) dag.update(record.row);
  if (is("measurement", "decision", "latency")) {
    panels.tiles($("tiles"), record);
    paintCharts();
  }
  if (is("decision")) panels.decisions($("decisions"), record);
  if (is("event")) panels.events($("events"), record);
  if (is("features", "event")) panels.workers($("workers"), record);
  if (is("features")) paintFeature();
  document.body.dataset.at = record.end.toFixed(1);
  stale.clear();
}

function paintCharts() {
  const { record, other } = view, span = Number(asked().range) || null;
  const ahead = record.forecast.to.at(-1) ?? 0, end = Math.max(record.end, Math.min(ahead, record.end + 60), other ? other.end : 0, 1);
  const range = [span ? Math.max(0, end - span) : 0, end];
  const both = (lines) => [...lines(record, false), ...(other ? lines(other, true) : [])];
  const line = (quiet, label, color, at, values, more = {}) => ({ label: quiet ? `${label} (compared)` : label, color, at, values, quiet, dash: quiet, ...more });
  const { forecast } = record;
  charts.input.show(
    both((one, quiet) => [line(quiet, "input", "--input", one.at, one.input), line(quiet, one.model ? `forecast (${one.model})` : "forecast", "--forecast", [...one.forecast.from, ...one.forecast.to.slice(-1)], [...one.forecast.mean, ...one.forecast.mean.slice(-1)], { step: true })].slice(0, one.forecast.from.length ? 2 : 1)),
    [{ label: "band", color: "--band", from: forecast.from, to: forecast.to, low: forecast.low, high: forecast.high }], range);
  charts.slots.show(both((one, quiet) => [
    line(quiet, "observed", "--observed", one.at, one.observed, { step: true, area: !quiet }),
    line(quiet, "requested", "--requested", one.slotsAt, one.requested, { step: true }),
    line(quiet, "planned", "--planned", one.slotsAt, one.planned, { step: true, dash: true }),
  ].slice(0, quiet ? 1 : 3)), [], range);
  charts.queue.show(both((one, quiet) => [line(quiet, "waiting", "--queue", one.at, one.queue, { area: !quiet })]), [], range);
  charts.latency.show(both((one, quiet) => ["p99", "p95", "p50"].map((name) => line(quiet, name, `--${name}`, one.latency.at, one.latency[name])).slice(0, quiet ? 2 : 3).concat(quiet || !one.outlook.at.length ? [] : [
    line(false, "p95 expected", "--p95", one.outlook.at, one.outlook.p95, { step: true, dash: true }),
    line(false, "promised", "--planned", one.outlook.at, one.outlook.promised, { step: true, dash: true }),
  ].slice(0, one.outlook.level === null ? 1 : 2))), [], range);
}

async function loadFeature() {
  const { record } = view;
  panels.picker($("feature"), record);
  const [level, name] = $("feature").value.split(" "), span = Number(asked().range) || null;
  if (!name) return;
  const since = span ? `&since_s=${record.run.started_at_s + Math.max(0, record.end - span)}` : "";
  view.history = await get(runPath(record.run.id, `/features/${name}?level=${level}${since}`));
  mark("features");
}

// What the stream brings of the feature that is drawn.
function extend(sample) {
  const { history } = view;
  if (!history) return void loadFeature().catch((error) => notice(error.message));
  if (history.level !== sample.level) return;
  const series = (history.owners[sample.owner] ||= { at_s: [], values: [] });
  if (series.at_s.length && sample.at_s <= series.at_s.at(-1)) return;
  series.at_s.push(sample.at_s);
  series.values.push(sample.values[history.name] ?? null);
}

function paintFeature() {
  const { record, history } = view, span = Number(asked().range) || null;
  panels.picker($("feature"), record);
  $("chart-feature").hidden = !history;
  if (history) charts.feature.show(panels.featureLines(history, record), [], [span ? Math.max(0, record.end - span) : 0, Math.max(record.end, 1)]);
}

function setControl(control) {
  view.control = control;
  dag.setByHand(control.overrides);
  $("pause").hidden = !control.steerable;
  $("pause").textContent = control.paused ? "Resume" : "Pause";
}

async function compareScores() {
  const { record, other } = view;
  $("comparison").hidden = !other;
  if (!other) return;
  const scores = await Promise.all([record, other].map(({ run }) => get(runPath(run.id, "/score"))));
  panels.comparison($("comparison"), record, other, scores);
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  Object.values(charts).forEach((chart) => chart.paint());
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => localStorage.getItem("foretide-theme") || (dark.matches ? "dark" : "light");
dark.addEventListener("change", () => setTheme(theme()));
$("theme").addEventListener("click", () => {
  localStorage.setItem("foretide-theme", theme() === "dark" ? "light" : "dark");
  setTheme(theme());
});
setTheme(theme());

$("run").addEventListener("change", (event) => ask({ run: event.target.value, compare: asked().compare === event.target.value ? "" : asked().compare }));
$("compare").addEventListener("change", (event) => ask({ compare: event.target.value }));
$("feature").addEventListener("change", () => loadFeature().catch((error) => notice(error.message)));
$("range").addEventListener("change", (event) => ask({ range: event.target.value }));
$("pause").addEventListener("click", async () => {
  try {
    setControl(await send("POST", runPath(view.record.run.id, view.control.paused ? "/resume" : "/pause")));
  } catch (error) {
    notice(error.message);
  }
});
for (const dialog of document.querySelectorAll("#story, #operator")) dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
window.addEventListener("hashchange", open);
// What others set by hand, and runs that begin, show without a stream of their own.
setInterval(async () => {
  if (document.hidden) return;
  try {
    await listRuns();
    if (view.record && view.record.run.status === "running") setControl(await get(runPath(view.record.run.id, "/control")));
  } catch { /* the stream tells when the service is gone */ }
}, RUNS_MS);
open();

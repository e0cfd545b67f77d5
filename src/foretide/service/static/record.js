// What is known of one run: loaded once, then kept up to date by its stream. Times count from its start.

import { get, runPath } from "./api.js";

const MOST = 4000, POINTS = 900, LISTED = 300;
// Long enough for a percentile to mean something, short enough for a burst to show.
const LATENCY_S = 5;
// What the watch over workers says of one, from the last of these events about it.
const VERDICTS = { "health.suspected": "suspected", "health.bypassed": "bypassed", "health.spared": "slow, kept", "health.readmitted": "on probation" };
// Once a minute: what is thought of all workers, with what was predicted and measured.
const JUDGED = "health.judged";

export class Record {
  static async load(id, span) {
    const run = await get(runPath(id));
    const path = (rest) => runPath(run.id, rest);
    const since = await Record.since(run, path, span);
    const [topology, measured, forecasts, latencies, decisions, events, features, ...judged] = await Promise.all([
      get(path("/topology")),
      get(path(`/measurements?last=20000&points=${POINTS}${since}`)),
      get(path(`/forecasts?last=5000${since}`)),
      get(path(`/latencies?interval_s=${LATENCY_S}${since}`)),
      get(path(`/decisions?last=${LISTED}`)),
      get(path(`/events?last=${LISTED}`)),
      get(path("/features")),
      ...[JUDGED, ...Object.keys(VERDICTS)].map((kind) => get(path(`/events?last=${kind === JUDGED ? 1 : LISTED}&kind=${kind}`))),
    ]);
    const record = new Record(run, topology);
    record.fill(measured, forecasts, latencies);
    record.decisions = decisions.decisions;
    record.decisions.forEach((one) => record.slots(one));
    record.events = events.events;
    features.features.forEach((one) => record.features.set(`${one.level} ${one.owner}`, one));
    judged.flatMap((one) => one.events).sort((a, b) => a.at_s - b.at_s).forEach((one) => record.judge(one));
    return record;
  }

  static async since(run, path, span) {
    if (!span) return "";
    const last = await get(path("/measurements?last=1"));
    return last.at_s.length ? `&since_s=${last.at_s[0] - span}` : "";
  }

  constructor(run, topology) {
    Object.assign(this, { run, topology, row: null, decisions: [], events: [], features: new Map(), health: new Map(), judged: {} });
    this.at = [];
    this.input = [];
    this.queue = [];
    this.observed = [];
    this.slotsAt = [];
    this.planned = [];
    this.requested = [];
    this.latency = { at: [], p50: [], p95: [], p99: [] };
    this.outlook = { at: [], p50: [], p95: [], promised: [], level: null };
    this.forecast = { from: [], to: [], mean: [], low: [], high: [] };
    this.model = "";
  }

  time(atS) {
    return atS - this.run.started_at_s;
  }

  get end() {
    return Math.max(0, this.at.at(-1) ?? 0, this.decisions.length ? this.time(this.decisions.at(-1).at_s) : 0);
  }

  fill(measured, forecasts, latencies) {
    const { sources, operators } = this.topology.layout, last = measured.at_s.length - 1;
    this.at = measured.at_s.map((at) => this.time(at));
    const total = (columns) => this.at.map((_, place) => columns.reduce((sum, column) => sum + column[place], 0));
    this.input = total(sources.map((name) => measured.arrived_per_s[name]));
    this.queue = total(operators.map((name) => measured.operators[name].queued));
    this.observed = total(operators.map((name) => measured.operators[name].replicas));
    if (last >= 0) {
      const figure = (name) => operators.map((operator) => measured.operators[operator][name][last]);
      this.row = {
        at_s: measured.at_s[last],
        arrived_per_s: sources.map((name) => measured.arrived_per_s[name][last]),
        passed_per_s: measured.edges.map((edge) => edge.passed_per_s[last]),
        processed_per_s: figure("processed_per_s"),
        dropped_per_s: figure("dropped_per_s"),
        queued: figure("queued"),
        utilisation: figure("utilisation"),
        replicas: figure("replicas"),
      };
    }
    for (const columns of Object.values(forecasts.sources)) {
      columns.from_s.forEach((from, place) => this.expect({ from_s: from, to_s: columns.to_s[place], mean_per_s: columns.mean_per_s[place], low_per_s: columns.low_per_s[place], high_per_s: columns.high_per_s[place], model: columns.model[place] }));
    }
    this.sortForecast();
    this.addLatency(latencies);
  }

  // Forecasts of several sources for one interval add up.
  expect(one) {
    const found = this.forecast, from = this.time(one.from_s);
    let place = found.from.lastIndexOf(from);
    if (place < 0) {
      place = found.from.push(from) - 1;
      found.to.push(this.time(one.to_s));
      found.mean.push(0);
      found.low.push(0);
      found.high.push(0);
    }
    found.mean[place] += one.mean_per_s;
    for (const [name, value] of [["low", one.low_per_s], ["high", one.high_per_s]]) {
      found[name][place] = value === null || found[name][place] === null ? null : found[name][place] + value;
    }
    this.model = one.model;
  }

  sortForecast() {
    const found = this.forecast, order = found.from.map((_, place) => place).sort((a, b) => found.from[a] - found.from[b]);
    for (const name of Object.keys(found)) found[name] = order.map((place) => found[name][place]);
  }

  addLatency(found) {
    found.at_s.forEach((at, place) => {
      this.latency.at.push(this.time(at));
      for (const name of ["p50", "p95", "p99"]) this.latency[name].push(found[`${name}_s`][place]);
    });
  }

  // What a plan expects of latency, and what is promised.
  foresee(decision) {
    const { latency } = decision;
    if (!latency) return;
    this.outlook.at.push(this.time(decision.at_s));
    for (const [name, value] of [["p50", latency.p50_s], ["p95", latency.p95_s], ["promised", latency.promised_s]]) this.outlook[name].push(value);
    this.outlook.level = latency.promised_s === null ? null : latency.quantile;
  }

  // The part of the intervals shown that kept the promise; null where that cannot be told from what is shown.
  get kept() {
    const target = this.outlook.promised.at(-1), values = (this.latency[`p${Math.round(100 * this.outlook.level)}`] || []).filter((value) => value !== null);
    return this.outlook.level === null || !target || !values.length ? null : values.filter((value) => value <= target).length / values.length;
  }

  slots(decision) {
    this.foresee(decision);
    if (decision.planned === null) return;
    this.slotsAt.push(this.time(decision.at_s));
    this.planned.push(decision.planned);
    this.requested.push(decision.requested);
  }

  judge(event) {
    if (event.kind === JUDGED) this.judged = event.data.workers || {};
    const verdict = VERDICTS[event.kind];
    if (verdict && event.data.worker) this.health.set(event.data.worker, { verdict, at_s: event.at_s, reason: event.data.reason || event.message });
  }

  apply(kind, data) {
    if (kind === "measurement") {
      const at = this.time(data.at_s), sum = (values) => values.reduce((total, value) => total + value, 0);
      if (this.at.length && at <= this.at.at(-1)) return;
      this.at.push(at);
      this.input.push(sum(data.arrived_per_s));
      this.queue.push(sum(data.queued));
      this.observed.push(sum(data.replicas));
      this.row = data;
      if (this.at.length > MOST) for (const name of ["at", "input", "queue", "observed"]) this[name] = this[name].slice(-MOST / 2);
    } else if (kind === "latency") {
      if (!this.latency.at.length || this.time(data.at_s[0]) > this.latency.at.at(-1)) this.addLatency(data);
    } else if (kind === "decision") {
      if (this.decisions.some((one) => one.id === data.id)) return;
      this.decisions = [...this.decisions, data].slice(-LISTED);
      this.slots(data);
      data.expected.forEach((one) => this.expect(one));
    } else if (kind === "event") {
      this.events = [...this.events, data].slice(-LISTED);
      this.judge(data);
    } else if (kind === "features") {
      this.features.set(`${data.level} ${data.owner}`, data);
    } else if (kind === "end") {
      this.run = { ...this.run, ...data };
    }
  }
}

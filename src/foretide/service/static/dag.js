// The topology: boxes drawn once, figures filled in as they come.

import { draw, level, number, percent, replace } from "./format.js";

const PIPS = 12;

export class Dag {
  constructor(root, onOperator) {
    this.root = root;
    this.onOperator = onOperator;
    this.operators = new Map();
    this.sources = new Map();
    this.edges = [];
  }

  show(topology) {
    this.layout = topology.layout;
    this.operators.clear();
    this.sources.clear();
    const svg = draw("svg", { viewBox: `0 0 ${topology.width} ${topology.height}`, role: "group", "aria-label": `Topology ${topology.name}` });
    svg.append(draw("defs", {}, draw("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, draw("path", { d: "M0,.6 L8,4 L0,7.4 z", class: "head" }))));
    this.edges = topology.edges.map((edge) => this.edge(svg, edge));
    for (const node of topology.nodes) svg.append(node.kind === "operator" ? this.operator(node) : this.end(node));
    for (const { text, name } of this.edges) svg.append(name, text);
    // A small topology is not blown up; a large one keeps letters that can be read, and scrolls.
    svg.style.setProperty("--natural", `${topology.width}px`);
    replace(this.root, svg);
  }

  edge(svg, edge) {
    const path = draw("path", { d: curve(edge.points), class: `edge ${edge.transport}`, "marker-end": "url(#arrow)", "stroke-width": 1.6 });
    path.append(draw("title", {}, `${edge.start} → ${edge.end}, ${edge.grouping}, ${edge.transport}`));
    svg.append(path);
    const [[x, y], [toX, toY]] = edge.points;
    const middle = (x + toX) / 2 - 3, height = (y + toY) / 2;
    const text = draw("text", { x: middle, y: edge.label ? height + 15 : height - 7, class: "rate" });
    const name = draw("text", { x: middle, y: height - 7, class: "rate" }, short(edge.label, 13));
    const place = this.layout.edges.findIndex(([start, output, end]) => start === edge.start && output === edge.output && end === edge.end);
    return { path, text, name, place };
  }

  end(node) {
    const group = draw("g", { class: node.kind, transform: `translate(${node.x},${node.y})` });
    group.append(draw("rect", { class: "box", width: node.width, height: node.height, rx: node.kind === "source" ? 27 : 6 }));
    group.append(draw("text", { x: node.width / 2, y: 23, class: "name", "text-anchor": "middle" }, short(node.id, 17)));
    const figure = draw("text", { x: node.width / 2, y: 41, class: "faint", "text-anchor": "middle" }, node.connector || (node.kind === "sink" ? "sink" : ""));
    group.append(figure);
    if (node.kind === "source") this.sources.set(node.id, figure);
    return group;
  }

  operator(node) {
    const open = () => this.onOperator(node.id);
    const group = draw("g", { class: `operator${node.stateful ? " stateful" : ""}`, transform: `translate(${node.x},${node.y})`, tabindex: 0, role: "button", onclick: open, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } } });
    const figures = {
      node,
      group,
      replicas: draw("text", { x: 12, y: 40 }),
      pips: draw("g", { transform: "translate(62,31)" }),
      hand: draw("text", { x: node.width - 11, y: 21, class: "hand" }),
      fill: draw("rect", { class: "fill calm", x: 12, y: 52, width: 0, height: 7, rx: 3.5 }),
      busy: draw("text", { x: node.width - 11, y: 60, class: "faint", "text-anchor": "end" }),
      work: draw("text", { x: 12, y: 80, class: "faint" }),
      wait: draw("text", { x: node.width - 11, y: 80, class: "faint", "text-anchor": "end" }),
    };
    figures.wide = node.width - 62;
    group.append(draw("rect", { class: "box", width: node.width, height: node.height, rx: 10 }), draw("title", {}, node.id));
    group.append(draw("text", { x: 12, y: 21, class: "name" }, short(node.id, 15)), figures.hand, figures.replicas, figures.pips);
    group.append(draw("rect", { class: "track", x: 12, y: 52, width: figures.wide, height: 7, rx: 3.5 }), figures.fill, figures.busy, figures.work, figures.wait);
    this.operators.set(node.id, figures);
    return group;
  }

  // row: a measurement with its figures in the order of the layout.
  update(row) {
    this.layout.operators.forEach((id, place) => {
      const figures = this.operators.get(id);
      if (figures) this.fill(figures, row, place);
    });
    this.layout.sources.forEach((id, place) => {
      const text = this.sources.get(id);
      if (text) text.textContent = `${number(row.arrived_per_s[place])}/s`;
    });
    for (const { path, text, place } of this.edges) {
      const rate = place < 0 ? null : row.passed_per_s[place];
      text.textContent = rate === null ? "" : `${number(rate)}/s`;
      path.setAttribute("stroke-width", rate === null ? 1.6 : Math.min(6, 1.2 + Math.log10(1 + rate)).toFixed(2));
    }
  }

  fill(figures, row, place) {
    const active = row.replicas[place], busy = row.utilisation[place], pool = figures.node.maximum;
    figures.replicas.textContent = `${active} of ${pool}`;
    if (figures.active !== active) this.pips(figures, active, pool);
    figures.fill.setAttribute("width", (figures.wide * Math.min(1, busy)).toFixed(1));
    figures.fill.setAttribute("class", `fill ${level(busy)}`);
    figures.busy.textContent = percent(busy);
    figures.work.textContent = `${number(row.processed_per_s[place])}/s`;
    figures.wait.textContent = row.queued[place] >= 0.5 ? `${number(row.queued[place])} waiting` : "";
    figures.group.setAttribute("aria-label", `${figures.node.id}: ${active} of ${pool} replicas, ${percent(busy)} busy, ${figures.work.textContent}`);
  }

  pips(figures, active, pool) {
    figures.active = active;
    const shown = Math.min(pool, PIPS), on = pool <= PIPS ? active : Math.max(1, Math.round(active * PIPS / pool));
    const each = Math.min(9.8, 79 / shown), size = each - 2.5;
    replace(figures.pips, ...Array.from({ length: shown }, (_, place) => draw("rect", { class: `pip${place < on ? " on" : ""}`, x: (place * each).toFixed(1), y: (11 - size) / 2, width: size.toFixed(1), height: size.toFixed(1), rx: 2 })));
  }

  setByHand(overrides) {
    for (const [id, figures] of this.operators) figures.hand.textContent = overrides.some((one) => one.operator === id) ? "set by hand" : "";
  }
}

function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function curve(points) {
  let [x, y] = points[0];
  let path = `M${x},${y}`;
  points.slice(1).forEach(([toX, toY], place) => {
    const bend = (toX - x) / 2;
    path += place % 2 ? ` L${toX},${toY}` : ` C${x + bend},${y} ${toX - bend},${toY} ${toX},${toY}`;
    [x, y] = [toX, toY];
  });
  return path;
}

// One operator: its figures, and replicas set by hand for a while.

import { runPath, send } from "./api.js";
import { make, number, percent, replace, seconds } from "./format.js";
import { tell } from "./story.js";

export function open(record, control, id, changed) {
  const dialog = document.getElementById("operator");
  const node = record.topology.nodes.find((one) => one.id === id), place = record.topology.layout.operators.indexOf(id);
  const { row } = record, set = control.overrides.find((one) => one.operator === id);
  const facts = [
    ["replicas", row ? `${row.replicas[place]} active of ${node.maximum} (at least ${node.minimum})` : "–"],
    ["utilisation", row ? percent(row.utilisation[place]) : "–"],
    ["processed", row ? `${number(row.processed_per_s[place])} events/s` : "–"],
    ["waiting", row ? number(row.queued[place]) : "–"],
    ...(row?.dropped_per_s?.[place] ? [["dropped", `${number(row.dropped_per_s[place])} events/s`]] : []),
    ["execution time", node.execution_s === null ? "measured" : `${seconds(node.execution_s)} declared`],
    ["state", node.stateful ? stateOf(row, place) : "none"],
  ];
  const last = record.decisions.filter((one) => one.planned !== null).at(-1);
  const close = make("button", { type: "button", onclick: () => dialog.close(), "aria-label": "Close" }, "Close");
  replace(dialog, make("header", {}, make("h2", {}, id), close),
    make("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    last ? make("button", { type: "button", onclick: () => { dialog.close(); tell(record, last.id, id); } }, "Why this many?") : null,
    control.steerable ? byHand(record, node, set, dialog, changed) : make("p", { class: "note" }, control.obstacle));
  dialog.showModal();
}

function stateOf(row, place) {
  const keys = row?.state_keys?.[place];
  return keys ? `${number(keys)} keys, ${number(row.state_bytes[place] / 1e6)} MB` : "keeps state by key";
}

function byHand(record, node, set, dialog, changed) {
  const problem = make("p", { class: "note", role: "alert" });
  const replicas = make("input", { type: "number", min: node.minimum, max: node.maximum, value: set ? set.replicas : node.minimum, name: "replicas", required: true });
  const minutes = make("input", { type: "number", min: 1, max: 10080, value: 10, name: "minutes", required: true });
  const path = runPath(record.run.id, `/overrides/${encodeURIComponent(node.id)}`);
  const act = async (method, body) => {
    try {
      changed(await send(method, path, body));
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const form = make("form", { class: "by-hand", onsubmit: (event) => { event.preventDefault(); act("PUT", { replicas: Number(replicas.value), for_s: 60 * Number(minutes.value), reason: "dashboard" }); } },
    make("label", {}, "replicas", replicas), make("label", {}, "for minutes", minutes), make("button", { class: "strong", type: "submit" }, "Set by hand"),
    set ? make("button", { type: "button", onclick: () => act("DELETE") }, "Let plans decide") : null);
  return make("div", {}, form, set ? make("p", { class: "note" }, `set to ${set.replicas} for another ${seconds(set.left_s)}`) : null, problem);
}

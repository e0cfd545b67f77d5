// Why a decision was made: for each operator the steps from measurements through equations to its replicas.

import { get, runPath } from "./api.js";
import { clock, make, number, replace } from "./format.js";

export const STATUS = { applied: "good", unchanged: "", advised: "warn", refused: "bad", failed: "bad", skipped: "" };

export async function tell(record, id, operator = null) {
  const dialog = document.getElementById("story");
  const story = await get(runPath(record.run.id, `/decisions/${id}`));
  const body = make("div", {});
  const title = `Decision ${story.cycle} at ${clock(record.time(story.at_s))}`;
  const close = make("button", { type: "button", onclick: () => dialog.close(), "aria-label": "Close" }, "Close");
  replace(dialog, make("header", {}, make("div", {}, make("h2", {}, title, " ", make("span", { class: `chip ${STATUS[story.status] || ""}` }, story.status)), make("div", { class: "note" }, summary(story))), close), body);
  if (!story.explanations.length) replace(body, make("p", {}, story.failure || story.detail || "No plan was made in this cycle."));
  else choose(body, story, operator || changed(story));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

function summary(story) {
  const counts = story.planned === null ? [] : [`planned ${story.planned}`, `requested ${story.requested}`, `observed ${story.observed} replicas`];
  return [story.planner ? `by ${story.planner}` : "", counts.join(", "), story.detail].filter(Boolean).join(" · ");
}

function changed(story) {
  return story.changes.length ? story.changes[0].operator : story.explanations[0].operator;
}

function choose(body, story, operator) {
  const one = story.explanations.find((found) => found.operator === operator) || story.explanations[0];
  const moves = new Map(story.changes.map((change) => [change.operator, `${change.from} → ${change.to}`]));
  const choices = story.explanations.map((found) => make("button", { type: "button", "aria-pressed": String(found === one), onclick: () => choose(body, story, found.operator) }, `${found.operator} ${moves.get(found.operator) || found.replicas}`));
  const steps = one.steps.map((step, place) => make("li", { class: place === one.steps.length - 1 ? "final" : null },
    make("div", { class: "sum" }, `${step.symbol} = ${number(step.value, 4)}${step.unit ? ` ${step.unit}` : ""}`),
    make("div", {}, step.meaning, make("div", { class: "equation" }, step.equation))));
  replace(body,
    make("div", { class: "choices", role: "group", "aria-label": "Operator" }, ...choices),
    make("ol", { class: "steps" }, ...steps),
    ...one.notes.map((note) => make("p", { class: "note" }, note)),
    make("p", {}, make("b", {}, `${one.operator}: ${one.replicas} replica${one.replicas === 1 ? "" : "s"}`), ` (${one.outcome})`),
    make("details", {}, make("summary", {}, `made from ${one.came_from.length} records`), make("code", {}, one.came_from.join(", "))));
}

// The API for people, from its own OpenAPI document.

import { make, replace } from "./format.js";

const theme = localStorage.getItem("foretide-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.documentElement.dataset.theme = theme;
const api = await (await fetch("openapi.json")).json();

const resolve = (schema) => (schema && schema.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema || {});

function kind(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.enum || schema.const !== undefined) return (schema.enum || [schema.const]).map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `list of ${kind(schema.items)}`;
  return schema.type || "anything";
}

function fields(schema) {
  const { properties = {}, required = [] } = resolve(schema);
  const rows = Object.entries(properties).map(([name, one]) => make("tr", {}, make("td", { class: "nowrap" }, make("b", {}, name), required.includes(name) ? "" : " (optional)"), make("td", {}, kind(one)), make("td", {}, one.description || "")));
  return rows.length ? make("table", {}, make("tbody", {}, ...rows)) : null;
}

function operation(path, method, one) {
  const body = one.requestBody?.content?.["application/json"]?.schema;
  const answer = one.responses["200"]?.content?.["application/json"]?.schema;
  const example = resolve(body).examples?.[0];
  const asked = (one.parameters || []).map((parameter) => make("tr", {}, make("td", { class: "nowrap" }, make("b", {}, parameter.name), parameter.required ? "" : " (optional)"), make("td", {}, `${parameter.in}: ${kind(parameter.schema)}`), make("td", {}, parameter.description || "")));
  const errors = Object.keys(one.responses).filter((status) => status !== "200").join(", ");
  return make("details", { class: "card" }, make("summary", {}, make("b", {}, `${method.toUpperCase()} ${path}`), ` ${one.summary || ""}`),
    make("p", {}, one.description || ""), asked.length ? make("table", {}, make("tbody", {}, ...asked)) : null,
    body ? make("div", {}, make("h2", {}, "Body"), fields(body)) : null,
    example ? make("pre", {}, `curl -H 'Content-Type: application/json' -d '${JSON.stringify(example)}' ${location.origin}${path.replace("{model}", "lr").replace("{run}", "latest")}`) : null,
    answer ? make("div", {}, make("h2", {}, "Answer"), fields(answer)) : null,
    make("p", { class: "note" }, `Problems: ${errors}`));
}

const found = Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => operation(path, method, one)));
replace(document.getElementById("docs"), make("section", { class: "about" }, make("h1", {}, `${api.info.title} ${api.info.version}`), make("p", {}, api.info.description)), ...found);

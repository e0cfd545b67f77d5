// Numbers, times and elements for people. Whatever comes from data becomes text, never markup.

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${trim(value / 1e6, digits)} M`;
  if (size >= 1e4) return `${trim(value / 1e3, digits)} k`;
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return trim(value, digits);
}

function trim(value, digits) {
  return String(Number(value.toPrecision(digits)));
}

export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 0.9995) return `${number(1000 * value)} ms`;
  return value < 120 ? `${number(value)} s` : `${number(value / 60)} min`;
}

export function clock(value) {
  const whole = Math.max(0, Math.round(value)), pad = (n) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600), rest = `${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

export function percent(value) {
  return Number.isFinite(value) ? `${Math.round(100 * value)} %` : "–";
}

export function level(value) {
  return value > 0.9 ? "full" : value > 0.75 ? "busy" : "calm";
}

// An element with attributes and children; a child that is no element is text.
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

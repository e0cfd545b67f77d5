// Talking to the service: JSON with a token where one is needed, and live events by a stream that carries it too.

const KEY = "foretide-token";
let asking = null;

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

function headers(extra = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...extra, Authorization: `Bearer ${token}` } : extra;
}

async function request(path, options = {}) {
  for (;;) {
    const answer = await fetch(path, { ...options, headers: headers(options.headers) });
    if (answer.status !== 401) return answer;
    await askForToken();
  }
}

function askForToken() {
  asking = asking || new Promise((resolve) => {
    const dialog = document.getElementById("token"), form = dialog.querySelector("form");
    form.addEventListener("submit", () => {
      sessionStorage.setItem(KEY, form.elements.token.value);
      form.reset();
      asking = null;
      resolve();
    }, { once: true });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}

async function checked(answer) {
  if (answer.ok) return answer.json();
  let detail = `${answer.status} ${answer.statusText}`;
  try {
    detail = (await answer.json()).detail || detail;
  } catch { /* no problem document: the status has to do */ }
  throw new Problem(answer.status, detail);
}

export async function get(path) {
  return checked(await request(path));
}

export async function send(method, path, body) {
  const options = body === undefined ? { method } : { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return checked(await request(path, options));
}

export function runPath(run, rest = "") {
  return `v1/runs/${encodeURIComponent(run)}${rest}`;
}

// Follow a run from a row on. `on` gets (kind, data); a broken connection is taken up again where it was.
export function follow(run, after, on, state) {
  const control = new AbortController();
  let last = after, wait = 500;
  (async () => {
    while (!control.signal.aborted) {
      try {
        const answer = await request(runPath(run, `/stream?after=${last}`), { signal: control.signal });
        if (!answer.ok) throw new Problem(answer.status, answer.statusText);
        state("live");
        wait = 500;
        const ended = await read(answer.body, (kind, data, id) => {
          if (id) last = id;
          on(kind, data);
        });
        if (ended) return state("ended");
      } catch (error) {
        if (control.signal.aborted) return;
      }
      state("lost");
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(2 * wait, 10000);
    }
  })();
  return () => control.abort();
}

async function read(body, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", ended = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return ended;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const fields = Object.fromEntries(event.split("\n").filter((line) => !line.startsWith(":")).map((line) => {
        const colon = line.indexOf(": ");
        return [line.slice(0, colon), line.slice(colon + 2)];
      }));
      if (!fields.event) continue;
      on(fields.event, JSON.parse(fields.data), fields.id);
      ended = ended || fields.event === "end";
    }
  }
}
